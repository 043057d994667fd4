"""Records on disk: every field comes back to the last bit; what is damaged is named; nothing can be executed."""

import dataclasses
import hashlib
import io
import json
import math
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from clearhead.base.errors import DataError, InputError
from clearhead.inspection.record_files import Records, load_records, save_records
from clearhead.inspection.records import (
    AttentionLayer,
    AttentionRecord,
    Curve,
    EvidenceRecord,
    Finding,
    LensLayer,
    LensPlace,
    Probe,
    Provenance,
    Token,
    TokenScores,
    Unit,
)
from clearhead.inspection.sites import Stack

PROVENANCE = Provenance("a model\u2028</script>", "ab" * 32, "cd" * 32, "Transformer", versions={"torch": "2.13"})


def weights(*shape: int) -> Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(sum(shape))).softmax(-1)


def attention() -> AttentionRecord:
    """Unequal depths and heads, S = 3, T = 2, and tokens of every kind."""
    source = (Token("▁我爱猫", 9, word=0), Token("<0xE2>", 70, "byte", 1), Token("</s>", 3, "special"))
    prefix = (Token("<s>", 2, "special"), Token("שלום😀\n\t\",'", 1, "unknown", 0))
    gold = (prefix[1], Token("</s>", 3, "special"))
    causal = torch.ones(2, 2).tril().bool()
    layers = (
        AttentionLayer("encoder", 1, "encoder.a", weights(3, 3, 3), torch.ones(3, 3).bool()),
        AttentionLayer("encoder", 2, "encoder.b", weights(1, 3, 3), torch.ones(3, 3).bool()),
        AttentionLayer("decoder", 1, "decoder.a", weights(2, 2, 2) * causal, causal),
        AttentionLayer("cross", 1, "decoder.b", weights(2, 2, 3), torch.ones(2, 3).bool(), normalised=False),
    )
    log_probs = torch.tensor([-0.1, -1e-300], dtype=torch.float64)
    return AttentionRecord(
        PROVENANCE, "search", ("zh", "he"), "我爱猫\r\n", "", source, prefix, gold, log_probs, layers, 2, -1 / 3
    )


def evidence(scope: Any = "sentence") -> EvidenceRecord:
    token = Token("▁猫", 9, word=0)
    place = LensPlace(((token, 0.7), (Token("<unk>", 1, "unknown"), 0.1 + 0.2)), 1, 5e-324, math.inf)
    return EvidenceRecord(
        PROVENANCE,
        scope,
        1,
        2,
        (
            Finding("permutation", Unit("cross", 1, 2), {"median": 0.1, "lost": math.nan, "low": -math.inf}),
            Finding("role", Unit("encoder", 1), {}, {"role": "diagonal", "said": "nan"}, {"seed": 1.0}),
            Finding("uniform", Unit("decoder"), {"tvd": 1e-17}),
        ),
        (
            TokenScores("occlusion", weights(2, 3), None, True, Unit("cross", 1, 1), {"steps": (32.0, math.nan)}),
            TokenScores("rollout", None, weights(2, 2), False, settings={"share": 0.5}),
        ),
        (LensLayer(0, (place, dataclasses.replace(place, likeliest=()))),),
        (Curve("pruning", "cross", "heads", (0.0, 1.0), {"nll": (0.25, math.nan)}, {"share": 0.1}),),
        (
            Probe("position", "encoder", 0, "linear", 0.9, 0.2, 0.1, 4, 100),
            Probe("x", "decoder", 1, "mlp", 1.0, 0.0, 0.0, 1, 1, math.nan),
        ),
        {"depth": "full"},
    )  # fmt: skip


