"""What a report embeds, read back by a decoder of its own: exact where it says so, small, closed, always the same."""

from __future__ import annotations

import base64
import dataclasses
import gzip
import hashlib
import html
import json
import math
import re
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch

from clearhead.base.errors import ClearheadError, InputError
from clearhead.explorer import inspect_payload
from clearhead.explorer.inspect_coding import BEST
from clearhead.explorer.inspect_page import ReportDisplay, report_html, write_report
from clearhead.explorer.inspect_payload import SHADES, Payload, pack
from clearhead.explorer.single_file import script_json
from clearhead.inspection.records import AttentionRecord, TokenScores
from tests.unit.explorer.inspect_records import (
    CALIBRATION,
    HOSTILE,
    MEASURES,
    attention_record,
    evidence_record,
    hostile_records,
    sample_record,
)

LONG = [f"▁w{number}" for number in range(69)]


class Reader:
    """Reads a payload as its docstring says, apart from the code that wrote it."""

    def __init__(self, payload: Payload) -> None:
        self.held = gzip.decompress(payload.arrays)
        self.head = payload.head
        self.evidence = json.loads(gzip.decompress(payload.evidence))

    def array(self, reference: dict[str, Any]) -> numpy.ndarray:
        kind = {"u8": "u1", "u16": "<u2", "f32": "<f4"}[reference["type"]]
        size = int(numpy.prod(reference["shape"]))
        return numpy.frombuffer(self.held, kind, size, reference["at"]).reshape(reference["shape"])

    def map(self, layer: dict[str, Any]) -> tuple[numpy.ndarray, numpy.ndarray]:
        """The weights and the largest error that each may have."""
        root = self.array(layer["weights"]).astype(float) / layer["steps"]
        half = numpy.full_like(root, 0.5 / layer["steps"])
        if "best" in layer:
            places = self.array(layer["best"]["places"]).astype(int)
            fine = (self.array(layer["best"]["values"]).astype(float) - 32767) / 32767
            numpy.put_along_axis(root, places, fine, -1)
            numpy.put_along_axis(half, places, 0.5 / 32767, -1)
        return layer["scale"] * root**2, layer["scale"] * (2 * root * half + half**2)

    def visible(self, layer: dict[str, Any]) -> numpy.ndarray:
        shape = (layer["rows"], layer["columns"])
        if layer["visible"] == "full":
            return numpy.ones(shape, bool)
        if layer["visible"] == "causal":
            return numpy.tril(numpy.ones(shape, bool))
        bits = numpy.unpackbits(self.array(layer["visible"]), bitorder="little")
        return bits[: shape[0] * shape[1]].reshape(shape).astype(bool)


def check_maps(record: AttentionRecord, slack: float = 1.0) -> Reader:
    """Every weight is within its stated error (times `slack`) of what the record holds."""
    reader = Reader(pack(record))
    for layer, coded in zip(record.layers, reader.head["layers"], strict=True):
        assert (coded["stack"], coded["layer"], coded["heads"]) == (layer.stack, layer.layer, len(layer.weights))
        read, error = reader.map(coded)
        assert (abs(read - layer.weights.numpy()) <= slack * error + 1e-7).all()
        assert (reader.visible(coded) == layer.visible.numpy()).all()
        assert (read[:, ~layer.visible.numpy()] == 0).all()
    return reader


def test_short_maps_are_as_exact_as_their_numbers_are_printed() -> None:
    record = attention_record()
    reader = check_maps(record)
    assert {each["coding"] for each in reader.head["layers"]} == {"u16"}
    assert max(reader.map(each)[1].max() for each in reader.head["layers"]) < 1.6e-5
    assert [each["visible"] for each in reader.head["layers"]] == ["full"] * 3 + ["causal"] * 2 + ["full"] * 2


def test_long_maps_keep_the_largest_of_each_row_and_say_how_far_off_the_others_are() -> None:
    record = attention_record(LONG, LONG[:66])
    reader = check_maps(record)
    with pytest.raises(AssertionError):  # the stated error is no wider than it must be
        check_maps(record, slack=0.9)
    for layer, coded in zip(record.layers, reader.head["layers"], strict=True):
        assert coded["coding"] == "u8" and coded["steps"] == SHADES[0]
        read, _ = reader.map(coded)
        largest = layer.weights.topk(BEST).indices.numpy()
        off = numpy.take_along_axis(abs(read - layer.weights.numpy()), largest, -1)
        assert off.max() < 4e-5
        assert abs(read - layer.weights.numpy()).max() < 0.004


@pytest.mark.parametrize("hole", [(0, 0), (3, 1), (6, 6)])
def test_any_mask_comes_back_bit_for_bit(hole: tuple[int, int]) -> None:
    record = attention_record()
    layer = next(each for each in record.layers if each.stack == "decoder")
    visible = layer.visible.clone()
    visible[hole] = False
    masked = dataclasses.replace(layer, weights=layer.weights * visible, visible=visible)
    reader = check_maps(dataclasses.replace(record, layers=(masked,)))
    assert isinstance(reader.head["layers"][0]["visible"], dict)


