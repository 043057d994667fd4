"""The same weights in transformers and CTranslate2 give the same figures, in float64 where the program has it."""

import importlib.util
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from clearhead.base.errors import BundleError, InputError
from clearhead.decoding.search import force
from clearhead.export.ctranslate import ctranslate2_spec, to_ctranslate2
from clearhead.export.extra import program
from clearhead.export.from_marian import NEVER, from_marian
from clearhead.export.marian import to_marian
from clearhead.export.marian_folder import MarianFolder, read_folder
from clearhead.export.peers import MarianPeer
from clearhead.export.texts import check_tokenizers
from clearhead.models import build, presets
from clearhead.models.config import TransformerConfig
from clearhead.models.seq2seq import Seq2Seq
from clearhead.nn.padding import Padded
from clearhead.text.mapped import MappedTokenizer
from clearhead.text.symbols import BOS, EOS, PAD
from clearhead.text.tokenizer import Tokenizers

# One process imports transformers, which takes seconds.
pytestmark = [pytest.mark.timeout(600), pytest.mark.xdist_group("exchange")]
for name in ("transformers", "ctranslate2"):
    if importlib.util.find_spec(name) is None:
        pytest.skip(f"{name} is not installed", allow_module_level=True)

from tests.opus import write_opus  # noqa: E402

SIZE = {"d_model": 16, "d_ff": 24, "attention": {"heads": 4}, "encoder_layers": 2, "decoder_layers": 2, "norm": "post"}


def filled(config: Any) -> Seq2Seq:
    """Random weights, biases and gains among them: a bias that is left out, or a gain, would show."""
    model = build(config, seed=5).eval()
    drawn = torch.Generator().manual_seed(6)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() == 1:
                parameter.copy_(torch.randn(parameter.shape, generator=drawn) * 0.3 + ("norm.weight" in name))
    return model


def logits(theirs: Any, source: list[int], target: list[int]) -> torch.Tensor:
    with torch.no_grad():
        found: torch.Tensor = theirs(
            input_ids=torch.tensor([source]), decoder_input_ids=torch.tensor([target]), use_cache=False
        ).logits[0]
    return found


SOURCE, TARGET = [5, 6, 9, 4, 3], [2, 8, 7, 6]


def compared(model: Seq2Seq, theirs: Any) -> float:
    with torch.no_grad():
        ours = model(Padded.from_lists([SOURCE]), Padded.from_lists([TARGET]))
    return float((ours - logits(theirs, SOURCE, TARGET)).abs().max())


@pytest.mark.parametrize(
    "overrides",
    [
        {},
        {"activation": "gelu", "attention": {"bias": True}, "scale_embeddings": False},
        {"activation": "silu", "embeddings": "output", "source_vocab_size": 11, "output_bias": True},
        {"embeddings": "separate", "source_vocab_size": 11, "layer_norm_epsilon": 1e-3},
    ],
)
def test_marian_gives_our_logits(overrides: dict[str, Any]) -> None:
    config = presets.named("tiny", 14, SIZE | overrides)
    assert isinstance(config, TransformerConfig)
    model = filled(config).double()
    assert compared(model, to_marian(model, config)) < 1e-12


def test_sines_by_turns_would_show(monkeypatch: pytest.MonkeyPatch) -> None:
    config = presets.base(14, **SIZE)
    model = filled(config).double()
    monkeypatch.setattr("clearhead.export.marian.in_halves", lambda tensor, axis: tensor)
    with torch.no_grad():
        theirs = to_marian(model, config)
        for stack in (theirs.model.encoder, theirs.model.decoder):
            stack.embed_positions.weight.copy_(stack.embed_positions.create_weight())
    assert compared(model, theirs) > 1e-3


@pytest.mark.parametrize(
    "overrides",
    [
        {},
        {"norm": "pre", "activation": "gelu"},
        {"activation": "silu", "output_bias": True, "scale_embeddings": False, "layer_norm_epsilon": 1e-2},
        {"norm": "pre", "activation": "swiglu", "embeddings": "separate", "source_vocab_size": 11},
        {"attention": {"kv_heads": 2, "head_dim": 6, "bias": True}},
        {"norm": "pre", "attention": {"kv_heads": 1}},
        {"positions": {"kind": "learned", "max_positions": 9}},
        {"positions": {"kind": "none"}, "d_model": 15, "attention": {"heads": 3}},
    ],
)
def test_ctranslate2_gives_our_scores(overrides: dict[str, Any], tmp_path: Path) -> None:
    config = presets.base(14, **(SIZE | overrides))
    model = filled(config)
    pieces = [f"t{place}" for place in range(14)]
    source = pieces[: config.source_vocab_size or 14]
    to_ctranslate2(model, config, source, pieces, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} >= {"model.bin", "config.json"}
    theirs = program("ctranslate2").Translator(str(tmp_path), compute_type="float32", intra_threads=1)
    (scored,) = theirs.score_batch(
        [[pieces[token] for token in SOURCE[:-1]]], [[pieces[token] for token in TARGET[1:]]]
    )
    (ours,) = force(model, Padded.from_lists([SOURCE]), [TARGET[1:]])
    assert scored.log_probs == pytest.approx(ours.token_log_probs, abs=1e-5)


