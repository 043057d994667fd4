"""Exports: other programs read back every weight, whatever the tokens hold, and the sidecar says what it is."""

import builtins
import csv
import dataclasses
import json
import math
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from clearhead.base.errors import InputError
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
from clearhead.recipes.inspect.exports import check_formats, check_stacks, export

PROVENANCE = Provenance("model", "ab" * 32, "cd" * 32, "Transformer")
HOSTILE = ["▁a,b", 'say "x"', "line\nbreak\r\n", "tab\tbed", "</script>", "$x_1$", "=1+1", "שלום", "é"]


def weights(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape))).mul(3).softmax(-1)


@pytest.fixture(scope="module")
def record() -> AttentionRecord:
    """Two heads in the cross layer, three in the decoder layer; 10 source tokens and 3 predictions."""
    source = tuple(Token(text, 9, word=place) for place, text in enumerate(HOSTILE)) + (Token("</s>", 3, "special"),)
    prefix = (Token("<s>", 2, "special"), Token("▁one", 7, word=0), Token("▁two", 8, word=1))
    gold = (*prefix[1:], Token("</s>", 3, "special"))
    causal = torch.ones(3, 3).tril().bool()
    layers = (
        AttentionLayer("decoder", 1, "decoder.a", weights(3, 3, 3) * causal, causal, normalised=False),
        AttentionLayer("cross", 1, "decoder.b", weights(2, 3, 10), torch.ones(3, 10).bool()),
    )
    return AttentionRecord(
        PROVENANCE, "given", ("en", "de"), " ".join(HOSTILE), "one two", source, prefix, gold, torch.zeros(3), layers
    )