def test_shades_are_given_up_only_for_room(monkeypatch: pytest.MonkeyPatch) -> None:
    record = attention_record(LONG, LONG)
    assert pack(record).head["layers"][0]["steps"] == SHADES[0]
    monkeypatch.setattr(inspect_payload, "ROOM", 100)
    reader = check_maps(record)
    assert reader.head["layers"][0]["steps"] == SHADES[-1]
    assert {each["steps"] for each in pack(attention_record()).head["layers"]} == {65535}


def scores_of(record: AttentionRecord, scores: TokenScores) -> tuple[dict[str, Any], Reader]:
    evidence = dataclasses.replace(evidence_record(record), scores=(scores,))
    reader = Reader(pack(record, evidence))
    return reader.evidence["sentence"]["scores"][0], reader


def test_scores_of_a_short_sentence_are_exact() -> None:
    record = attention_record()
    for scores in evidence_record(record).scores:
        coded, reader = scores_of(record, scores)
        assert scores.source is not None and coded["source"]["coding"] == "f32"
        assert (reader.array(coded["source"]["values"]) == scores.source.numpy()).all()
        assert coded["signed"] == scores.signed and coded["series"].keys() == scores.series.keys()


def test_scores_of_a_long_sentence_keep_sign_and_scale() -> None:
    record = attention_record(LONG, LONG[:66])
    values = torch.randn(len(record.gold), len(record.source), generator=torch.Generator().manual_seed(3))
    values[2] = 0.0
    values[3] *= 1e-6
    coded, reader = scores_of(record, TokenScores("occlusion", values, None, signed=True))
    source = coded["source"]
    peak = reader.array(source["peak"])[:, None]
    assert (peak[:, 0] == values.abs().amax(1).numpy()).all()
    root = (reader.array(source["values"]).astype(float) - 127) / 127
    read = numpy.sign(root) * root**2 * peak
    half = 0.5 / 127
    assert (abs(read - values.numpy()) <= peak * (2 * abs(root) * half + half**2) + 1e-9).all()
    assert (read[2] == 0).all()
    fine = (reader.array(source["best"]["values"]).astype(float) - 32767) / 32767
    largest = numpy.take_along_axis(values.numpy(), reader.array(source["best"]["places"]).astype(int), -1)
    assert (abs(numpy.sign(fine) * fine**2 * peak - largest) <= 4e-5 * peak).all()


def test_attention_by_itself_points_to_the_maps_of_its_layer() -> None:
    record = attention_record(LONG, LONG[:66])
    for layer in (each for each in record.layers if each.stack == "cross"):
        mean = layer.weights.mean(0)
        coded, _ = scores_of(record, TokenScores("attention", mean, None, signed=False))
        assert coded["source"] == {"coding": "mean", "stack": "cross", "layer": layer.layer}
        coded, _ = scores_of(record, TokenScores("attention", mean * 1.01, None, signed=False))
        assert coded["source"]["coding"] == "root"


def test_what_was_found_comes_back() -> None:
    record = attention_record(rank=2)
    evidence, sample = evidence_record(record), sample_record(record)
    reader = Reader(pack(record, evidence, sample, CALIBRATION, MEASURES))
    told = reader.evidence
    assert told["calibration"] == CALIBRATION and told["measures"] == MEASURES
    assert reader.head["meta"]["origin"] == "search" and reader.head["meta"]["rank"] == 2
    assert [each["text"] for each in reader.head["tokens"]["gold"]] == [each.text for each in record.gold]
    assert len(told["sentence"]["findings"]) == len(evidence.findings)
    for found, coded in zip(evidence.findings, told["sentence"]["findings"], strict=True):
        assert coded["unit"] == {"stack": found.unit.stack, "layer": found.unit.layer, "head": found.unit.head}
        assert coded["values"] == pytest.approx(found.values, rel=1e-8) and coded["words"] == found.words
    assert told["sample"]["pairs"] == sample.pairs
    assert told["sample"]["curves"][0]["series"]["bleu"] == pytest.approx(sample.curves[0].series["bleu"])
    assert told["sample"]["probes"][0]["selectivity"] == pytest.approx(0.6)
    assert told["sentence"]["lens"][0]["places"][0]["goldRank"] == 3


def test_numbers_that_json_lacks_are_left_out() -> None:
    _, evidence, _ = hostile_records()
    record, *_ = hostile_records()
    values = Reader(pack(record, evidence)).evidence["sentence"]["findings"][1]["values"]
    assert list(values.values()) == [None, None]