def test_a_piece_with_two_ids_is_refused() -> None:
    config = presets.base(14, **SIZE)
    with pytest.raises(InputError, match="'t3' stands for two ids"):
        ctranslate2_spec(filled(config), config, [f"t{place % 13 + 3 * (place == 13)}" for place in range(14)], ["t"])


def test_without_the_program_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "ctranslate2", None)
    with pytest.raises(InputError, match=r"ctranslate2 is needed.*pip install --editable '\.\[exchange\]'"):
        program("ctranslate2")


# ------------------------------------------------------------------------------------------------------ from elsewhere


@pytest.fixture(scope="module")
def opus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_opus(tmp_path_factory.mktemp("opus") / "shared", codes=(">>deu<<",))


def theirs_of(folder: Path) -> Any:
    model = program("transformers").MarianMTModel.from_pretrained(str(folder), local_files_only=True).eval()
    return model.double()


def imported(folder: Path) -> tuple[MarianFolder, Seq2Seq, float]:
    """The folder, its model in float64, and how far its logits are from theirs, token by token of their vocabulary."""
    read = read_folder(folder)
    model = from_marian(read)[0].double()
    theirs = theirs_of(folder)
    source, target = [7, 9, 12, 5, EOS], [BOS, 6, 8, 11]
    with torch.no_grad():
        ours = model(Padded.from_lists([source]), Padded.from_lists([target]))
    found = logits(theirs, [read.source.ids[i] for i in source], [read.target.ids[i] for i in target])
    places = [place for place, there in enumerate(read.target.ids) if there >= 0]
    return read, model, float((ours[:, places] - found[:, [read.target.ids[i] for i in places]]).abs().max())


def test_a_marian_model_gives_its_logits(opus: Path) -> None:
    read, model, apart = imported(opus)
    assert apart < 1e-6  # their sinusoids are rounded to float32
    assert read.target.ids[PAD] == -1 and read.target.pieces[4] == ">>deu<<"
    assert len(read.target.ids) == json.loads((opus / "config.json").read_text())["vocab_size"] + 1
    with torch.no_grad():
        probability = model(Padded.from_lists([[5, EOS]]), Padded.from_lists([[BOS]])).softmax(-1)[0]
    assert probability[PAD] == 0.0 and probability[BOS] > 0.0  # theirs gives PAD some, and so do we, as BOS


@pytest.mark.parametrize(
    "figures", [{"activation_function": "gelu", "scale_embedding": False}, {"tie_word_embeddings": False}]
)
def test_two_vocabularies(figures: dict[str, Any], tmp_path: Path) -> None:
    _, model, apart = imported(write_opus(tmp_path / "x", separate=True, **figures))
    assert apart < 1e-6
    tied = model.decoder.output.weight is model.decoder.input.embedding.weight  # type: ignore[union-attr]
    assert tied == figures.get("tie_word_embeddings", True)