def same(ours: Any, theirs: Any, where: str = "") -> None:
    """Equal in type and to the last bit, NaN equal to itself."""
    if isinstance(theirs, Tensor):
        assert ours.dtype == theirs.dtype and torch.equal(ours, theirs), where
    elif dataclasses.is_dataclass(theirs):
        assert type(ours) is type(theirs), where
        for field in dataclasses.fields(theirs):
            same(getattr(ours, field.name), getattr(theirs, field.name), f"{where}.{field.name}")
    elif isinstance(theirs, tuple | list):
        assert type(ours) is type(theirs) and len(ours) == len(theirs), where
        for place, (mine, other) in enumerate(zip(ours, theirs)):
            same(mine, other, f"{where}.{place}")
    elif isinstance(theirs, dict):
        assert ours.keys() == theirs.keys(), where
        for name, other in theirs.items():
            same(ours[name], other, f"{where}.{name}")
    elif isinstance(theirs, float):
        assert isinstance(ours, float), where
        assert ours == theirs or (math.isnan(ours) and math.isnan(theirs)), where
    else:
        assert ours == theirs, where


def refuse(constant: str) -> None:
    raise AssertionError(f"{constant} is no JSON")


def test_every_field_comes_back_as_it_was(tmp_path: Path) -> None:
    save_records(tmp_path / "new" / "r", attention(), evidence(), evidence("sample"))
    found = load_records(tmp_path / "new" / "r")
    same(found.attention, attention())
    same(found.evidence, evidence())
    same(found.sample, evidence("sample"))
    names = [f"{name}.{ending}" for name in ("attention", "evidence", "sample") for ending in ("json", "npz")]
    assert sorted(each.name for each in (tmp_path / "new" / "r").iterdir()) == names


def test_the_json_is_plain_utf8_without_nan_and_the_same_each_time(tmp_path: Path) -> None:
    for name in "ab":
        save_records(tmp_path / name, attention(), evidence())
    for each in sorted((tmp_path / "a").iterdir()):
        assert each.read_bytes() == (tmp_path / "b" / each.name).read_bytes()
    text = (tmp_path / "a" / "evidence.json").read_text("utf-8")
    table = json.loads(text, parse_constant=refuse)
    assert "猫" in text and list(table) == sorted(table) and table["version"] == 1
    values = table["record"]["findings"][0]["values"]
    assert values == {"median": 0.1, "lost": None, "low": "-inf"}
    assert table["record"]["probes"][0]["untrained"] is None and table["record"]["probes"][1]["untrained"] == "nan"


def test_one_record_alone_and_a_model_without_attention(tmp_path: Path) -> None:
    bare = dataclasses.replace(attention(), layers=(), rank=None, score=None, origin="given")
    save_records(tmp_path / "a", bare)
    found = load_records(tmp_path / "a")
    same(found.attention, bare)
    assert found.evidence is None and found.sample is None
    save_records(tmp_path / "a", sample=evidence("sample"))  # takes the place of the earlier one, whole
    assert load_records(tmp_path / "a").attention is None
    same(load_records(tmp_path / "a"), Records(sample=evidence("sample")))


def test_a_folder_of_something_else_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(InputError, match=r"holds other files \(thesis.txt\)"):
        save_records(tmp_path, attention())
    assert (tmp_path / "thesis.txt").read_text() == "years of work"
    with pytest.raises(InputError, match="cannot be|exists"):
        save_records(tmp_path / "thesis.txt", attention())
    with pytest.raises(InputError, match="no record to write"):
        save_records(tmp_path / "none")


def test_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_records(tmp_path / "r", attention())
    before = {each.name: each.read_bytes() for each in (tmp_path / "r").iterdir()}
    real = Path.write_bytes

    def full(path: Path, content: bytes) -> int:
        if path.name == "evidence.npz":
            raise OSError(28, "No space left on device")
        return real(path, content)

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="No space"):
        save_records(tmp_path / "r", attention(), evidence())
    assert {each.name: each.read_bytes() for each in (tmp_path / "r").iterdir()} == before
    assert [each.name for each in tmp_path.iterdir()] == ["r"]


