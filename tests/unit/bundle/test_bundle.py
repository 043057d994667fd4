from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from clearhead.base.errors import BundleError, InputError
from clearhead.bundle import manifest
from clearhead.bundle.bundle import Bundle, load_bundle, load_tensors, read_info, save_bundle, verify_bundle
from clearhead.bundle.manifest import MANIFEST, write_manifest
from clearhead.nn.padding import Padded

Make = Callable[..., Bundle]


def logits(bundle: Bundle) -> torch.Tensor:
    bundle.model.eval()
    with torch.no_grad():
        return bundle.model(Padded.from_lists([[5, 6, 3], [7, 3]]), Padded.from_lists([[2, 8], [2]]))


def rewrite(bundle: Path) -> None:
    """Make the manifest fit again, as an attacker or a careless script would."""
    (bundle / MANIFEST).unlink()
    write_manifest(bundle)


@pytest.mark.parametrize(
    "overrides",
    [{}, {"embeddings": "separate"}, {"embeddings": "output"}, {"norm": "pre", "positions": {"kind": "learned"}}],
    ids=str,
)
def test_a_saved_model_computes_the_same(make: Make, tmp_path: Path, overrides: dict[str, object]) -> None:
    bundle = make(**overrides)
    save_bundle(tmp_path / "b", bundle)
    loaded = load_bundle(tmp_path / "b")
    assert torch.equal(logits(loaded), logits(bundle))
    assert loaded.languages == ("en", "de")
    assert loaded.config == bundle.config
    assert loaded.training == {"updates": 1}
    assert loaded.tokenizers.source.encode("the red door") == bundle.tokenizers.source.encode("the red door")
    assert not loaded.model.training


def test_tied_parameters_are_saved_once_and_tied_again(make: Make, tmp_path: Path) -> None:
    save_bundle(tmp_path / "b", make())
    loaded = load_bundle(tmp_path / "b").model
    shapes = [tuple(tensor.shape) for tensor in load_file(tmp_path / "b" / "weights.safetensors").values()]
    assert shapes.count((300, 8)) == 1
    names = dict(loaded.named_parameters(remove_duplicate=False))
    matrices = [parameter for parameter in names.values() if tuple(parameter.shape) == (300, 8)]
    assert len(matrices) == 3
    assert all(matrix is matrices[0] for matrix in matrices)


def test_a_loaded_model_can_be_trained(make: Make, tmp_path: Path) -> None:
    save_bundle(tmp_path / "b", make())
    model = load_bundle(tmp_path / "b").model.train()
    model(Padded.from_lists([[5, 3]]), Padded.from_lists([[2, 5]])).sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_average_beside_raw_weights(make: Make, tmp_path: Path) -> None:
    raw, averaged = make(1), make(2)
    save_bundle(tmp_path / "b", raw, ema=dict(averaged.model.named_parameters()))
    assert torch.equal(logits(load_bundle(tmp_path / "b")), logits(averaged))
    assert torch.equal(logits(load_bundle(tmp_path / "b", weights="ema")), logits(averaged))
    assert torch.equal(logits(load_bundle(tmp_path / "b", weights="raw")), logits(raw))


def test_asking_for_an_average_that_is_not_there(saved: Path) -> None:
    with pytest.raises(BundleError, match="no moving average"):
        load_bundle(saved, weights="ema")


def test_a_bundle_is_never_overwritten(make: Make, saved: Path) -> None:
    before = (saved / MANIFEST).read_bytes()
    with pytest.raises(InputError, match="exists already"):
        save_bundle(saved, make(2))
    assert (saved / MANIFEST).read_bytes() == before


def test_a_failed_save_leaves_nothing(make: Make, tmp_path: Path) -> None:
    def fail(unfinished: Path) -> None:
        raise RuntimeError("disk on fire")

    with pytest.raises(RuntimeError, match="fire"):
        save_bundle(tmp_path / "b", make(), extra=fail)
    assert list(tmp_path.iterdir()) == []


def test_info_does_not_need_the_weights(saved: Path) -> None:
    (saved / "weights.safetensors").unlink()
    info = read_info(saved)
    assert info.languages == ("en", "de")
    assert info.config.d_model == 8
    assert info.versions["torch"] == torch.__version__
    assert info.tokenizer["source_vocabulary"] == 300


@pytest.mark.parametrize(
    ("line", "replaced", "message"),
    [
        ("format = 1", "format = 2", "format 2; this version of clearhead reads format 1"),
        ("d_model = 8", "d_modal = 8", r"did you mean 'd_model'"),
        ('weights = "raw"', 'weights = "best"', "expected 'raw' or 'ema'"),
        ("format = 1", "format = 1 1", "line 1"),
        ('    "de",', '    "en",', "bundle.toml: languages: source and target are both 'en'"),
        ('    "de",', '    "d e",', "bundle.toml: languages: 'd e' is no language code"),
        ('    "de",', '    "de", "fr",', "bundle.toml: languages: .* is no language pair"),
        ('    "de",', "    7,", "bundle.toml: languages: '7' is no language code"),
    ],
)
def test_a_description_that_cannot_be_believed(saved: Path, line: str, replaced: str, message: str) -> None:
    where = saved / "bundle.toml"
    text = where.read_text()
    assert line in text
    where.write_text(text.replace(line, replaced, 1))
    rewrite(saved)
    with pytest.raises(BundleError, match=message):
        load_bundle(saved)


