"""The same weights in transformers and CTranslate2 give the same figures, in float64 where the program has it."""

import importlib.util
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from clearhead.base.errors import BundleError, InputError
from clearhead.decoding.search import force
from clearhead.export.ctranslate import ctranslate2_spec, to_ctranslate2
from clearhead.export.extra import program
from clearhead.export.from_marian import from_marian
from clearhead.export.marian import to_marian
from clearhead.export.marian_folder import MarianFolder, read_folder
from clearhead.models import build, presets
from clearhead.models.config import TransformerConfig
from clearhead.models.seq2seq import Seq2Seq
from clearhead.nn.padding import Padded
from clearhead.text.symbols import BOS, EOS, PAD

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
    with pytest.raises(InputError, match=r"ctranslate2 is needed.*pip install 'clearhead\[exchange\]'"):
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
        ("config.json", {"encoder_ffn_dim": 40, "decoder_ffn_dim": 40}, r"should be \[40, 32\] and is \[48, 32\]"),
        ("generation_config.json", {"decoder_start_token_id": 0}, "decoder_start_token_id is 0"),
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