# ------------------------------------------------------------------------------------------------------------- damage


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Written once, since writing waits for the disk."""
    folder = tmp_path_factory.mktemp("saved") / "r"
    save_records(folder, attention(), evidence())
    return folder


def change(saved: Path, tmp_path: Path, edit: Callable[[dict[str, Any]], None], name: str = "attention") -> Path:
    shutil.copytree(saved, tmp_path / "r")
    file = tmp_path / "r" / f"{name}.json"
    table = json.loads(file.read_text("utf-8"))
    edit(table)
    file.write_text(json.dumps(table), "utf-8")
    return tmp_path / "r"


def arrays(saved: Path, tmp_path: Path, edit: Callable[[dict[str, bytes]], None]) -> Path:
    """The folder with other arrays in attention.npz, and a JSON that says they belong to it."""
    shutil.copytree(saved, tmp_path / "r", dirs_exist_ok=True)
    file = tmp_path / "r" / "attention.npz"
    with zipfile.ZipFile(file) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    edit(members)
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    described = file.with_suffix(".json")
    table = json.loads(described.read_text("utf-8"))
    table["arrays_sha256"] = hashlib.sha256(file.read_bytes()).hexdigest()
    described.write_text(json.dumps(table), "utf-8")
    return tmp_path / "r"


def packed(array: np.ndarray[Any, Any]) -> bytes:
    written = io.BytesIO()
    np.save(written, array)
    return written.getvalue()


def put(table: Any, key: str, value: Any) -> None:
    *path, last = key.split(".")
    for name in path:
        table = table[int(name) - 1] if name.isdigit() else table[name]
    if value is KeyError:
        del table[last]
    else:
        table[last] = value


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("version", 2, r"attention.json: version 2.*update clearhead"),
        ("version", True, "version: expected a whole number"),
        ("version", 0, "version: expected a whole number"),
        ("format", "a cake", "'format' says otherwise"),
        ("record", [], "attention.json: the file: expected an object"),
        ("record.gold", {}, "gold: expected a list"),
        ("record.gold", [], "gold has 0 tokens, prefix 2"),
        ("record.origin", "dream", "origin: expected one of given, search, got 'dream'"),
        ("record.source.2.id", 7.5, "source.2.id: expected a whole number"),
        ("record.source.2.id", True, "source.2.id: expected a whole number"),
        ("record.source.2.text", 7, "source.2.text: expected a text"),
        ("record.source.2.kind", 7, "source.2.kind: expected one of"),
        ("record.source.2.colour", "red", "source.2.colour: no such key"),
        ("record.languages", ["de"], "languages: expected 2 values, got 1"),
        ("record.score", "much", "score: expected a number"),
        ("record.score", 10**400, "score: the number is too large"),
        ("record.source_text", KeyError, "source_text: missing"),
        ("record.layers.1.weights", 5, "layers.1.weights: expected an object"),
        ("record.layers.1.weights.array", "else", "attention.npz: else: missing"),
        ("record.layers.1.weights.dtype", "object", "layers.1.weights: expected the name, type and shape"),
        ("record.layers.1.weights.dtype", "float64", r"layers.1.weights: float32 \[3, 3, 3\] where float64"),
        ("record.layers.1.weights.shape", [3, 3, -3], "layers.1.weights: expected the name, type and shape"),
        ("record.layers.1.weights.shape", [1, 3, 3], r"float32 \[3, 3, 3\] where float32 \[1, 3, 3\]"),
        ("record.layers.1.stack", "cross", r"layers.1: the cross stack needs weights float32 \[H, 2, 3\]"),
        ("record.layers.1.normalised", "yes", "layers.1.normalised: expected true or false"),
        ("record.layers.1.layer", None, "layers.1.layer: expected a whole number"),
    ],
)
def test_what_is_wrong_in_the_json_is_named(saved: Path, tmp_path: Path, key: str, value: Any, message: str) -> None:
    folder = change(saved, tmp_path, lambda table: put(table, key, value))
    with pytest.raises(DataError, match=message):
        load_records(folder)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("record.curves.1.x", [0.0], "curves.1.series.nll: 2 values for 1 of x"),
        ("record.findings.1.values.median", "0.1", "findings.1.values.median: expected a number"),
        ("record.scores.1.series.steps", [1.0], "scores.1: source must be"),
        ("record.scores.1.unit.stack", "both", "scores.1.unit.stack: expected one of encoder, decoder, cross"),
        ("record.lens.1.places.1.likeliest", [[1]], "lens.1.places.1.likeliest.1: expected 2 values"),
        ("record.settings.depth", 1, "settings.depth: expected a text"),
    ],
)
def test_what_is_wrong_in_evidence_is_named(saved: Path, tmp_path: Path, key: str, value: Any, message: str) -> None:
    folder = change(saved, tmp_path, lambda table: put(table, key, value), "evidence")
    with pytest.raises(DataError, match=f"evidence.json: {message}"):
        load_records(folder)


def test_files_that_are_cut_or_missing_are_named(saved: Path, tmp_path: Path) -> None:
    shutil.copytree(saved, tmp_path / "r", ignore=shutil.ignore_patterns("evidence*"))
    described, stored = tmp_path / "r" / "attention.json", tmp_path / "r" / "attention.npz"
    text, content = described.read_bytes(), stored.read_bytes()
    stored.write_bytes(content[:-20])
    with pytest.raises(DataError, match=r"attention.npz: damaged"):
        load_records(tmp_path / "r")
    stored.unlink()
    with pytest.raises(DataError, match=r"attention.npz: missing"):
        load_records(tmp_path / "r")
    stored.write_bytes(content)
    for damaged in (text[:-20], b"\xff\xfe", b"[" * 100_000, b"NaN"):
        described.write_bytes(damaged)
        with pytest.raises(DataError, match=r"attention.json: (damaged|not a)"):
            load_records(tmp_path / "r")
    described.unlink()
    with pytest.raises(DataError, match="holds no record"):
        load_records(tmp_path / "r")
    with pytest.raises(InputError, match="not a folder of records"):
        load_records(tmp_path / "nowhere")


def test_arrays_that_are_not_what_they_should_be_are_named(saved: Path, tmp_path: Path) -> None:
    name = "layers.1.weights.npy"

    def with_array(content: bytes) -> Callable[[dict[str, bytes]], None]:
        return lambda members: members.update({name: content})

    class Trap:
        def __reduce__(self) -> Any:
            raise AssertionError("executed")

    with pytest.raises(DataError, match=r"attention.npz: layers.1.weights: missing"):
        load_records(arrays(saved, tmp_path, lambda members: members.pop(name) and None))
    with pytest.raises(DataError, match=r"layers.1.weights: object \[1\] where float32"):
        load_records(arrays(saved, tmp_path, with_array(packed(np.array([None], dtype=object)))))
    good = packed(np.zeros((3, 3, 3), np.float32))
    for content in (b"", b"not numpy", good[:-8], good[:40]):
        with pytest.raises(DataError, match=r"attention.npz: layers.1.weights: damaged"):
            load_records(arrays(saved, tmp_path, with_array(content)))
    head = good.replace(b"(3, 3, 3), }         ", b"(1000000000, 3, 3), }")
    with pytest.raises(DataError, match=r"float32 \[1000000000, 3, 3\] where"):  # told before it is allocated
        load_records(arrays(saved, tmp_path, with_array(head)))


def test_arrays_that_do_not_fit_their_tokens_are_not_written(tmp_path: Path) -> None:
    record = attention()

    def with_layer(**other: Any) -> AttentionRecord:
        return dataclasses.replace(record, layers=(dataclasses.replace(record.layers[0], **other),))

    wrong: list[AttentionRecord] = [
        with_layer(weights=weights(3, 3, 2)),
        with_layer(weights=record.layers[0].weights.double()),
        with_layer(visible=torch.ones(3, 3)),
        dataclasses.replace(record, log_probs=torch.zeros(3)),
    ]
    stacks: tuple[Stack, ...] = ("decoder", "cross")
    wrong += [with_layer(stack=stack) for stack in stacks]
    for each in wrong:
        with pytest.raises(DataError, match="needs weights|as many"):
            save_records(tmp_path / "r", each)
    assert not list(tmp_path.iterdir())