def rewritten(opus: Path, to: Path, name: str, change: Callable[[dict[str, Any]], object]) -> Path:
    shutil.copytree(opus, to)
    table = json.loads((to / name).read_text())
    change(table)
    (to / name).write_text(json.dumps(table))
    return to


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("config.json", {"model_type": "bart"}, "model_type is 'bart'"),
        ("config.json", {"normalize_before": True}, "normalize_before = True"),
        ("config.json", {"activation_function": "tanh"}, "activation_function = 'tanh'"),
        ("config.json", {"encoder_ffn_dim": 47}, "encoder_ffn_dim and decoder_ffn_dim differ"),
        ("config.json", {"decoder_attention_heads": 8}, "encoder_attention_heads and decoder_attention_heads differ"),
        ("config.json", {"d_model": 33}, "d_model"),
        ("config.json", {"d_model": "32"}, "d_model: expected a whole number, got '32'"),
        ("config.json", {"vocab_size": 5}, "vocab_size is 5"),
        ("config.json", {"eos_token_id": 4}, "eos_token_id is 4"),
        ("config.json", {"encoder_layers": 3}, "lacks 'model.encoder.layers.2"),
        ("config.json", {"encoder_layers": 1}, "holds 'model.encoder.layers.1"),
        ("config.json", {"encoder_ffn_dim": 40, "decoder_ffn_dim": 40}, r"fc1.bias.* should be \[40\] and is \[48\]"),
        ("config.json", {"activation_function": []}, r"activation_function = \[\]"),
        ("config.json", {"scale_embedding": "false"}, "scale_embedding: expected true or false, got 'false'"),
        ("config.json", {"tie_word_embeddings": 1}, "tie_word_embeddings: expected true or false, got 1"),
        ("config.json", {"is_encoder_decoder": False}, "is_encoder_decoder = False has no counterpart"),
        (
            "config.json",
            {"quantization_config": {"quant_method": "awq"}},
            "quantization_config = .* has no counterpart",
        ),
        ("generation_config.json", {"decoder_start_token_id": 0}, "decoder_start_token_id is 0"),
        ("vocab.json", {"surplus": [1]}, "do not go from 0"),
        ("vocab.json", {"surplus": True}, "do not go from 0"),
        ("tokenizer_config.json", {"separate_vocabs": "x"}, "separate_vocabs: expected true or false, got 'x'"),
        ("generation_config.json", {"decoder_start_token_id": 10**9}, "generation_config.json: decoder_start_token_id"),
        ("vocab.json", {"surplus": 4}, "do not go from 0"),
        ("tokenizer_config.json", {"unk_token": "<what>"}, "has no '<what>'"),
    ],
)
def test_what_has_no_counterpart_is_named(
    opus: Path, tmp_path: Path, name: str, change: dict[str, Any], message: str
) -> None:
    folder = rewritten(opus, tmp_path / "x", name, lambda table: table.update(change))
    with pytest.raises(BundleError, match=message):
        from_marian(read_folder(folder))


Q_PROJ, FC1_BIAS = "model.encoder.layers.1.self_attn.q_proj.weight", "model.decoder.layers.0.fc1.bias"
SHARED, POSITIONS = "model.shared.weight", "model.encoder.embed_positions.weight"


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        (Q_PROJ, lambda tensor: tensor[:, :31], r"should be \[32, 32\] and is \[32, 31\]"),
        (Q_PROJ, lambda tensor: tensor[0], r"should be \[32, 32\] and is \[32\]"),
        (Q_PROJ, lambda tensor: tensor[0, 0].clone(), r"should be \[32, 32\] and is \[\]"),
        (Q_PROJ, lambda tensor: tensor[None], r"should be \[32, 32\] and is \[1, 32, 32\]"),
        (Q_PROJ, lambda tensor: tensor.to(torch.int8), "is int8, but weights are floating-point numbers"),
        (FC1_BIAS, lambda tensor: tensor[:, None], r"should be \[48\] and is \[48, 1\]"),
        (SHARED, lambda tensor: tensor[:-1], r"should be \[(\d+), 32\] and is \[\d+, 32\]"),
        (SHARED, lambda tensor: tensor[0], r"should be \[\d+, 32\] and is \[32\]"),
        (SHARED, lambda tensor: tensor.to(torch.int64), "is int64"),
        ("final_logits_bias", lambda tensor: tensor[:, 1:], r"should be \[1, \d+\] and is \[1, \d+\]"),
        ("final_logits_bias", lambda tensor: tensor[0, 0].clone(), r"should be \[1, \d+\] and is \[\]"),
        (POSITIONS, lambda tensor: torch.zeros(128, 31), "is not the table of sinusoids"),
        (POSITIONS, lambda tensor: torch.zeros(()), "is not the table of sinusoids"),
        ("more", lambda tensor: torch.zeros(3, dtype=torch.int64), "holds 'more', which has no counterpart"),
    ],
)
def test_a_tensor_that_the_configuration_does_not_call_for_is_named(
    opus: Path, tmp_path: Path, name: str, change: Callable[[Tensor | None], Tensor], message: str
) -> None:
    shutil.copytree(opus, tmp_path / "x")
    weights = load_file(tmp_path / "x/model.safetensors")
    weights[name] = change(weights.get(name)).contiguous()
    save_file(weights, tmp_path / "x/model.safetensors")
    with pytest.raises(BundleError, match=f"{name}.*{message}" if name != "more" else message):
        from_marian(read_folder(tmp_path / "x"))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_other_floating_point_numbers_are_read(opus: Path, tmp_path: Path, dtype: torch.dtype) -> None:
    shutil.copytree(opus, tmp_path / "x")
    weights = {name: tensor.to(dtype) for name, tensor in load_file(opus / "model.safetensors").items()}
    save_file(weights, tmp_path / "x/model.safetensors")
    state = from_marian(read_folder(tmp_path / "x"))[0].state_dict()
    exact = from_marian(read_folder(opus))[0].state_dict()
    for name, tensor in state.items():
        assert tensor.dtype == torch.float32
        rounded = exact[name].to(dtype).float()
        assert torch.equal(tensor, rounded.masked_fill(exact[name] == NEVER, NEVER))