def test_a_calibration_that_is_not_defined_is_left_out_and_one_of_something_unknown_refused() -> None:
    told = Reader(pack(attention_record(), None, None, {"role": {"copy": math.nan, "sort": 0.5}})).evidence
    assert told["calibration"] == {"role": {"copy": None, "sort": 0.5}} and told["measures"] == {}
    with pytest.raises(InputError, match="'role' is said to be of 'area'.*links, rank-correlation, named"):
        report_html(attention_record(), measures={"role": "area"})
    html = ReportDisplay(attention_record(), calibration=CALIBRATION, measures=MEASURES).html()
    assert html == report_html(attention_record(), calibration=CALIBRATION, measures=MEASURES)
    assert html != report_html(attention_record(), calibration=CALIBRATION)


def test_records_that_do_not_belong_together_are_refused() -> None:
    record = attention_record()
    evidence, sample = evidence_record(record), sample_record(record)
    with pytest.raises(InputError, match="swap them"):
        pack(record, sample, evidence)
    other = dataclasses.replace(record.provenance, fingerprint="a" * 64, model="other")
    with pytest.raises(InputError, match=r"of model other \(aaaaaaaaaaaa\)"):
        pack(record, dataclasses.replace(evidence, provenance=other))
    first = record.layers[0]
    for weights, complaint in (
        (first.weights[:, :-1], "map of 8 × 9, its tokens are 9 × 9"),
        (first.weights - 0.5, "negative"),
        (first.weights * torch.nan, "not finite"),
    ):
        broken = dataclasses.replace(first, weights=weights)
        with pytest.raises(InputError, match=complaint):
            pack(dataclasses.replace(record, layers=(broken,)))


def test_a_model_without_attention_has_a_report() -> None:
    assert pack(attention_record(depths={})).head["layers"] == []
    assert "<!doctype html>" in report_html(attention_record(depths={}))


# ------------------------------------------------------------------------------------------------------------- the file


def block(page: str, name: str) -> str:
    found = re.search(rf'<script type="application/[a-z-]+" id="{name}">(.*?)</script>', page, re.S)
    assert found
    return found[1]


def test_json_in_the_page_cannot_end_its_element() -> None:
    text = script_json({"tokens": list(HOSTILE)})
    assert not re.search("[<\u2028\u2029]", text)
    assert json.loads(text) == {"tokens": list(HOSTILE)}
    page = report_html(*hostile_records())
    assert page.count("<script") == page.count("</script>") == 5
    head = json.loads(block(page, "report"))
    assert [each["text"] for each in head["tokens"]["source"]][:-1] == list(HOSTILE)
    title = re.search("<title>(.*?)</title>", page, re.S)
    assert title and html.unescape(title[1]) == f"clearhead · {HOSTILE[1]}"


def test_the_policy_lets_in_this_script_and_this_style_and_nothing_else() -> None:
    page = report_html(attention_record())
    policy = re.search('Content-Security-Policy" content="(.*?)"', page)
    script, style = re.findall("<script>(.*?)</script>", page, re.S), re.findall("<style>(.*?)</style>", page, re.S)
    assert policy and len(script) == len(style) == 1
    for kind, (text,) in (("script-src", script), ("style-src", style)):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind} 'sha256-{digest}'" in policy[1]
    assert policy[1].startswith("default-src 'none'; ") and "unsafe" not in policy[1]
    assert not re.search(r"innerHTML|\beval\(|\bfetch\(|\bimport\b|XMLHttp|document\.write|insertAdjacent", script[0])
    assert set(re.findall(r"https?://[^\s\"'`)]+", script[0] + style[0])) <= {"http://www.w3.org/2000/svg"}


def test_the_same_records_give_the_same_page_in_either_language() -> None:
    record = attention_record()
    evidence = evidence_record(record)
    page = report_html(record, evidence)
    assert page == report_html(record, evidence)
    chinese = report_html(record, evidence, language="zh")
    assert '<html lang="zh-CN" data-language="zh">' in chinese
    assert page.replace('lang="en" data-language="en"', 'lang="zh-CN" data-language="zh"', 1) == chinese


def test_a_report_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    assert write_report(out, attention_record()) == out
    before = out.read_bytes()
    assert before.decode() == report_html(attention_record())
    record = attention_record()
    other = dataclasses.replace(record.provenance, fingerprint="a" * 64)
    with pytest.raises(InputError):
        write_report(out, record, dataclasses.replace(evidence_record(record), provenance=other))
    with pytest.raises(ClearheadError):
        write_report(tmp_path / "report.html" / "below.html", record)
    assert out.read_bytes() == before and list(tmp_path.iterdir()) == [out]


def test_a_notebook_gets_the_page_in_a_frame_without_rights() -> None:
    record, evidence, sample = hostile_records()
    shown = ReportDisplay(record, evidence, sample, height=500)._repr_html_()
    frame = re.fullmatch(
        r'<iframe title="[^"]*" sandbox="([^"]*)" width="100%" height="500" srcdoc="([^"]*)"></iframe>', shown
    )
    assert frame
    assert frame[1].split() == ["allow-scripts", "allow-downloads"]
    assert html.unescape(frame[2]) == report_html(record, evidence, sample)