@pytest.fixture
def evidence() -> EvidenceRecord:
    place = LensPlace(((Token("▁one", 7), 0.75), (Token("\n", 8), 0.25)), 2, 0.25, 1e-17)
    return EvidenceRecord(
        PROVENANCE,
        "sentence",
        1,
        3,
        (
            Finding("permutation", Unit("cross", 1, 2), {"median": 0.1, "lost": math.nan}, {}, {"shuffles": 100.0}),
            Finding("role", Unit("encoder"), {}, {"role": 'a, "b"'}),
        ),
        (TokenScores("rollout", weights(2, 3), weights(2, 2), False, Unit("cross", 1), {"steps": (32.0, 64.0)}),),
        (LensLayer(0, (place,)),),
        (Curve("pruning", "cross", "heads", (0.0, 1.0), {"nll": (0.5, 0.75)}),),
        (Probe("position", "encoder", 0, "linear", 0.9, 0.2, 0.1, 4, 100),),
    )


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def test_every_weight_comes_back_from_csv_parquet_and_npz(record: AttentionRecord, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    found = export(record, tmp_path / "new", ("csv", "parquet", "npz"))
    names = [f"attention-weights.{ending}" for ending in ("csv", "parquet", "npz", "meta.json")]
    assert [path.name for path in found] == names
    table, stored = rows(found[0]), parquet.read_table(found[1])
    assert stored.schema.field("weight").type == "float" and stored.schema.field("layer").type == "int32"
    columnar = stored.to_pylist()
    assert len(table) == len(columnar) == 3 * 6 + 2 * 30  # what may not be read has no row
    assert list(table[0]) == stored.column_names
    arrays = np.load(found[2], allow_pickle=False)
    for line, stored_line in zip(table, columnar):
        layer = record.layer(line["stack"], int(line["layer"]))  # type: ignore[arg-type]
        head, query, key = int(line["head"]), int(line["query"]), int(line["key"])
        weight = layer.weights[head - 1, query, key]
        assert np.float32(line["weight"]) == weight == np.float32(stored_line["weight"])
        assert arrays[f"{layer.stack}-1.weights"][head - 1, query, key] == weight and layer.visible[query, key]
        keys = record.source if layer.stack == "cross" else record.prefix
        words = (record.prefix[query].text, keys[key].text, record.gold[query].text)
        assert (line["query_token"], line["key_token"], line["predicts"]) == words
        assert {name: str(value) for name, value in stored_line.items() if name != "weight"} == {
            name: value for name, value in line.items() if name != "weight"
        }
    assert np.array_equal(arrays["decoder-1.visible"], record.layers[0].visible)


def test_the_sidecar_says_what_the_numbers_are(record: AttentionRecord, tmp_path: Path) -> None:
    searched = dataclasses.replace(record, origin="search", rank=2, score=-0.5)
    found = export(searched, tmp_path, ("npz",))
    table = json.loads(found[-1].read_text("utf-8"))
    assert table["files"] == ["attention-weights.npz"]
    assert table["provenance"]["fingerprint"] == "ab" * 32 and table["provenance"]["dropout"] is False
    assert table["provenance"]["capture"] == "after the softmax, before dropout"
    assert "predicts token t + 1" in table["rows"] and "not why" in table["caution"]
    assert (table["origin"], table["rank"], table["score"]) == ("search", 2, -0.5)
    assert table["source"][:9] == HOSTILE and table["gold"] == ["▁one", "▁two", "</s>"]
    assert table["stacks"]["decoder-1"] == {"heads": [1, 2, 3], "path": "decoder.a", "rows_sum_to_1": False}


def test_a_choice_of_stacks_layers_and_heads(record: AttentionRecord, tmp_path: Path) -> None:
    found = export(record, tmp_path, ("csv", "npz"), stacks=("decoder", "cross"), layers=[1], heads=[3])
    assert {(line["stack"], line["head"]) for line in rows(found[0])} == {("decoder", "3")}
    arrays = np.load(found[1])
    assert set(arrays) == {"decoder-1.weights", "decoder-1.visible"}
    assert np.array_equal(arrays["decoder-1.weights"], record.layers[0].weights[2:3])


def test_pictures_of_heads_of_a_layer_and_of_the_mean(record: AttentionRecord, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    found = export(record, tmp_path, ("svg",), stacks=("cross",))
    assert [path.name for path in found] == [
        f"cross-layer-1-{what}.{ending}" for what in ("heads", "mean") for ending in ("svg", "meta.json")
    ]
    texts = [each.text for each in ET.parse(found[2]).iter("{http://www.w3.org/2000/svg}text")]
    assert "Cross-attention, layer 1, mean of 2 heads" in texts
    assert {"<s> → ▁one", "▁two → </s>", "</script>", "line\\nbreak\\r\\n"} <= set(texts)
    one = export(record, tmp_path, ("png",), stacks=("cross",), heads=[2], scale="log", language="zh")
    assert [path.name for path in one] == ["cross-layer-1-head-2.png", "cross-layer-1-head-2.meta.json"]
    about = json.loads(one[1].read_text("utf-8"))
    assert (about["heads"], about["scale"], about["picture"]) == ([2], "log", "交叉注意力，第 1 层，第 2 个头")


def test_evidence_as_tables(evidence: EvidenceRecord, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    found = {path.name: path for path in export(evidence, tmp_path)}
    tables = ("findings", "token-scores", "token-series", "lens", "curves", "probes")
    expected = {f"{name}.{ending}" for name in tables for ending in ("csv", "parquet")}
    assert set(found) == expected | {"token-scores.npz", "evidence-sentence.meta.json"}
    told = [tuple(line.values())[2:] for line in rows(found["findings.csv"])]
    assert told == [
        ("permutation", "cross", "1", "2", "value", "lost", "nan", ""),
        ("permutation", "cross", "1", "2", "value", "median", "0.1", ""),
        ("permutation", "cross", "1", "2", "setting", "shuffles", "100.0", ""),
        ("role", "encoder", "", "", "word", "role", "", 'a, "b"'),
    ]
    assert parquet.read_table(found["findings.parquet"]).to_pylist()[3]["layer"] is None
    scores = rows(found["token-scores.csv"])
    assert len(scores) == 2 * 3 + 3  # of the prefix only what had been read
    assert all(
        float(line["score"]) == evidence.scores[0].source[int(line["query"]), int(line["token_place"])]  # type: ignore[index]
        for line in scores
        if line["side"] == "source"
    )
    assert np.array_equal(np.load(found["token-scores.npz"])["1.rollout.prefix"], weights(2, 2))
    assert [line["token"] for line in rows(found["lens.csv"])] == ["▁one", "\n"]
    assert [line["value"] for line in rows(found["curves.csv"])] == ["0.5", "0.75"]
    (probe,) = rows(found["probes.csv"])
    assert float(probe["selectivity"]) == pytest.approx(0.7) and probe["untrained"] == ""
    assert json.loads(found["evidence-sentence.meta.json"].read_text())["pairs"] == 1


def test_without_pyarrow_parquet_is_refused_and_the_rest_goes_on(
    record: AttentionRecord, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def missing(name: str, *more: Any, **named: Any) -> Any:
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return real(name, *more, **named)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(InputError, match=r"pip install 'clearhead\[parquet\]'"):
        export(record, tmp_path / "a", ("csv", "parquet"))
    assert not (tmp_path / "a").exists()
    assert len(export(record, tmp_path / "a", ("csv",))) == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"formats": ("pdf",)}, "format: 'pdf'; choose among png, svg, csv, parquet, npz"),
        ({"pictures": ("film",)}, "picture: 'film'"),
        ({"language": "tlh"}, "language: 'tlh'; choose among en, zh"),
        ({"scale": "cubic"}, "scale: 'cubic'"),
        ({"stacks": ("encoder",)}, "has no attention in the encoder stack"),
        ({"stacks": ("middle",)}, "stack: 'middle'"),
        ({"layers": [2]}, "layer 2 is not there: layers count from 1, and the last is 1"),
        ({"heads": [0]}, "head 0 is not there: heads count from 1, and the last is 3"),
        ({"stacks": ("cross",), "heads": [3]}, "head 3 is not there"),
    ],
)
def test_what_is_not_there_is_refused_by_name(
    record: AttentionRecord, tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        export(record, tmp_path / "a", **{"formats": ("csv",)} | change)
    assert not (tmp_path / "a").exists()


def test_choices_can_be_checked_before_anything_is_computed() -> None:
    assert check_formats(["npz", "csv", "npz"]) == ["csv", "npz"]
    assert check_stacks(["cross", "encoder"]) == ["encoder", "cross"]
    with pytest.raises(InputError, match="format: 'pdf'"):
        check_formats(["csv", "pdf"])
    with pytest.raises(InputError, match="stack: 'middle'"):
        check_stacks(["middle"])


def test_a_model_without_attention_has_nothing_to_export(record: AttentionRecord, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="this model has no attention"):
        export(dataclasses.replace(record, layers=()), tmp_path / "a")
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be made"):
        export(record, tmp_path / "file", ("csv",))