def change(bundle: Path, edit: Callable[[dict[str, torch.Tensor]], None]) -> None:
    tensors = load_file(bundle / "weights.safetensors")
    edit(tensors)
    save_file(tensors, bundle / "weights.safetensors")
    rewrite(bundle)


def first_bias(tensors: dict[str, torch.Tensor]) -> str:
    return next(name for name in tensors if name.endswith("bias"))


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda t: t.pop(first_bias(t)), "lacks"),
        (lambda t: t.update(surplus=torch.zeros(2)), "holds 'surplus'"),
        (lambda t: t.update({first_bias(t): torch.zeros(3)}), r"is float32 \[3\] but the configuration calls for"),
        (lambda t: t.update({first_bias(t): t[first_bias(t)].double()}), "is float64"),
        (lambda t: t[first_bias(t)].fill_(float("nan")), "not finite"),
        (lambda t: t[first_bias(t)].fill_(float("inf")), "not finite"),
    ],
    ids=["missing", "surplus", "shape", "type", "nan", "inf"],
)
def test_tensors_must_be_those_of_the_configuration(
    saved: Path, edit: Callable[[dict[str, torch.Tensor]], None], message: str
) -> None:
    change(saved, edit)
    with pytest.raises(BundleError, match=message):
        load_bundle(saved)


def test_huge_declared_tensors_are_refused_before_allocation(saved: Path) -> None:
    """A header that declares a petabyte must cost nothing."""
    header = json.dumps({"x": {"dtype": "F32", "shape": [1 << 48], "data_offsets": [0, 1 << 50]}}).encode()
    (saved / "weights.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)
    rewrite(saved)
    with pytest.raises(BundleError, match="declares"):
        load_bundle(saved)
    (saved / "weights.safetensors").write_bytes(struct.pack("<Q", 1 << 40))
    rewrite(saved)
    with pytest.raises(BundleError, match="header of 1099511627776 bytes"):
        load_bundle(saved)


def test_another_models_tokenizer_is_refused(saved: Path) -> None:
    from clearhead.text.tokenizer import TokenizerConfig, Tokenizers

    other = Tokenizers.train(TokenizerConfig(vocab_size=300), lambda: [("quite other words", "ganz andere Worte")] * 30)
    for path in (saved / "tokenizer").iterdir():
        path.unlink()
    other.save(saved / "tokenizer")
    rewrite(saved)
    with pytest.raises(BundleError, match="not the tokenizer"):
        load_bundle(saved)


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="no such bundle"):
        load_bundle(tmp_path / "absent")
    with pytest.raises(BundleError, match="neither a bundle"):
        load_bundle(tmp_path)


def unlist(bundle: Path, name: str) -> None:
    """Take a file out of the manifest, in its canonical form with the right seal, and leave the file."""
    files = json.loads((bundle / MANIFEST).read_text())["files"]
    del files[name]
    (bundle / MANIFEST).write_bytes(manifest._canonical(files))


@pytest.mark.parametrize(
    "name", ["bundle.toml", "weights.safetensors", "tokenizer/tokenizer.toml", "tokenizer/joint.model"]
)
def test_nothing_is_read_that_the_manifest_does_not_list(saved: Path, make: Make, name: str) -> None:
    unlist(saved, name)
    for use in (load_bundle, verify_bundle, lambda path: load_tensors(make().model, path)):
        with pytest.raises(BundleError, match=f"does not list {name}"):
            use(saved)


def test_an_average_that_is_not_listed(make: Make, tmp_path: Path) -> None:
    bundle = make(1)
    save_bundle(tmp_path / "b", bundle, ema=dict(make(2).model.named_parameters()))
    unlist(tmp_path / "b", "ema.safetensors")
    with pytest.raises(BundleError, match="ema"):
        load_bundle(tmp_path / "b")
    with pytest.raises(BundleError, match=r"does not list ema\.safetensors"):
        load_tensors(bundle.model, tmp_path / "b")


@pytest.mark.parametrize(
    ("line", "replaced"),
    [
        ("format = 1", "format = 1" + "0" * 4000),
        ("format = 1", "format = 1" + "0" * 100_000),
        ('    "de",', f'    "{"x" * 5000}",'),
        ('weights = "raw"', f'weights = "{"x" * 5000}"'),
        ("d_model = 8", f"{'x' * 5000} = 8"),
        ('    "de",\n]', '    "de",\n]\n[training.x]\n[[training.x]]'),
    ],
    ids=["number", "endless number", "language", "weights", "key", "tables"],
)
def test_a_hostile_description_is_told_in_a_few_words(saved: Path, line: str, replaced: str) -> None:
    text = (saved / "bundle.toml").read_text()
    assert line in text
    (saved / "bundle.toml").write_text(text.replace(line, replaced, 1))
    rewrite(saved)
    with pytest.raises(BundleError) as caught:
        load_bundle(saved)
    assert len(str(caught.value)) < 2100
    assert "set_int_max" not in str(caught.value)
