"""A folder like those of OPUS-MT in Hugging Face format, with random weights: real ones cannot be fetched here.

Two SentencePiece models that normalise (NFKC), one vocabulary of both (EOS 0, UNK 1, PAD last, which the decoder starts
from), swish, biases everywhere, a bias on the logits and scaled embeddings, as Tiedemann and Thottingal 2020 have them.
"""

import io
import json
from pathlib import Path
from typing import Any

import sentencepiece
import torch

SOURCE = [
    "The cat sat on the mat.", "A dog runs through the park.", "Where is the station?", "I would like two tickets.",
    "The lights in the kitchen are on.", "Who has seen my keys?", "It rains since yesterday.", "We walk to the sea.",
]  # fmt: skip
TARGET = [
    "Die Katze saß auf der Matte.", "Ein Hund läuft durch den Park.", "Wo ist der Bahnhof?", "Ich möchte zwei Karten.",
    "Das Licht in der Küche ist an.", "Wer hat meine Schlüssel gesehen?", "Seit gestern regnet es.",
    "Wir gehen ans Meer.",
]  # fmt: skip


def spm(lines: list[str], size: int, kind: str = "unigram") -> bytes:
    """A SentencePiece model as OPUS-MT's are: NFKC, and byte pieces for nothing."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines * 4),
        model_writer=model,
        vocab_size=size,
        hard_vocab_limit=False,
        model_type=kind,
        normalization_rule_name="nmt_nfkc",
        minloglevel=2,
        num_threads=1,
    )
    return model.getvalue()


def pieces(model: bytes) -> list[str]:
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    return [processor.id_to_piece(i) for i in range(processor.get_piece_size())]


def write_opus(folder: Path, *, separate: bool = False, codes: tuple[str, ...] = (), **figures: Any) -> Path:
    """Write such a folder; `figures` are MarianConfig's, `codes` language codes of the vocabulary."""
    from clearhead.export.extra import program, quietly

    transformers = program("transformers")
    folder.mkdir(parents=True)
    source, target = spm(SOURCE, 50), spm(TARGET, 60)
    (folder / "source.spm").write_bytes(source)
    (folder / "target.spm").write_bytes(target)
    ours, theirs = pieces(source)[3:], pieces(target)[3:]  # without <unk>, <s> and </s>
    joint = [*codes, *ours, *(piece for piece in theirs if piece not in ours)]
    lists = [[*codes, *ours], theirs] if separate else [joint]
    # PAD comes last in OPUS-MT; with two vocabularies one id must do for both.
    ordered = [["</s>", "<unk>", "<pad>", *each] if separate else ["</s>", "<unk>", *each, "<pad>"] for each in lists]
    tables = [{piece: place for place, piece in enumerate(each)} for each in ordered]
    pad = tables[0]["<pad>"]
    for name, table in zip(("vocab.json", "target_vocab.json"), tables):
        (folder / name).write_text(json.dumps(table), encoding="utf-8")
    config = {
        "vocab_size": len(tables[0]),
        "decoder_vocab_size": len(tables[-1]),
        "share_encoder_decoder_embeddings": not separate,
        "d_model": 32,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 4,
        "encoder_ffn_dim": 48,
        "decoder_ffn_dim": 48,
        "activation_function": "swish",
        "scale_embedding": True,
        "max_position_embeddings": 128,
        "pad_token_id": pad,
        "decoder_start_token_id": pad,
        "eos_token_id": 0,
        "forced_eos_token_id": 0,
    } | figures
    drawn = torch.Generator().manual_seed(7)
    with quietly(), torch.random.fork_rng():
        model = transformers.MarianMTModel(transformers.MarianConfig(**config))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "embed_positions" not in name:
                spread = 0.3 if parameter.dim() > 1 else 0.2
                parameter.copy_(torch.randn(parameter.shape, generator=drawn) * spread + ("norm.weight" in name))
        model.final_logits_bias.copy_(torch.randn(model.final_logits_bias.shape, generator=drawn) * 0.3)
        for table in {model.model.encoder.embed_tokens, model.model.decoder.embed_tokens}:
            table.weight[pad] = 0.0  # PAD is a zero row in Marian's own files, too
    model.generation_config = transformers.GenerationConfig(
        bad_words_ids=[[pad]],
        decoder_start_token_id=config["decoder_start_token_id"],
        pad_token_id=config["pad_token_id"],
        eos_token_id=0,
        num_beams=6,
    )
    with quietly():
        model.save_pretrained(str(folder))
    settings = {
        "tokenizer_class": "MarianTokenizer",
        "source_lang": "en",
        "target_lang": "de",
        "separate_vocabs": separate,
        "model_max_length": 128,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    return folder