@pytest.mark.parametrize(
    "change", [{"id2label": [1]}, {"use_cache": "x"}, {"attn_implementation": "flash_attention_2"}]
)
def test_whatever_the_other_program_says_of_a_folder_is_told(
    opus: Path, tmp_path: Path, change: dict[str, Any]
) -> None:
    folder = rewritten(opus, tmp_path / "x", "config.json", lambda table: table.update(change))
    with pytest.raises(InputError, match="x: transformers cannot load it: "):
        MarianPeer(folder)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sp_model_kwargs": {"x": 1}}, "transformers cannot load its tokenizer: "),
        ({"model_max_length": "x"}, "transformers' tokenizer cannot cut a text: "),
    ],
)
def test_whatever_the_other_tokenizer_says_is_told(
    opus: Path, tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    folder = rewritten(opus, tmp_path / "x", "tokenizer_config.json", lambda table: table.update(change))
    side = read_folder(opus).source
    tokenizer = MappedTokenizer(side.model, side.pieces)
    with pytest.raises(InputError, match=message):
        check_tokenizers(Tokenizers(tokenizer, tokenizer), folder, ["the cat"])


@pytest.mark.parametrize("words", [5, {"a": 1}, None, ["x"], [[]]])
def test_forbidden_words_that_are_none_forbid_nothing(opus: Path, tmp_path: Path, words: Any) -> None:
    folder = rewritten(opus, tmp_path / "x", "generation_config.json", lambda table: table.update(bad_words_ids=words))
    assert read_folder(folder).forbidden == ()


def test_the_decoder_starts_where_generation_does(opus: Path, tmp_path: Path) -> None:
    """Of two files that say it, transformers heeds generation_config.json."""
    folder = rewritten(opus, tmp_path / "x", "config.json", lambda table: table.update(decoder_start_token_id=2**31))
    read = read_folder(folder)
    model, _ = from_marian(read)
    peer = MarianPeer(folder, read.source.ids, read.target.ids)
    (ours,) = force(model, Padded.from_lists([[7, 9, EOS]]), [[6, 8]])
    assert peer.score([7, 9, EOS], [6, 8]) == pytest.approx(ours.token_log_probs, abs=1e-4)
    rewritten(opus, tmp_path / "y", "generation_config.json", lambda table: table.update(decoder_start_token_id=5))
    with pytest.raises(InputError, match="its decoder starts from 5, and not from"):
        MarianPeer(tmp_path / "y", read.source.ids, read.target.ids)


def test_weights_that_are_a_pipe_are_not_waited_for(opus: Path, tmp_path: Path) -> None:
    shutil.copytree(opus, tmp_path / "x")
    (tmp_path / "x/model.safetensors").unlink()
    os.mkfifo(tmp_path / "x/model.safetensors")
    with pytest.raises(BundleError, match=r"model\.safetensors: cannot be read \(it is not a regular file\)"):
        from_marian(read_folder(tmp_path / "x"))


def test_pickled_weights_are_refused(opus: Path, tmp_path: Path) -> None:
    shutil.copytree(opus, tmp_path / "x")
    (tmp_path / "x/model.safetensors").rename(tmp_path / "x/pytorch_model.bin")
    with pytest.raises(BundleError, match=r"only pytorch_model.bin, which is pickled"):
        read_folder(tmp_path / "x")


@pytest.mark.parametrize("name", ["config.json", "vocab.json", "source.spm", "target.spm", "tokenizer_config.json"])
def test_a_missing_file_is_named(opus: Path, tmp_path: Path, name: str) -> None:
    shutil.copytree(opus, tmp_path / "x")
    (tmp_path / "x" / name).unlink()
    with pytest.raises(BundleError, match=f"{name}: missing"):
        read_folder(tmp_path / "x")
    (tmp_path / "x" / name).mkdir()
    with pytest.raises(BundleError, match=name):
        read_folder(tmp_path / "x")


def test_what_is_no_json_is_told(opus: Path, tmp_path: Path) -> None:
    shutil.copytree(opus, tmp_path / "x")
    for content in (b"{", b"[]", b"[" * 100_000):
        (tmp_path / "x/config.json").write_bytes(content)
        with pytest.raises(BundleError, match="config.json: damaged"):
            read_folder(tmp_path / "x")
