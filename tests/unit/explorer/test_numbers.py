"""Every number of the handbook's own page, worked out again with numpy from the weights in the file alone."""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file

from clearhead.explorer.walk_page import page
from clearhead.recipes.translate import load
from clearhead.recipes.translator import decoding_config
from clearhead.recipes.walk import Walk, walk

MODEL = Path(__file__).parents[3] / "docs" / "transformer" / "site" / "model"
SENTENCE = "他 每天 爱 小 猫"
HEADS = 2


@pytest.fixture(scope="module")
def walked() -> Walk:
    return walk(load(MODEL, device="cpu"), SENTENCE, decoding_config())


@pytest.fixture(scope="module")
def html(walked: Walk) -> str:
    return page(walked)


@pytest.fixture(scope="module")
def matrices(html: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.S)
    assert found
    return json.loads(found[1])["matrices"]


class Arithmetic:
    """The Transformer of the paper in numpy and float64; every matrix that it makes, by its name in the page."""

    def __init__(self, source: list[int], prefix: list[int]) -> None:
        self.weights = {
            name: each.astype(np.float64) for name, each in load_file(MODEL / "weights.safetensors").items()
        }
        names = [name for name in self.weights if name.endswith("embedding.weight") or name == "decoder.output.weight"]
        assert len(names) == 1  # tied: stored once
        self.table = self.weights[names[0]]
        self.found: dict[str, np.ndarray] = {}
        memory = self.encode(source)
        self.found["memory"] = memory
        self.found["decoder.hidden"] = self.decode(prefix, memory)
        self.logits = self.found["decoder.hidden"] @ self.table.T

    def embed(self, stack: str, ids: list[int]) -> np.ndarray:
        rows = self.table[ids]
        width = rows.shape[1]
        positions = np.array(
            [
                [(math.sin, math.cos)[i % 2](place / 10000 ** ((i - i % 2) / width)) for i in range(width)]
                for place in range(len(ids))
            ]
        )
        scaled = rows * math.sqrt(width)
        for name, each in (("rows", rows), ("scaled", scaled), ("positions", positions), ("sum", scaled + positions)):
            self.found[f"{stack}.input.{name}"] = each
        return scaled + positions

    def attend(self, at: str, x: np.ndarray, z: np.ndarray, causal: bool, crossing: bool) -> np.ndarray:
        """One attention sub-layer with its residual and norm."""
        w = {part: self.weights[f"{at}.{part}.weight"].T for part in ("query", "key", "value", "output")}
        width = w["query"].shape[1] // HEADS
        self.found[f"{at}.x"] = x
        if crossing:
            self.found[f"{at}.z"] = z
        outputs = []
        for head in range(HEADS):
            columns, name = slice(head * width, (head + 1) * width), f"{at}.head-{head + 1}"
            own = {part: w[part][:, columns] for part in ("query", "key", "value")}
            q, k, v = x @ own["query"], z @ own["key"], z @ own["value"]
            scores = q @ k.T / math.sqrt(width)
            mask = np.triu(np.full(scores.shape, -np.inf), 1) if causal else np.zeros(scores.shape)
            raised = np.exp(scores + mask - (scores + mask).max(1, keepdims=True))
            a = raised / raised.sum(1, keepdims=True)
            outputs.append(a @ v)
            self.found |= {f"{name}.w_{part}": each for part, each in own.items()}
            self.found |= {
                f"{name}.query": q,
                f"{name}.key": k,
                f"{name}.value": v,
                f"{name}.values": v,
                f"{name}.scores": scores,
                f"{name}.weights": a,
                f"{name}.mixed": a @ v,
            }
            if causal:
                self.found[f"{name}.mask"] = mask
        concat = np.concatenate(outputs, 1)
        self.found[f"{at}.concat"], self.found[f"{at}.w_output"] = concat, w["output"]
        self.found[f"{at}.output"] = concat @ w["output"]
        return self.add(at, x, self.found[f"{at}.output"])

    def add(self, at: str, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Post-norm with the biased variance and 1e-6 inside the root."""
        total = x + y
        gamma, beta = (self.weights[f"{at}_residual.norm.{part}"] for part in ("weight", "bias"))
        centred = total - total.mean(1, keepdims=True)
        result = centred / np.sqrt((centred**2).mean(1, keepdims=True) + 1e-6) * gamma + beta
        self.found[f"{at}.residual"], self.found[f"{at}.result"] = total, result
        return result

    def forward(self, at: str, x: np.ndarray) -> np.ndarray:
        w1, b1, w2, b2 = (
            self.weights[f"{at}.{name}"].T for name in ("inner.weight", "inner.bias", "outer.weight", "outer.bias")
        )
        inner = x @ w1 + b1
        active = np.maximum(0, inner)
        self.found |= {f"{at}.x": x, f"{at}.inner": inner, f"{at}.active": active, f"{at}.outer": active @ w2 + b2}
        return self.add(at, x, active @ w2 + b2)

    def encode(self, ids: list[int]) -> np.ndarray:
        x = self.embed("encoder", ids)
        x = self.attend("encoder.layers.0.attention", x, x, causal=False, crossing=False)
        return self.forward("encoder.layers.0.feedforward", x)

    def decode(self, ids: list[int], memory: np.ndarray) -> np.ndarray:
        x = self.embed("decoder", ids)
        x = self.attend("decoder.layers.0.self_attention", x, x, causal=True, crossing=False)
        x = self.attend("decoder.layers.0.cross_attention", x, memory, causal=False, crossing=True)
        return self.forward("decoder.layers.0.feedforward", x)


@pytest.fixture(scope="module")
def truth(walked: Walk) -> Arithmetic:
    return Arithmetic(list(walked.replay.source), list(walked.replay.prefix))


def test_every_matrix_of_the_page_is_what_numpy_finds(matrices: dict[str, Any], truth: Arithmetic) -> None:
    assert matrices.keys() == truth.found.keys()
    for name, matrix in matrices.items():
        values = np.array([[float(cell) for cell in row] for row in matrix["values"]])
        expected = truth.found[name]
        assert list(expected.shape) == matrix["shape"], name
        np.testing.assert_allclose(values, expected, rtol=2e-4, atol=2e-5, err_msg=name)  # float32 against float64


def test_a_wrong_number_would_be_seen(matrices: dict[str, Any], truth: Arithmetic) -> None:
    """The tolerance is far below what any of the usual mistakes would change."""
    weights = np.array(matrices["encoder.layers.0.attention.head-1.weights"]["values"], dtype=float)
    scores = truth.found["encoder.layers.0.attention.head-1.scores"] * math.sqrt(8)  # without the scaling
    raised = np.exp(scores)
    assert np.abs(raised / raised.sum(1, keepdims=True) - weights).max() > 0.01


def test_cells_show_the_numbers_rounded(html: str, matrices: dict[str, Any]) -> None:
    tables = re.findall(r'data-name="([^"]*)".*?<tbody>(.*?)</table>', html, re.S)
    assert [name for name, _ in tables] == list(matrices)
    for name, body in tables:
        rows = body.split("<tr>")[1:]
        shown = [[re.sub(r"^[^>]*>", "", cell) for cell in row.split("<td")[1:]] for row in rows]
        for cells, values in zip(shown, matrices[name]["values"], strict=True):
            for cell, value in zip(cells, values, strict=True):
                if value == "-inf":
                    assert cell == "−∞"
                else:
                    assert float(cell.replace("−", "-")) == pytest.approx(value, abs=0.005 + 1e-9), name
                if name.endswith("weights") and isinstance(value, float) and value:  # however small a share is
                    assert float(cell.replace("−", "-")) == pytest.approx(value, rel=0.5), name


def test_probabilities_are_those_of_the_logits(html: str, truth: Arithmetic, walked: Walk) -> None:
    raised = np.exp(truth.logits - truth.logits.max(1, keepdims=True))
    p = raised / raised.sum(1, keepdims=True)
    cards = re.findall(r'<figure class="chances".*?</figure>', html, re.S)
    assert len(cards) == len(walked.replay.gold)
    for position, card in enumerate(cards):
        shown = [float(each) for each in re.findall(r"<td>(\d\.\d{4})</td>", card)]
        np.testing.assert_allclose(shown, np.sort(p[position])[::-1][:5], atol=1e-4)
        chosen = re.search(r"class=chosen><th scope=\"row\"><bdi>(.*?)</bdi>", card)
        assert (
            chosen
            and chosen[1].replace("&lt;", "<").replace("&gt;", ">") == walked.vocabulary[walked.replay.gold[position]]
        )


def test_the_model_is_small_and_has_learnt_its_grammar(walked: Walk) -> None:
    assert sum(path.stat().st_size for path in MODEL.rglob("*") if path.is_file()) < 200_000
    translator = load(MODEL, device="cpu")
    pairs = {
        SENTENCE: "he loves small cats daily",
        "我们 今天 不 看见 黑 狗": "we do not see black dogs today",
        "她 现在 买 书": "she buys books now",
        "我 爱 猫": "I love cats",
    }
    assert [each.text for each in translator.translate(list(pairs))] == list(pairs.values())
    assert walked.translation == pairs[SENTENCE]
