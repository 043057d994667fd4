"""Road 1 of the handbook: every number that the pages show, computed from its definition and compared with the page.

Run it with nothing but Python:  python3 -I docs/transformer/verify.py

It needs no package, no network and no installed clearhead; it reads its own folder and computes with plain loops and
`math`. The first half of the file is a teaching text: one function a chapter, in the order of the handbook, each giving
the facts of that chapter by id. The second half reads the pages.

What it checks, one problem a line:

- each number in a role `fact` or `cited`, each cell of a `matrices` figure and each SVG text with `data-fact` or
  `data-cited`, at the precision at which it is shown;
- anchors (explicit, unique in a language), links between pages, references, images, the table of contents;
- that both languages have the same pages with the same anchors, facts, maths blocks, symbols and exercises;
- the number lint: a number with a decimal point, or of five or more digits, stands in a role (or is in ALLOWED);
- that each cited number has its source in references.md, and each wrong number its erratum in errata.md;
- coverage.json: each computed figure of the audited sources is covered by a fact that a page shows;
- that the lock file, from which road 2 (`clearhead verify`) reads these facts, is not stale.

For other programs (the site imports this file): `FACTS()` gives id → value; `part(facts, "attn.weights.0")` the value
at an id with cell numbers and `cell(...)` the same but surely a number; `parse_number(text)` → (value, tolerance);
`agrees(text, expected)` → (ok, difference); `read_role(text)` → (shown, id); `read_matrices(body)` → list of Block;
`read_cited(root)` → id → entry of cited.json; `lint(path)`, `check(root)`.
"""

# ruff: noqa: B905 (`zip(strict=)` is younger than Python 3.9, on which this file runs too)

from __future__ import annotations

import argparse
import contextlib
import difflib
import json
import math
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

HERE = Path(__file__).resolve().parent
LOCK = HERE.parents[1] / "src" / "clearhead" / "recipes" / "handbook" / "facts.lock.json"
LANGUAGES = ("en", "zh")

Row = list[Any]  # of numbers, whole or not
Matrix = list[Row]
Facts = dict[str, Any]  # id → a number, or nested lists of numbers

# ------------------------------------------------------------------------------------------------- small linear algebra


def transpose(a: Matrix) -> Matrix:
    """Rows become columns."""
    return [[row[j] for row in a] for j in range(len(a[0]))]


def matmul(a: Matrix, b: Matrix) -> Matrix:
    """Entry (i, j) is row i of `a` times column j of `b`."""
    result = []
    for row in a:
        result.append([sum(row[k] * b[k][j] for k in range(len(b))) for j in range(len(b[0]))])
    return result


def times(row: Row, b: Matrix) -> Row:
    """One row vector times a matrix."""
    return matmul([row], b)[0]


def add(a: Matrix, b: Matrix) -> Matrix:
    """Cell by cell."""
    return [[x + y for x, y in zip(*rows)] for rows in zip(a, b)]


def scale(a: Matrix, factor: float) -> Matrix:
    """Each cell times one number."""
    return [[x * factor for x in row] for row in a]


def dot(a: Row, b: Row) -> float:
    """The sum of the products of corresponding entries."""
    return sum(x * y for x, y in zip(a, b))


def difference(a: Any, b: Any) -> float:
    """The largest distance between corresponding cells."""
    if isinstance(a, list):
        return max(difference(x, y) for x, y in zip(a, b))
    return abs(a - b)


def mean(row: Row) -> float:
    """The sum over the count."""
    return sum(row) / len(row)


def variance(row: Row) -> float:
    """The mean squared distance from the mean (divided by n, not by n − 1)."""
    return mean([(x - mean(row)) ** 2 for x in row])


def softmax(row: Row) -> Row:
    """exp(s) over the sum of exp, after the largest score is taken off; a score of minus infinity gets exactly 0."""
    largest = max(row)
    powers = [math.exp(score - largest) for score in row]
    return [power / sum(powers) for power in powers]


def attention(q: Matrix, k: Matrix, v: Matrix, mask: Matrix | None = None) -> tuple[Matrix, Matrix]:
    """The weights softmax(QKᵀ/√d_k + mask) and the output, weights times V."""
    scores = scale(matmul(q, transpose(k)), 1 / math.sqrt(len(k[0])))
    if mask is not None:
        scores = add(scores, mask)
    weights = [softmax(row) for row in scores]
    return weights, matmul(weights, v)


def layer_norm(row: Row, epsilon: float = 1e-6) -> Row:
    """(x − mean)/√(variance + ε), with γ = 1 and β = 0."""
    return [(x - mean(row)) / math.sqrt(variance(row) + epsilon) for x in row]


def relu(row: Row) -> Row:
    """Negative entries become 0."""
    return [max(0, x) for x in row]


def position(pos: int, d: int) -> Row:
    """The sinusoidal encoding of one position: sine and cosine side by side, one pair a frequency."""
    row = []
    for i in range(d // 2):
        angle = pos / 10000 ** (2 * i / d)
        row += [math.sin(angle), math.cos(angle)]
    return row


def causal_mask(n: int) -> Matrix:
    """0 where a query may read a key (not later than itself), minus infinity elsewhere."""
    return [[0 if j <= i else -math.inf for j in range(n)] for i in range(n)]


# ------------------------------------------------------------------------------------ the sentence of the sixteen parts
# Three tokens, each a row of width 2; queries and keys are the rows themselves; the values double the first component.

X = [[1, 0], [0, 1], [1, 1]]
IDENTITY = [[1, 0], [0, 1]]
WV = [[2, 0], [0, 1]]
V = matmul(X, WV)


def representation() -> Facts:
    """Chapter 2: tokens become rows, scaled by √d_model; the output matrix is the embedding, transposed."""
    table = [[0] * 3 for _ in range(7)]
    return {
        "rep.x": X,
        "rep.x_shape": [len(X), len(X[0])],
        "rep.sqrt_d": math.sqrt(512),
        "rep.tied_shape": [len(table), len(table[0])],
        "rep.tied_output_shape": [len(transpose(table)), len(transpose(table)[0])],
        "rep.row_of_id_7": len(range(0, 7 + 1)),  # rows 0..7: the row of id 7 is the last of these
        "rep.scaled_embedding": scale([[1, 0, 1, 0]], math.sqrt(4))[0],
        "rep.log_vocabulary": math.log(37000),
        "rep.exercise_row": [0.5, -1, 0, 2],
        "rep.exercise_scaled": scale([[0.5, -1, 0, 2]], math.sqrt(4))[0],
    }


def projections() -> Facts:
    """Chapter 3: the same rows, seen through three matrices."""
    asymmetric = [[1, 1], [0, 1]]
    return {
        "proj.wq": IDENTITY,
        "proj.wk": IDENTITY,
        "proj.wv": WV,
        "proj.q": matmul(X, IDENTITY),
        "proj.k": matmul(X, IDENTITY),
        "proj.k_transposed": transpose(matmul(X, IDENTITY)),
        "proj.v": V,
        "proj.v_row2": times([1, 1], WV),
        "proj.exercise": times([2, 3], WV),
        "proj.exercise_q": times([2, 3], IDENTITY),
        "proj.asymmetric_wq": asymmetric,
        "proj.asymmetric_scores": matmul(matmul(X, asymmetric), transpose(X)),
    }


def scaled_dot_product() -> Facts:
    """Chapter 4: scores, weights, mixture."""
    raw = matmul(X, transpose(X))
    weights, output = attention(X, X, V)
    rounded = [round(weight, 6) for weight in weights[0]]
    equal_values = [[2, 1]] * 3
    same, uniform = matmul(weights, equal_values), matmul([[1 / 3] * 3] * 3, equal_values)
    exercise, mixture = attention([[2, 0]], X, V)
    return {
        "attn.score_0_2": dot(X[0], X[2]),
        "attn.raw": raw,
        "attn.scores": scale(raw, 1 / math.sqrt(2)),
        "attn.weights": weights,
        "attn.row_sums": [sum(row) for row in weights],
        "attn.column_sums": [sum(row) for row in transpose(weights)],
        "attn.output": output,
        "attn.output_0_0_rounded": rounded[0] * 2 + rounded[1] * 0 + rounded[2] * 2,
        "attn.output_0_1_rounded": rounded[0] * 0 + rounded[1] * 1 + rounded[2] * 1,
        "attn.score_shape": [len(raw), len(raw[0])],
        "attn.same_values_output": same,
        "attn.same_values_change": difference(same, uniform),
        "attn.unscaled_weights": [softmax(row) for row in raw],
        "attn.exercise_query": [2, 0],
        "attn.exercise_weights": exercise[0],
        "attn.exercise_output": mixture[0],
    }


def softmax_and_scale() -> Facts:
    """Chapter 5: what softmax does to differences, and why the scores are divided by √d_k."""
    scores = [1 / math.sqrt(2), 0, 1 / math.sqrt(2)]
    powers = [math.exp(score) for score in scores]
    shifted = softmax([score + 100 for score in scores])
    tenth, first = softmax([0, 10]), softmax([0, 1])

    # All 2⁸ pairs of sign vectors of width 4, each as likely as any other: the variance needs no sampling.
    signs: Matrix = [[]]
    for _ in range(4):
        signs = [vector + [sign] for vector in signs for sign in (-1, 1)]
    products = [dot(q, k) for q in signs for k in signs]

    # At width 64: the product of two signs is itself a fair sign, so q·k sums 64 of them; j minus signs give 64 − 2j.
    raw_64 = sum(math.comb(64, j) * (64 - 2 * j) ** 2 for j in range(65)) / 2**64
    return {
        "soft.scores": scores,
        "soft.exp": powers,
        "soft.sum": sum(powers),
        "soft.weights": [power / sum(powers) for power in powers],
        "soft.shift_change": difference(shifted, softmax(scores)),
        "soft.stable_exp": [math.exp(score - max(scores)) for score in scores],
        "soft.weights_0_10": tenth,
        "soft.weights_0_1": first,
        "soft.slope_0_1": first[1] * (1 - first[1]),
        "soft.slope_0_10": tenth[1] * (1 - tenth[1]),
        "soft.variance_raw_4": variance(products),
        "soft.variance_scaled_4": variance([product / math.sqrt(4) for product in products]),
        "soft.variance_raw_64": raw_64,
        "soft.deviation_raw_64": math.sqrt(raw_64),
        "soft.largest_exp_float32": math.log((2 - 2**-23) * 2**127),
        "soft.unscaled_64": softmax([0, math.sqrt(raw_64)]),
        "soft.hidden_weight": softmax([0, -math.inf])[1],
        "soft.exercise": softmax([1, 1, 0]),
        "soft.temperature_2": softmax([0 / 2, 10 / 2]),
    }


def causality() -> Facts:
    """Chapter 6: a position reads itself and what stands before it."""
    mask = causal_mask(3)
    weights, output = attention(X, X, V, mask)
    unmasked, _ = attention(X, X, V)
    zeroed = [[weight if j <= i else 0 for j, weight in enumerate(row)] for i, row in enumerate(unmasked)]
    penalised = [5 - 1e9, 5 - 1e9, 5 - 1e9]  # three equal scores; the "mask" of −10⁹ has left all of them equal
    queries = keys = 5
    return {
        "causal.mask": mask,
        "causal.weights": weights,
        "causal.output": output,
        "causal.posthoc": zeroed,
        "causal.posthoc_sums": [sum(row) for row in zeroed],
        "causal.renormalised": [[weight / sum(row) for weight in row] for row in zeroed],
        "causal.blank_row": times([0, 0, 0], V),  # nothing to read: all weights are 0, and so is the mixture
        "causal.minus_1e9_weights": softmax(penalised),
        "causal.float16_max": int((2 - 2**-10) * 2**15),
        "causal.pairs": [sum(j <= i for i in range(queries) for j in range(keys)), queries * keys],
        "causal.exercise_weights": softmax([0, 1, -math.inf]),
        "causal.cache_offset": sum(j <= 4 for j in range(keys)),  # the one query stands at position 4, not at 0
    }


def heads() -> Facts:
    """Chapter 7: two heads of width 1 read the two components of each row separately."""
    outputs, weights, values = [], [], []
    for wq in ([[1], [0]], [[0], [1]]):
        q = k = v = matmul(X, wq)
        head_weights, head_output = attention(q, k, v)
        values.append(v)
        weights.append(head_weights)
        outputs.append([row[0] for row in head_output])
    concat = transpose(outputs)
    w_o = [[1, 1], [0, 1]]
    result = matmul(concat, w_o)
    rows = [[1, 2], [3, 4], [5, 6]]  # three positions, two heads of width 1
    flat = [number for row in rows for number in row]
    return {
        "heads.weights_1_row_0": weights[0][0],
        "heads.output_1_row_0": outputs[0][0],
        "heads.weights_2_row_0": weights[1][0],
        "heads.output_2_row_0": outputs[1][0],
        "heads.weights_1": weights[0],
        "heads.weights_2": weights[1],
        "heads.concat": concat,
        "heads.result": result,
        "heads.shape": [len(result), len(result[0])],
        "heads.values_1": values[0],
        "heads.values_2": values[1],
        "heads.w_o": w_o,
        "heads.average_row_0": mean(concat[0]),
        "heads.average_rows": [mean(row) for row in concat],
        "heads.head_dim": 512 // 8,
        "heads.split_input": rows,
        "heads.split_right": transpose(rows),
        "heads.split_wrong": [flat[:3], flat[3:]],
        "heads.parameters_q": 8 * 512 * 64,
        "heads.parameters_one": 512 * 512,
    }


def order() -> Facts:
    """Chapter 8: sines and cosines tell positions apart, and a step forward is a rotation."""
    code = [position(pos, 4) for pos in range(4)]
    frequencies = [1 / 10000 ** (2 * i / 4) for i in range(2)]

    def rotate(row: Row, step: int, d: int) -> Row:
        turned = []
        for i in range(d // 2):
            sine, cosine = row[2 * i], row[2 * i + 1]
            angle = step / 10000 ** (2 * i / d)
            turned += [
                sine * math.cos(angle) + cosine * math.sin(angle),
                cosine * math.cos(angle) - sine * math.sin(angle),
            ]
        return turned

    new_order = [2, 0, 1]
    permuted = [X[i] for i in new_order]
    after = attention(permuted, permuted, matmul(permuted, WV))[1]
    before = attention(X, X, V)[1]
    return {
        "pos.pe": code[:3],
        "pos.embedding": [1, 0, 1, 0],
        "pos.sum": [a + b for a, b in zip([1, 0, 1, 0], code[1])],
        "pos.scaled_sum": [math.sqrt(4) * a + b for a, b in zip([1, 0, 1, 0], code[1])],
        "pos.frequencies": frequencies,
        "pos.wavelengths": [2 * math.pi / frequency for frequency in frequencies],
        "pos.rotated": rotate([math.sin(1), math.cos(1)], 1, 2),
        "pos.rotation_change": difference(rotate(position(3, 8), 5, 8), position(8, 8)),
        "pos.permutation_change": difference(after, [before[i] for i in new_order]),
        "pos.dots": [dot(code[0], code[k]) for k in range(3)],
        "pos.half_layout": [math.sin(f) for f in frequencies] + [math.cos(f) for f in frequencies],
        "pos.exercise": code[3],
    }


def block() -> Facts:
    """Chapter 9: the position-wise network, the sum with its input, the norm."""
    x, w1, w2 = [1, -2], [[1, 0, 1], [0, 1, 1]], [[1, 0], [0, 1], [1, 1]]
    hidden = times(x, w1)
    ffn = times(relu(hidden), w2)
    y = [a + b for a, b in zip(x, ffn)]
    unbiased = math.sqrt(sum((value - mean(y)) ** 2 for value in y) / (len(y) - 1))
    inner = times(relu(times(layer_norm(x), w1)), w2)
    exercise = [1, 2, 3, 6]
    return {
        "block.x": x,
        "block.w1": w1,
        "block.w2": w2,
        "block.hidden": hidden,
        "block.relu": relu(hidden),
        "block.ffn": ffn,
        "block.residual": y,
        "block.mean": mean(y),
        "block.variance": variance(y),
        "block.norm": layer_norm(y),
        "block.unbiased_norm": [(value - mean(y)) / unbiased for value in y],
        "block.epsilon_outside": [(value - mean(y)) / (math.sqrt(variance(y)) + 1e-6) for value in y],
        "block.pre_norm": [a + b for a, b in zip(x, inner)],
        "block.no_relu": times(hidden, w2),
        "block.exercise_norm": layer_norm(exercise),
        "block.exercise_mean": mean(exercise),
        "block.exercise_variance": variance(exercise),
        "block.ffn_parameters": 512 * 2048 + 2048 + 2048 * 512 + 512,
    }


def cross_attention() -> Facts:
    """Chapter 10: two target positions read four source positions; then a word is chosen."""
    queries, memory = [[1, 0], [1, 1]], [[1, 0], [0, 1], [1, 1], [0, 0]]
    weights, output = attention(queries, memory, memory)

    def shape(a: Matrix) -> list[int]:
        return [len(a), len(a[0])]

    def zeros(rows: int, columns: int) -> Matrix:
        return [[0] * columns for _ in range(rows)]

    decoder, encoded, narrow, widen = zeros(3, 8), zeros(4, 8), zeros(8, 2), zeros(2, 8)
    q, k = matmul(decoder, narrow), matmul(encoded, narrow)
    scores = matmul(q, transpose(k))
    mixed = matmul(scores, k)
    probabilities = softmax([2, 1, 0])
    return {
        "cross.queries": queries,
        "cross.memory": memory,
        "cross.scores": scale(matmul(queries, transpose(memory)), 1 / math.sqrt(2)),
        "cross.weights": weights,
        "cross.output": output,
        "model.cross_shapes": [shape(a) for a in (decoder, encoded, q, k, scores, mixed, matmul(mixed, widen))],
        "model.head_dim": 512 // 8,
        "model.vocabulary_softmax": probabilities,
        "model.greedy": probabilities.index(max(probabilities)),
        "model.gap": probabilities[0] / probabilities[1],
    }


# A whole model that fits on a page. V = 6, d = 4, two heads, d_ff = 8, one encoder layer, one decoder layer. Each
# matrix has a number m and its entries are cos(m + 3i + 5j)/2; a bias of the same number is cos(m + j)/10.


def filled(m: int, rows: int, columns: int) -> Matrix:
    """Matrix number m."""
    return [[math.cos(m + 3 * i + 5 * j) / 2 for j in range(columns)] for i in range(rows)]


def tiny_heads(x: Matrix, y: Matrix, first: int, mask: Matrix | None = None) -> Matrix:
    """Queries from `x`, keys and values from `y`, two heads of width 2, then WO; matrices number first..first+3."""
    q, k, v = (matmul(rows, filled(first + i, 4, 4)) for i, rows in enumerate((x, y, y)))
    side_by_side: Matrix = [[] for _ in x]
    for columns in (slice(0, 2), slice(2, 4)):
        _, head = attention([r[columns] for r in q], [r[columns] for r in k], [r[columns] for r in v], mask)
        side_by_side = [done + new for done, new in zip(side_by_side, head)]
    return matmul(side_by_side, filled(first + 3, 4, 4))


def tiny_ffn(x: Matrix, first: int) -> Matrix:
    """Two matrices with biases and a ReLU between them."""
    result = []
    for row in x:
        inner = [a + math.cos(first + j) / 10 for j, a in enumerate(times(row, filled(first, 4, 8)))]
        outer = times(relu(inner), filled(first + 1, 8, 4))
        result.append([a + math.cos(first + 1 + j) / 10 for j, a in enumerate(outer)])
    return result


def tiny_embed(ids: list[int]) -> Matrix:
    """√d times the row of the embedding, plus the position."""
    table = filled(0, 6, 4)
    return [[math.sqrt(4) * a + b for a, b in zip(table[id], position(pos, 4))] for pos, id in enumerate(ids)]


def tiny_encode(source: list[int]) -> Matrix:
    """One encoder layer: attention, add and norm, network, add and norm."""
    x = tiny_embed(source)
    x = [layer_norm(row) for row in add(x, tiny_heads(x, x, 1))]
    return [layer_norm(row) for row in add(x, tiny_ffn(x, 5))]


def tiny_logits(memory: Matrix, prefix: list[int]) -> Matrix:
    """One decoder layer over the memory, then the embedding read backwards."""
    y = tiny_embed(prefix)
    y = [layer_norm(row) for row in add(y, tiny_heads(y, y, 7, causal_mask(len(y))))]
    y = [layer_norm(row) for row in add(y, tiny_heads(y, memory, 11))]
    y = [layer_norm(row) for row in add(y, tiny_ffn(y, 15))]
    return matmul(y, transpose(filled(0, 6, 4)))


def tiny_model() -> Facts:
    """Chapter 10, the whole of it: three source tokens, three target tokens, logits over six words."""
    memory = tiny_encode([4, 5, 3])
    logits = tiny_logits(memory, [2, 4, 5])
    changed = tiny_logits(memory, [2, 4, 4])
    gold = [4, 5, 3]
    attention_numbers, ffn_numbers, norm_numbers = 4 * 4 * 4, 4 * 8 + 8 + 8 * 4 + 4, 2 * 4
    layers = (attention_numbers + ffn_numbers + 2 * norm_numbers) + (
        2 * attention_numbers + ffn_numbers + 3 * norm_numbers
    )
    return {
        "model.tiny_memory": memory,
        "model.tiny_logits": logits,
        "model.tiny_nll": mean([-math.log(softmax(row)[token]) for row, token in zip(logits, gold)]),
        "model.tiny_causality_change": difference(logits[:2], changed[:2]),
        "model.tied_parameters": layers + 6 * 4,
        "model.untied_parameters": layers + 3 * 6 * 4,
    }


# The same with two layers a side, so that it matters which layer reads what. The matrices of the encoder layers are
# numbers 1 and 7 and on, those of the decoder layers numbers 13 and 23 and on.


def around(x: Matrix, sublayer: Callable[[Matrix], Matrix], pre: bool) -> Matrix:
    """Sum and norm after the sub-layer as in the paper, or (`pre`) the norm on the way into it."""
    if pre:
        return add(x, sublayer([layer_norm(row) for row in x]))
    return [layer_norm(row) for row in add(x, sublayer(x))]


def deep_encode(source: list[int], pre: bool = False) -> Matrix:
    """Two encoder layers, and for pre-norm a last norm."""
    x = tiny_embed(source)
    for first in (1, 7):
        x = around(x, lambda y, first=first: tiny_heads(y, y, first), pre)
        x = around(x, lambda y, first=first: tiny_ffn(y, first + 4), pre)
    return [layer_norm(row) for row in x] if pre else x


def deep_logits(source: list[int], prefix: list[int], pre: bool = False) -> Matrix:
    """Two decoder layers, each reading the memory, which is what the encoder's last layer says."""
    memory, y = deep_encode(source, pre), tiny_embed(prefix)
    mask = causal_mask(len(prefix))
    for first in (13, 23):
        y = around(y, lambda x, first=first: tiny_heads(x, x, first, mask), pre)
        y = around(y, lambda x, first=first: tiny_heads(x, memory, first + 4), pre)
        y = around(y, lambda x, first=first: tiny_ffn(x, first + 8), pre)
    return matmul([layer_norm(row) for row in y] if pre else y, transpose(filled(0, 6, 4)))


def deep_model() -> Facts:
    """Chapter 10: two sentences of unequal length. Batches and caches are ways to the same numbers, not others."""
    pairs = [([4, 5, 3], [2, 4, 5]), ([5, 3], [2, 5, 5, 4])]  # source and EOS; BOS and target
    gold = [4, 5, 3, 5, 5, 4, 3]
    logits = [deep_logits(source, prefix) for source, prefix in pairs]
    rows = logits[0] + logits[1]
    return {
        "model.deep_memory": [deep_encode(source) for source, _ in pairs],
        "model.deep_logits": logits,
        "model.deep_batch_memory": [deep_encode(source) for source, _ in pairs],
        "model.deep_batch_logits": logits,
        "model.deep_step_logits": logits,
        "model.deep_chosen_logits": [[row[word] for word in (5, 0, 3)] for row in logits[0]],
        "model.deep_nll": mean([-math.log(softmax(row)[word]) for row, word in zip(rows, gold)]),
        "model.pre_logits": deep_logits(*pairs[0], pre=True),
    }


def long_attention() -> Facts:
    """Chapters 6 and 7: what fused kernels compute of 200 positions, and four heads that share two keys and values."""
    q, k, v = (filled(m, 200, 2) for m in (31, 32, 33))
    _, causal = attention(q, k, v, causal_mask(200))
    _, whole = attention(q, k, v)
    x = filled(34, 3, 4)
    queries, keys, values = matmul(x, filled(35, 4, 4)), matmul(x, filled(36, 4, 2)), matmul(x, filled(37, 4, 2))
    shared = []
    for head in range(4):  # of width 1; heads 0 and 1 read the first key, 2 and 3 the second
        own, group = slice(head, head + 1), slice(head // 2, head // 2 + 1)
        _, mixed = attention([r[own] for r in queries], [r[group] for r in keys], [r[group] for r in values])
        shared.append([row[0] for row in mixed])
    return {
        "causal.long_output": [causal[at] for at in (0, 99, 199)],
        "attn.long_output": [whole[at] for at in (0, 99, 199)],
        "heads.grouped_result": matmul(transpose(shared), filled(38, 4, 4)),
    }


def adam(gradients: list[Row]) -> Row:
    """Where Adam is after the given gradients, from 0, with the paper's constants and a rate of 0.001."""
    places = []
    for slopes in zip(*gradients):
        place = first = second = 0.0
        for step, slope in enumerate(slopes, 1):
            first, second = 0.9 * first + 0.1 * slope, 0.98 * second + 0.02 * slope**2
            place -= 0.001 * (first / (1 - 0.9**step)) / (math.sqrt(second / (1 - 0.98**step)) + 1e-9)
        places.append(place)
    return places


def constants(cited: Facts) -> Facts:
    """Chapter 11: the paper's constants, which our defaults are; dropout; a second step of Adam; the first weights."""
    paper = [cited[f"vaswani.{name}"] for name in ("beta1", "beta2", "smoothing", "warmup", "beam", "alpha")]
    return {
        "train.defaults": paper,
        "model.dropout": [cited["vaswani.dropout_base"], cited["vaswani.dropout_big"]],
        "train.adam_second": adam([[0.6, -0.7, 1e-9], [-0.2, -0.1, 2e-9]]),  # the last is as small as ε
        "train.halved_gradient": [slope / 2 for slope in [0.6, 0.3 - 1, 0.1]],
        "train.dropout_values": [0, 1 / (1 - 0.25)],
        "train.dropout_before_sum": [10 + 0, 10 + 1 / (1 - 0.5)],  # 10 + dropout(1), then the norm
        "train.dropout_after_norm": 0,
        "train.dropout_of_input": [0, 1 / (1 - 0.5)],  # of a row of zeros at position 0: sines 0, cosines 1
        "model.initial_spread": [1, 1, 1],  # √d times the embedding's deviation; the largest weights over √(6/(m + n))
        "search.plain_lengths": [length**0.6 for length in (1, 5, 10)],
    }


def smoothed(words: int, gold: int, epsilon: float = 0.1) -> Row:
    """Our smoothed target: 1 − ε on the right word, ε shared evenly by the others."""
    return [1 - epsilon if word == gold else epsilon / (words - 1) for word in range(words)]


def noam(update: int, d: int, warmup: int = 4000) -> float:
    """The paper's rate: rises in a straight line for `warmup` updates, then falls as one over the root."""
    return d**-0.5 * min(update**-0.5, update * warmup**-1.5)


def training() -> Facts:
    """Chapter 11: what is minimised, and by which steps."""
    nll = [-math.log(0.8), -math.log(0.5)]
    others = 37000 - 1
    spread = 0.1 / 37000
    rows = [[0.8, 0.1, 0.1], [0.5, 0.3, 0.2]]
    changes = []
    for gradient in [0.6, -0.7, 0.1]:  # Adam's first update, from moments of 0
        first, second = (1 - 0.9) * gradient, (1 - 0.98) * gradient**2
        first, second = first / (1 - 0.9**1), second / (1 - 0.98**1)
        changes.append(-0.001 * first / (math.sqrt(second) + 1e-9))
    target, begin, end = [4, 5], 2, 3
    return {
        "train.nll": mean(nll),
        "train.perplexity": math.exp(mean(nll)),
        "train.nll_sum": sum(nll),
        "train.nll_reported": mean([-math.log(row[0]) for row in rows]),
        "train.smoothed_loss": mean([-dot(smoothed(3, 0), [math.log(p) for p in row]) for row in rows]),
        "train.smoothed_target": smoothed(3, 1),
        "train.smoothing_floor": -(0.9 * math.log(0.9) + others * (0.1 / others) * math.log(0.1 / others)),
        "train.smoothing_floor_uniform": -(
            (0.9 + spread) * math.log(0.9 + spread) + others * spread * math.log(spread)
        ),
        "train.prefix_and_gold": [[begin, *target], [*target, end]],
        "train.rate_1": noam(1, 512),
        "train.rate_peak": noam(4000, 512),
        "train.rate_100000": noam(100000, 512),
        "train.rate_peak_big": noam(4000, 1024),
        "train.rates": [noam(update, 512) for update in (1000, 2000, 4000, 8000, 16000)],
        "train.adam_update": changes,
        "train.cache_rows": [sum(range(1, 8 + 1)), sum(1 for _ in range(8))],
    }


def search() -> Facts:
    """Chapter 11, after training: the length penalty of beam search, and BLEU."""

    def penalty(length: int) -> float:
        return ((5 + length) / 6) ** 0.6

    scores = [-2.0 / penalty(3), -2.3 / penalty(6)]
    hypothesis, reference = list("abcde"), list("abcdf")
    precisions = []
    for n in range(1, 5):
        grams = Counter(tuple(hypothesis[i : i + n]) for i in range(len(hypothesis) - n + 1))
        known = Counter(tuple(reference[i : i + n]) for i in range(len(reference) - n + 1))
        matched = sum(min(count, known[gram]) for gram, count in grams.items())
        precisions.append(matched / sum(grams.values()))
    return {
        "search.length_penalty": [penalty(length) for length in (1, 5, 10, 20, 50)],
        "search.example_scores": scores,
        "search.example_best": scores.index(max(scores)),
        "bleu.precisions": precisions,
        "bleu.score": 100 * math.exp(mean([math.log(p) for p in precisions])),  # same length: no brevity penalty
        "bleu.brevity": math.exp(1 - 12 / 9),
    }


def layers_until(goal: int, reach: range) -> int:
    """How many layers until position `goal` can depend on position 0, if a layer joins positions `reach` apart."""
    reached, layers = {0}, 0
    while goal not in reached:
        reached |= {p + step for p in reached for step in reach if 0 <= p + step <= goal}
        layers += 1
    return layers


def changed() -> Facts:
    """Chapter 12: what attention changed: paths, costs, memory."""
    n, d = 128, 512
    elements = 8192 * 8192
    return {
        "changed.states_before_8": len(range(1, 8)),
        "changed.path_recurrent": layers_until(99, range(0, 2)),
        "changed.path_convolution": layers_until(99, range(-1, 2)),
        "changed.path_causal_convolution": layers_until(99, range(0, 3)),
        "changed.path_attention": layers_until(99, range(-99, 100)),
        "changed.n2d": n * n * d,
        "changed.nd2": n * d * d,
        "changed.ratio": (n * d * d) / (n * n * d),
        "changed.n2d_8192": elements * d,
        "changed.score_elements": elements,
        "changed.score_mib": elements * 2 / 2**20,
        "changed.score_mib_4096": 4096 * 4096 * 2 / 2**20,
        "changed.score_gib": 8 * elements * 2 / 2**30,
    }


def learning() -> Facts:
    """Chapter 13: the gradient of the loss, and how it runs back through one row of the attention."""
    p, y = [0.6, 0.3, 0.1], [0, 1, 0]
    gradient = [a - b for a, b in zip(p, y)]
    weights = attention(X, X, V)[0][0]

    def of_scores(d_weights: Row) -> Row:  # softmax backwards: only what differs from the weighted mean moves a score
        centre = dot(weights, d_weights)
        return [weight * (d - centre) for weight, d in zip(weights, d_weights)]

    g = [1, -1]  # the gradient that arrives at the output of query 0
    d_weights = [dot(g, row) for row in V]
    d_scores = of_scores(d_weights)
    return {
        "learn.probabilities": p,
        "learn.gradient": gradient,
        "learn.update": [-slope for slope in gradient],
        "learn.smoothed_gradient": [a - b for a, b in zip(p, smoothed(3, 1))],
        "learn.weight_gradient": d_weights,
        "learn.score_gradient": d_scores,
        "learn.query_gradient": [slope / math.sqrt(2) for slope in times(d_scores, X)],
        "learn.value_gradient": [[weight * part for part in g] for weight in weights],
        "learn.same_values_gradient": of_scores([dot(g, [2, 1]) for _ in weights]),
    }


def afterwards(cited: Facts) -> Facts:
    """Chapter 14: from 2017 to 2022, the sums behind the sentences."""
    tilted = [prior * math.exp(reward / 1) for prior, reward in zip([0.5, 0.3, 0.2], [0, 1, 0])]
    preference = 1 / (1 + math.exp(-(1.5 - 0.5)))
    tokens = cited["hoffmann.tokens_per_parameter"] * cited["hoffmann.parameters"]
    return {
        "after.years": 2022 - 2017,
        "after.reward_kl": 1 - 0.1 * math.log(0.5 / 0.25),
        "after.optimum": [part / sum(tilted) for part in tilted],
        "after.tokens_per_parameter": cited["llama.tokens"] / cited["llama.parameters"],
        "after.orders": math.log10(cited["kaplan.largest"] / cited["kaplan.smallest"]),
        "after.loss_factor": 10 ** cited["kaplan.exponent"],
        "after.chinchilla_tokens": tokens,
        "after.chinchilla_operations": 6 * cited["hoffmann.parameters"] * tokens,  # C ≈ 6ND
        "after.glue_before": cited["bert.glue"] - cited["bert.glue_gain"],
        "after.pairs": math.comb(9, 2),
        "after.preference": preference,
        "after.preference_loss": -math.log(preference),
    }


# ------------------------------------------------------------------------------------------- costs and parameter counts
# A multiply and an add count as two operations: a product of an a × b and a b × c matrix costs 2abc.


def product_cost(a: int, b: int, c: int) -> int:
    """Operations of one matrix product."""
    return 2 * a * b * c


def head_cost(n: int, d: int, dk: int) -> dict[str, int]:
    """One head over n positions: three projections into it, scores, mixture."""
    return {"projections": 3 * product_cost(n, d, dk), "attention": product_cost(n, dk, n) + product_cost(n, n, dk)}


def mha_cost(n: int, d: int, h: int = 8) -> int:
    """All heads of width d/h, and the output projection."""
    return h * sum(head_cost(n, d, d // h).values()) + product_cost(n, d, d)


def ffn_cost(n: int, d: int) -> int:
    """d → 4d → d."""
    return product_cost(n, d, 4 * d) + product_cost(n, 4 * d, d)


def first_length(exceeds: Callable[[int], bool]) -> int:
    """The shortest length at which something holds."""
    n = 1
    while not exceeds(n):
        n += 1
    return n


def limits() -> Facts:
    """Chapter 15: ten times the length, a hundred times the scores."""
    layer = [mha_cost(n, 512) + ffn_cost(n, 512) for n in (100, 1000)]
    return {
        "limits.elements": [100 * 100, 1000 * 1000],
        "limits.factor": (1000 * 1000) / (100 * 100),
        "limits.layer_growth": layer[1] / layer[0],
        "limits.feedforward_share": 100 * ffn_cost(100, 512) / layer[0],
    }


def costs(cited: Facts) -> Facts:
    """Lineage, complexity: the operations of one layer, by part, and where they cross."""
    n, d, h, dk = 7, 16, 4, 4
    one = head_cost(n, d, dk)
    lengths = (512, 1024, 2048, 8192, 32768)
    wide = 512

    def scores(length: int) -> int:  # all heads together are as wide as the model
        return head_cost(length, wide, wide)["attention"]

    def linear(length: int) -> int:  # the four projections
        return mha_cost(length, wide) - scores(length)

    def layer(length: int) -> int:
        return mha_cost(length, wide) + ffn_cost(length, wide)

    def ratio(length: int) -> float:
        return mha_cost(length, wide) / ffn_cost(length, wide)

    speed = 8 * cited["vaswani.p100_tflops"] * 1e12
    return {
        "cost.projections_one_head": one["projections"],
        "cost.single_head": sum(one.values()),
        "cost.multi_head": h * sum(one.values()),
        "cost.output": product_cost(n, d, d),
        "cost.mha": mha_cost(n, d, h),
        "cost.ffn": ffn_cost(n, d),
        "cost.ffn_layer": product_cost(n, d, 4 * d),
        "cost.elements": [length**2 for length in lengths],
        "cost.element_factors": [length**2 // 512**2 for length in lengths],
        "cost.mha_growth": mha_cost(32768, wide) / mha_cost(512, wide),
        "cost.layer_growth": layer(32768) / layer(512),
        "cost.doubling": head_cost(2 * n, d, dk)["attention"] / one["attention"],
        "cost.ffn_over_mha_8": 1 / ratio(8),
        "cost.mha_over_ffn": [ratio(length) for length in (50, 100, 128, 200, 512, 1024, 2048, 4096)],
        "cost.decoder_mha_over_ffn": [2 * ratio(length) for length in (100, 200)],
        "cost.projection_over_attention_at_d": linear(wide) / scores(wide),
        "cost.crossovers": [
            first_length(lambda length: scores(length) >= linear(length)),
            first_length(lambda length: scores(length) >= ffn_cost(length, wide)),
            first_length(lambda length: scores(length) >= linear(length) + ffn_cost(length, wide)),
        ],
        "cost.mha_equals_ffn": first_length(lambda length: ratio(length) >= 1),
        "cost.qkv_parameters": 3 * wide * wide,
        "cost.qkv_biases": 3 * wide,
        "cost.train_base": cited["vaswani.hours_base"] * 3600 * speed,
        "cost.train_big": cited["vaswani.days_big"] * 24 * 3600 * speed,
    }


def whole_model() -> Facts:
    """Lineage, complexity: one layer by part, then the base model (V = 37 000), forwards, in training, in decoding."""
    d, n, layers = 512, 100, 6

    def parts(length: int) -> list[int]:
        scores = head_cost(length, d, d)["attention"]
        return [mha_cost(length, d) - scores, scores, ffn_cost(length, d)]

    shares = [[100 * cost / sum(parts(length)) for cost in parts(length)] for length in (100, 1024, 4096)]
    encoder = layers * sum(parts(n))
    decoder = layers * (2 * mha_cost(n, d) + ffn_cost(n, d))  # cross-attention too has 100 queries and 100 keys
    vocabulary = product_cost(n, d, 37000)
    forward = encoder + decoder + vocabulary
    # The hundredth token. With a cache one position goes through the layers and reads 100 keys twice; the keys and
    # values of the source are there already, so cross-attention projects only its query and its output.
    reading = product_cost(1, d, n) + product_cost(1, n, d)
    one_layer = 4 * product_cost(1, d, d) + reading + 2 * product_cost(1, d, d) + reading + ffn_cost(1, d)
    one_row = product_cost(1, d, 37000)
    return {
        "cost.layer_100": parts(n),
        "cost.layer_shares": shares,
        "cost.forward_100": forward,
        "cost.training_100": 3 * forward,
        "cost.vocabulary_share_100": 100 * vocabulary / forward,
        "cost.step_100": [layers * one_layer + one_row, decoder + one_row],
    }


def count(
    d: int, dff: int, layers: int = 6, h: int = 8, dk: int = 0, dv: int = 0, bias: bool = False
) -> dict[str, int]:
    """Parameters of a Transformer with one tied vocabulary of 37 000, by part."""
    dk, dv = dk or d // h, dv or d // h
    one_attention = 2 * d * h * dk + 2 * d * h * dv + (2 * h * dk + h * dv + d if bias else 0)
    ffn = d * dff + dff + dff * d + d
    norm = 2 * d
    encoder_layer = one_attention + ffn + 2 * norm
    decoder_layer = 2 * one_attention + ffn + 3 * norm
    parts = {"embedding": 37000 * d, "encoder": layers * encoder_layer, "decoder": layers * decoder_layer}
    return {**parts, "total": sum(parts.values()), "encoder_layer": encoder_layer, "decoder_layer": decoder_layer}


def vocabularies(millions: int, model: dict[str, int]) -> list[int]:
    """The smallest and the largest vocabulary with which a model rounds to so many millions."""
    width, rest = model["embedding"] // 37000, model["encoder"] + model["decoder"]
    low, high = ((millions + half) * 1e6 for half in (-0.5, 0.5))
    return [math.ceil((low - rest) / width), math.floor((high - rest) / width)]


def parameters(cited: Facts) -> Facts:
    """Lineage, accounts: the parameters of the paper's models, exactly."""
    base, big = count(512, 2048), count(1024, 4096, h=16)
    rows = [
        count(512, 2048, dk=16),
        count(512, 2048, dk=32),
        count(512, 2048, layers=2),
        count(512, 2048, layers=4),
        count(512, 2048, layers=8),
        count(256, 2048),
        count(1024, 2048),
        count(512, 1024),
        count(512, 4096),
    ]
    printed = [cited["vaswani.parameters_base"] * 1e6, cited["vaswani.parameters_big"] * 1e6]
    attention_layer, feedforward = 4 * 512 * 512, 12 * (2 * 512 * 2048 + 2048 + 512)
    norms = 6 * (2 + 3) * (2 * 512)
    by_kind = [base["embedding"], 18 * attention_layer, feedforward, norms]

    # One vocabulary for base and the nine rows of Table 3: the largest of the lower ends, the smallest of the upper.
    names = ("base", "dk16", "dk32", "layers_2", "layers_4", "layers_8", "d256", "d1024", "f1024", "f4096")
    ranges = [vocabularies(cited[f"vaswani.parameters_{name}"], model) for name, model in zip(names, [base, *rows])]
    common = [max(low for low, _ in ranges), min(high for _, high in ranges)]
    big_at_common = big["total"] + (common[0] - 37000) * 1024
    facts: Facts = {}
    for name, model in (("base", base), ("big", big)):
        for part in ("embedding", "encoder", "decoder", "total"):
            facts[f"params.{name}_{part}"] = model[part]
    return {
        **facts,
        "params.base_total_biases": count(512, 2048, bias=True)["total"],
        "params.big_total_biases": count(1024, 4096, h=16, bias=True)["total"],
        "params.implied_vocabulary_base": (printed[0] - base["encoder"] - base["decoder"]) / 512,
        "params.implied_vocabulary_big": (printed[1] - big["encoder"] - big["decoder"]) / 1024,
        "params.implied_range_base": vocabularies(cited["vaswani.parameters_base"], base),
        "params.implied_range_big": vocabularies(cited["vaswani.parameters_big"], big),
        "params.common_range": common,
        "params.big_at_common": big_at_common / 1e6,
        "params.attention_layer": attention_layer,
        "params.attention_total": 18 * attention_layer,
        "params.feedforward_total": feedforward,
        "params.base_shares": [100 * kind / base["total"] for kind in by_kind],
        "params.sum_of_stated_parts": 19 + 19 + 25,
        "params.cross": 6 * 4 * 512 * 512,
        "params.norm": 2 * 512,
        "params.norm_encoder_layer": 2 * (2 * 512),
        "params.norm_decoder_layer": 3 * (2 * 512),
        "params.norm_total": norms,
        "params.residual": 0,
        "params.head_dims": [512 // 8, 1024 // 16],
        "params.d_ff": [4 * 512, 4 * 1024],
        "params.encoder_layer": base["encoder_layer"],
        "params.decoder_layer": base["decoder_layer"],
        "params.table3_millions": [row["total"] / 1e6 for row in rows],
        "params.base_bytes": 4 * base["total"],
        "params.adam_bytes": 2 * 4 * base["total"],
    }


# -------------------------------------------------------------------------------------------------------------- lineage


def comparison() -> Facts:
    """Lineage, comparison: what one output of a stack of convolutions sees, and what a layer costs."""

    def seen(dilations: list[int]) -> int:
        reached = {0}
        for dilation in dilations:
            reached = {p + step * dilation for p in reached for step in (-1, 0, 1)}
        return len(reached)

    depth = 1  # of dilations 1, 3, 9, … until one output has seen 100 positions
    while seen([3**layer for layer in range(depth)]) < 100:
        depth += 1
    windows = [start for start in range(100) if start + 5 <= 100]
    recurrent, attention_layer = 50 * 512**2, 50**2 * 512
    return {
        "compare.receptive_field": seen([1] * 5),
        "compare.dilated_receptive_field": seen([3**layer for layer in range(5)]),
        "compare.windows": len(windows),
        "compare.windows_claimed": 100 // 5,
        "compare.dilated_depth": depth,
        "compare.convolution_50": 3 * 50 * 512**2,
        "compare.depth": layers_until(99, range(0, 5)),  # the first and the last of 100 positions meet in one output
        "compare.recurrent_50": recurrent,
        "compare.attention_50": attention_layer,
        "compare.ratio_50": recurrent / attention_layer,
        "compare.ratio_4096": (4096**2 * 512) / (4096 * 512**2),
    }


def gradients() -> Facts:
    """Lineage, recurrent networks: products of many factors, and what keeps them near one."""
    w, power, norms = [[0.9, 1], [0, 0.9]], IDENTITY, []
    squared = matmul(transpose(w), w)  # its larger eigenvalue, from trace and determinant, is the square we look for
    trace = squared[0][0] + squared[1][1]
    determinant = squared[0][0] * squared[1][1] - squared[0][1] * squared[1][0]
    slope, half_life = 1 - 0.5**2, 0
    while 0.99**half_life > 1 / 2:
        half_life += 1
    for k in range(1, 101):
        power = matmul(power, w)
        if k in (1, 5, 10, 50, 100):
            norms.append(math.sqrt(sum(entry**2 for row in power for entry in row)))
    gradient = [3, 4]
    length = math.sqrt(dot(gradient, gradient))
    return {
        "rnn.factors": [0.9, 1.1],
        "rnn.matrix": w,
        "rnn.singular_value": math.sqrt((trace + math.sqrt(trace**2 - 4 * determinant)) / 2),
        "rnn.tanh_slope": slope,
        "rnn.tanh_step": 1.1 * slope,
        "rnn.gate": 0.99,
        "rnn.half_life": half_life,
        "rnn.shrinking": 0.9**50,
        "rnn.growing": 1.1**50,
        "rnn.power_norms": norms,
        "rnn.tanh_factor": (1.1 * slope) ** 50,
        "rnn.gate_path": 0.99**100,
        "rnn.clipped": [part * min(1, 1 / length) for part in gradient],
        "rnn.lstm_parameters": 4 * (512 * 512 + 512 * 512 + 512),
        "rnn.gru_parameters": 3 * (512 * 512 + 512 * 512 + 512),
    }


def alignments(cited: Facts) -> Facts:
    """Lineage, Sutskever, Bahdanau, Luong: distances, an additive score, a window."""
    n = 6  # source word i is read at time i (or n − 1 − i, reversed); target word i is written at time n + i
    plain = [(n + i) - i for i in range(n)]
    reversed_source = [(n + i) - (n - 1 - i) for i in range(n)]
    query = [1, 0]
    sums = [[s + h for s, h in zip(query, row)] for row in X]
    squashed = [[math.tanh(entry) for entry in row] for row in sums]
    energies = [dot([1, 1], row) for row in squashed]
    weights = softmax(energies)
    centre, sigma = 2.4, 2 / 2
    window = [s for s in range(1, 11) if centre - 2 <= s <= centre + 2]
    aligned = softmax([0] * len(window))
    gaussian = [math.exp(-((s - centre) ** 2) / (2 * sigma**2)) for s in window]
    local = [weight * factor for weight, factor in zip(aligned, gaussian)]
    width = len(range(-10, 11))

    def gain(after: str, before: str) -> float:
        return 100 * (cited[after] / cited[before] - 1)

    return {
        "seq2seq.first_lag": [plain[0], reversed_source[0]],
        "seq2seq.mean_lag": [mean(plain), mean(reversed_source)],
        "seq2seq.lags_plain": plain,
        "seq2seq.lags_reversed": reversed_source,
        "seq2seq.gain": cited["sutskever.reversed"] - cited["sutskever.forward"],
        "seq2seq.gain_mixed": cited["sutskever.reversed"] - cited["sutskever.forward_text"],
        "bahdanau.width": 2 * 1000,
        "bahdanau.gain_30": gain("bahdanau.search_30", "bahdanau.encdec_30"),
        "bahdanau.gain_50": gain("bahdanau.search_50", "bahdanau.encdec_50"),
        "bahdanau.query": query,
        "bahdanau.sums": sums,
        "bahdanau.tanh": squashed,
        "bahdanau.energies": energies,
        "bahdanau.weights": weights,
        "bahdanau.context": times(weights, X),
        "luong.window": width,
        "luong.cost_ratio": width / 45,
        "luong.cost_range": [width / 40, width / 50],
        "luong.centre": centre,
        "luong.gaussian": gaussian,
        "luong.feeding_gain": cited["luong.global_location_feeding"] - cited["luong.global_location"],
        "luong.total_gain": cited["luong.local_p_general"] - cited["luong.reverse_dropout"],
        "luong.local_weights": local,
        "luong.local_sum": sum(local),
        "luong.local_renormalised": [w / sum(local) for w in local],
        "ablation.heads_1": cited["vaswani.dev_base"] - cited["vaswani.dev_heads_1"],
        "ablation.heads_32": cited["vaswani.dev_base"] - cited["vaswani.dev_heads_32"],
    }


def lineage(cited: Facts) -> Facts:
    """Lineage, the long line: authors, the years of the chapter's three stages, trigrams, and the time of training."""
    authors = ["Vaswani", "Shazeer", "Parmar", "Uszkoreit", "Jones", "Gomez", "Kaiser", "Polosukhin"]
    return {
        "lineage.authors": len(authors),
        "lineage.years": 40 + 20 + 5,
        "lineage.trigrams": cited["vaswani.vocabulary"] ** 3,
        "lineage.hours_base": cited["vaswani.updates_base"] * cited["vaswani.step_base"] / 3600,
        "lineage.days_big": cited["vaswani.updates_big"] * cited["vaswani.step_big"] / (24 * 3600),
    }


# ---------------------------------------------------------------------------------------------------- the measured page


def step_weights(d: int, dff: int, layers: int, words: int) -> dict[str, int]:
    """Numbers of the matrices that one decoder step reads: the source's keys and values are there already."""
    attention, cross, ffn = 4 * d * d, 2 * d * d, 2 * d * dff
    stack = layers * (attention + cross + ffn)
    return {"attention": attention, "cross": cross, "ffn": ffn, "stack": stack, "words": words * d}


def decoding() -> Facts:
    """L13: what one decoder step reads, and what moves if hypotheses change places."""
    base, tiny = step_weights(512, 2048, 6, 32000), step_weights(256, 1024, 4, 8000)
    total, small = (model["stack"] + model["words"] for model in (base, tiny))
    per_number = (4, 2, 1)  # bytes in fp32, bf16, int8
    sizes = [width * total for width in per_number]
    position = 6 * 2 * 512 * 4  # keys and values of one token in all layers, fp32
    reading, in_fp32, in_int8 = 30e9, 100e9, 400e9  # bytes and operations a second
    return {
        "step.layer": [base["attention"], base["cross"], base["ffn"]],
        "step.weights": [base["stack"], base["words"], total],
        "step.vocabulary_share": 100 * base["words"] / total,
        "step.bytes": sizes,
        "step.milliseconds": [1000 * size / reading for size in sizes],
        "step.most_steps": [reading / size for size in sizes],
        "step.small_bytes": [width * small for width in per_number],
        # r rows cost 2r operations a weight, and reading a weight costs its bytes: equal at this r
        "step.rows_even": [4 * in_fp32 / (2 * reading), 1 * in_int8 / (2 * reading)],
        "step.position_bytes": position,
        "step.cache_25": 4 * 25 * position,
        "step.moved_25": sum(4 * past * position for past in range(1, 25 + 1)),
        "step.source_25": [25 * position, 4 * 25 * position],
    }


def eighths() -> Facts:
    """L13: one row of activations times one column of weights in integers of eight bits."""
    x, w = [25.0, -63.5, 8.6, 0.6], [31.75, 5.6, -15.0, 10.2]
    neighbour = 635.0  # the largest number of another row

    def integers(row: Row, by: float) -> list[int]:
        return [round(number / by) for number in row]  # ties go to the even neighbour

    x_scale, w_scale, shared = max(map(abs, x)) / 127, max(map(abs, w)) / 127, neighbour / 127
    small, column, coarse = integers(x, x_scale), integers(w, w_scale), integers(x, shared)
    return {
        "int8.x": x,
        "int8.w": w,
        "int8.scales": [x_scale, w_scale],
        "int8.x_integers": small,
        "int8.w_integers": column,
        "int8.sum": sum(a * b for a, b in zip(small, column)),
        "int8.result": sum(a * b for a, b in zip(small, column)) * x_scale * w_scale,
        "int8.exact": dot(x, w),
        "int8.shared_scale": shared,
        "int8.shared_integers": coarse,
        "int8.shared_result": sum(a * b for a, b in zip(coarse, column)) * shared * w_scale,
    }


def read_cited(root: Path = HERE) -> Facts:
    """cited.json: id → {"value", "source", "where"}."""
    return json.loads((root / "cited.json").read_text("utf-8"))


def FACTS(root: Path = HERE) -> Facts:  # noqa: N802 (the name that the design gave it)
    """All facts by id: numbers, or nested lists of numbers."""
    cited = {id: entry["value"] for id, entry in read_cited(root).items()}
    return {
        **representation(),
        **projections(),
        **scaled_dot_product(),
        **softmax_and_scale(),
        **causality(),
        **heads(),
        **order(),
        **block(),
        **cross_attention(),
        **tiny_model(),
        **deep_model(),
        **long_attention(),
        **training(),
        **constants(cited),
        **search(),
        **changed(),
        **learning(),
        **afterwards(cited),
        **limits(),
        **costs(cited),
        **whole_model(),
        **parameters(cited),
        **comparison(),
        **gradients(),
        **alignments(cited),
        **lineage(cited),
        **decoding(),
        **eighths(),
    }


def part(facts: Facts, id: str) -> Any:
    """The value at an id that may go on with cell numbers, `attn.weights.0.2`; KeyError says what is there instead."""
    name = id
    numbers: list[int] = []
    while name not in facts:
        name, _, last = name.rpartition(".")
        if not name or not last.isdigit():
            near = difflib.get_close_matches(id, facts, 1)
            raise KeyError(f"no fact {id!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
        numbers.insert(0, int(last))
    value = facts[name]
    for number in numbers:
        if not isinstance(value, list):
            raise KeyError(f"{id!r} has too many cell numbers")
        if number >= len(value):
            raise KeyError(f"{id!r}: cell {number} of {len(value)} (cells count from 0)")
        value = value[number]
    return value


def cell(facts: Facts, id: str) -> float:
    """Like `part`, for a single number."""
    value = part(facts, id)
    if isinstance(value, list):
        raise KeyError(f"{id!r} is a list of {len(value)}; add the number of a cell, such as {id}.0")
    return value


# =========================================================================================================== the reader


class Block(NamedTuple):
    """One block of a `matrices` figure: an operator (then only `operator` is set) or rows of numbers as they stand."""

    line: int  # within the body, from 0
    operator: str = ""
    label: str = ""
    id: str = ""
    rows: tuple[tuple[str, ...], ...] = ()


class Shown(NamedTuple):
    """One number that a page displays, beside the one that was computed or cited."""

    page: str
    line: int
    role: str
    id: str
    expected: float
    shown: str
    difference: float
    ok: bool


class Problem(NamedTuple):
    """What is wrong, and where."""

    page: str
    line: int
    message: str


class Fence(NamedTuple):
    """A directive or a piece of code between fences."""

    line: int  # of the opening fence, from 1
    name: str  # of the directive; empty for plain code
    argument: str
    body: list[tuple[int, str]]  # of (line, text)


SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
NUMBER = re.compile(
    r"(?P<sign>[-−+]?)(?P<whole>\d{1,3}(?:,\d{3})+|\d+)?(?P<fraction>\.\d+)?"
    r"(?:[eE](?P<e>[-−+]?\d+)|\s?×\s?10(?:\^\{?(?P<power>[-−+]?\d+)\}?|(?P<raised>[⁰¹²³⁴⁵⁶⁷⁸⁹⁻]+)))?"
)


def parse_number(text: str) -> tuple[float, float]:
    """A displayed number and its tolerance, half a unit of the last place that is shown.

    `12,345`, `−0.5`, `1.3e8`, `1.3×10^8`, `1.3×10⁸` and `-∞` are numbers; ValueError for anything else.
    """
    text = text.strip()
    if text in ("-∞", "−∞"):
        return -math.inf, 0.0
    found = NUMBER.fullmatch(text)
    if not found or not (found["whole"] or found["fraction"]):
        raise ValueError(f"{text!r} is no number; write 0.25, 12,345, 1.3e8, 1.3×10^8 or -∞, units outside the role")
    exponent = found["e"] or found["power"] or (found["raised"] or "0").translate(SUPERSCRIPTS)
    digits = (found["whole"] or "0").replace(",", "") + (found["fraction"] or "")
    sign = "-" if found["sign"] in ("-", "−") else ""
    if (found["e"] or found["power"] or found["raised"]) and not digits.strip("0."):
        raise ValueError(
            f"{text!r}: zero with a power of ten stands for any small number; write 0, or the number itself"
        )
    power = int(exponent.replace("−", "-"))
    places = len(found["fraction"] or ".") - 1
    return float(f"{sign}{digits}e{power}"), float(f"0.5e{power - places}")


def agrees(text: str, expected: float) -> tuple[bool, float]:
    """Whether a displayed number is the expected one at the precision shown, and their difference."""
    value, tolerance = parse_number(text)
    if math.isinf(value) or math.isinf(expected):
        return value == expected, 0.0 if value == expected else math.inf
    whole = re.fullmatch(r"[-−+]?[\d,]+", text.strip()) and abs(expected - round(expected)) < 1e-9
    if whole:
        tolerance = 1e-9  # a whole number that stands for a whole number
    distance = abs(value - expected)
    return distance <= tolerance * (1 + 1e-9) + 1e-15 * abs(expected), distance


def read_role(text: str) -> tuple[str, str]:
    """`0.401112 <attn.weights.0.0>` → the text that is shown and the id."""
    found = re.fullmatch(r"\s*(.*?)\s*<([^<>\s]+)>\s*", text, re.DOTALL)
    if not found or not found[1]:
        raise ValueError(f"{text!r} should read NUMBER <id>")
    return found[1], found[2]


def read_matrices(body: str) -> list[Block]:
    """The blocks of a `matrices` figure; ValueError, with the line of the body from one, where it makes no sense."""
    lines = body.split("\n")
    blocks: list[Block] = []
    at = 0
    while at < len(lines):
        if not lines[at].strip():
            at += 1
            continue
        end = at
        while end < len(lines) and lines[end].strip():
            end += 1
        head = lines[at].strip()
        if end - at == 1:
            if not re.fullmatch(r"\[[^\[\]]+\]|[^\w\s<>]+", head):
                raise ValueError(f"line {at + 1}: {head!r} is neither an operator nor the label of rows")
            blocks.append(Block(at, operator=head))
        else:
            found = re.fullmatch(r"(.*?)\s*<([^<>\s]+)>", head)
            if not found:
                raise ValueError(f"line {at + 1}: {head!r} should read LABEL <fact.id>")
            rows = tuple(tuple(line.split()) for line in lines[at + 1 : end])
            blocks.append(Block(at, label=found[1], id=found[2], rows=rows))
        at = end
    return blocks


def as_rows(value: Any, shape: tuple[int, int]) -> list[list[tuple[str, float]]]:
    """A fact as rows of (cell numbers, value); a vector may stand as a row or as a column."""
    if not isinstance(value, list):
        return [[("", value)]]
    if not isinstance(value[0], list):
        cells = [(f".{i}", item) for i, item in enumerate(value)]
        return [[one] for one in cells] if shape == (len(value), 1) else [cells]
    return [[(f".{i}.{j}", item) for j, item in enumerate(row)] for i, row in enumerate(value)]


# ------------------------------------------------------------------------------------------------------------- one page

OPAQUE = {"matrices", "symbol", "code-block", "code", "literalinclude", "toctree"}  # bodies that are no prose
FENCE = re.compile(r"\s*(`{3,}|~{3,}|:{3,})\s*(?:\{([\w:-]+)\})?\s*(.*?)\s*$")
ROLE = re.compile(r"\{(fact|cited|wrong)\}`([^`]+)`")
CODE = re.compile(r"(?<![`}])(``+)(?!`).*?(?<!`)\1(?!`)", re.DOTALL)  # code between two or more backticks
MALFORMED = re.compile(r"\{(fact|cited|wrong)\}(?=\s+`|``)")
BEFORE = re.compile(r"(?:\d[.,]?|(?<!\w)[-−.])$")  # what would join the number in a role, from the left
AFTER = re.compile(r"[.,]?\d|[eE][-−+]?\d|\s?×\s?10(?!\d)|\^")  # and from the right
HTML = re.compile(
    r"<\s*(?:script|iframe|img|object|embed|link|style|video|audio|form|base|meta)\b"
    r"|<[a-zA-Z][^<>\n]*\s(?:(?:src|srcset|style|on\w+)\s*=|href\s*=\s*[\"']?\s*(?:\w+:|//))",
    re.IGNORECASE,
)
INLINE = re.compile(r"(?:\{([\w:-]+)\})?`[^`]*`")
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(\s*<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\s*\)")


def blank(text: str) -> str:
    """Blanks of the same length, line ends kept, so that positions in a page stay what they are."""
    return re.sub(r"[^\n]", " ", text)


class Page:
    """One page, taken apart: fences, anchors, what is prose, and what stands in roles."""

    def __init__(self, path: Path, root: Path) -> None:
        self.path, self.name, self.language = path, path.relative_to(root).as_posix(), path.parent.name
        self.broken: list[Problem] = []  # problems met while reading
        try:
            self.text = path.read_text("utf-8")
        except UnicodeDecodeError as error:
            self.text = path.read_bytes().decode("utf-8", "replace")
            self.broken.append(Problem(self.name, 1, f"is no UTF-8: {error.reason} at byte {error.start}"))
        self.fences: list[Fence] = []
        self.code = 0
        prose = self._read_fences(self.text.split("\n"))
        prose = re.sub(r"<!--.*?-->", lambda m: blank(m[0]), prose, flags=re.DOTALL)
        prose = re.sub(r"^%.*$", lambda m: blank(m[0]), prose, flags=re.MULTILINE)
        prose = CODE.sub(lambda m: blank(m[0]), prose)
        for m in MALFORMED.finditer(prose):  # which Sphinx draws, or leaves as code, and which ROLE does not find
            message = f"{m[1]}: one backtick has to follow at once, {{{m[1]}}}`NUMBER <id>`"
            self.broken.append(Problem(self.name, self.line_of(m.start(), prose), message))
        # Plain code is no prose; the backticks of a role that holds words (a reference, maths) stay.
        prose = INLINE.sub(lambda m: blank(m[0]) if m[1] in (None, "code", "kbd", "file", "samp") else m[0], prose)
        self.roles = [(self.line_of(m.start(), prose), m[1], m[2]) for m in ROLE.finditer(prose)]
        for m in ROLE.finditer(prose):
            before, after = BEFORE.search(prose[max(0, m.start() - 8) : m.start()]), AFTER.match(prose, m.end())
            if before or after:
                message = f"{m[1]}: {(before or after)[0].strip()!r} touches {m[0]} and would be read as part of it"
                self.broken.append(Problem(self.name, self.line_of(m.start(), prose), message))
        for m in HTML.finditer(prose):
            message = f"raw HTML, {m[0].strip()!r}: the pages are Markdown and load nothing"
            self.broken.append(Problem(self.name, self.line_of(m.start(), prose), message))
        self.links = [(self.line_of(m.start(), prose), m[1] == "!", m[3]) for m in LINK.finditer(prose)]
        for m in re.finditer(r"\{(ref|doc|numref|eq|any|download)\}`([^`]+)`", prose):
            target = re.fullmatch(r".*<([^<>]+)>\s*", m[2], re.DOTALL)
            kind = "doc:" if m[1] == "doc" else "ref:"
            if m[1] not in ("any", "download"):
                self.links.append((self.line_of(m.start(), prose), False, kind + (target[1] if target else m[2])))
        self.anchors = [
            (self.line_of(m.start(), prose), m[1] or m[2])
            for m in re.finditer(r"^[ \t]*(?:\(([^()\s]+)\)=|:(?:name|label):[ \t]*(\S+))[ \t]*$", prose, re.MULTILINE)
        ]
        self.maths = sum(fence.name == "math" for fence in self.fences) + len(re.findall(r"\$\$", prose)) // 2
        prose = ROLE.sub(lambda m: blank(m[0]), prose)
        self.prose = LINK.sub(lambda m: m[0].replace(m[3], blank(m[3])), prose)

    @staticmethod
    def line_of(at: int, text: str) -> int:
        """The line of a position, from 1."""
        return text.count("\n", 0, at) + 1

    def _read_fences(self, lines: list[str]) -> str:
        """Collects the fences and gives the text without code, numbers of figures and the fences themselves."""
        prose: list[str] = []
        open_fences: list[tuple[str, Fence]] = []
        for number, line in enumerate(lines, 1):
            found = FENCE.fullmatch(line)
            if found and found[1][0] == "`" and "`" in found[3]:  # which CommonMark takes for code in a line
                if found[2]:
                    message = "a backtick in the line that opens a ``` fence: open it with ::: or ~~~"
                    self.broken.append(Problem(self.name, number, message))
                found = None
            top = open_fences[-1] if open_fences else None
            inside = top is not None and (top[1].name in OPAQUE or not top[1].name)
            if found and top and not found[2] and not found[3] and self._closes(found[1], top[0]):
                open_fences.pop()
                prose.append("")
            elif found and not inside and not (found[1][0] == ":" and not found[2]):
                fence = Fence(number, found[2] or "", found[3], [])
                self.fences.append(fence)
                self.code += not found[2]
                open_fences.append((found[1], fence))
                prose.append(found[3] if found[2] not in OPAQUE and found[2] else "")
            else:
                if top:
                    top[1].body.append((number, line))
                prose.append(self._prose_of(line, top[1].name if top else None))
        for _, fence in open_fences:
            self.broken.append(Problem(self.name, fence.line, "a fence is never closed"))
        return "\n".join(prose)

    @staticmethod
    def _prose_of(line: str, inside: Any) -> str:
        """The part of a line that readers see as words; `inside` is the directive around it, empty in plain code."""
        if inside is None:
            return line
        option = re.match(r"\s*:([\w-]+):", line)
        if option and inside:
            return line if option[1] in ("alt", "caption", "note", "name", "label", "rows", "columns") else ""
        if inside == "matrices":  # the rows are compared, labels and operators are words
            label = re.fullmatch(r"(.*)<[^<>]+>\s*", line)
            return label[1] if label else line if line.lstrip().startswith("[") else ""
        if inside == "diagram":
            return re.sub(r"@\s*[\d.]+\s*,\s*[\d.]+", lambda m: blank(m[0]), line)
        return "" if not inside or inside in OPAQUE else line

    @staticmethod
    def _closes(marks: str, opening: str) -> bool:
        return marks[0] == opening[0] and len(marks) >= len(opening)

    def named(self, name: str) -> list[Fence]:
        """The directives of one name."""
        return [fence for fence in self.fences if fence.name == name]


def read_figure(fence: Fence) -> tuple[list[Block], int]:
    """The blocks of a `matrices` directive and the line of the page at which its body begins."""
    body = [(number, line) for number, line in fence.body if not re.match(r"\s*:\w+:", line)]
    return read_matrices("\n".join(line for _, line in body)), (body[0][0] if body else fence.line)


def compare(page: Page, facts: Facts, cited: Facts) -> Iterator[Shown | Problem]:
    """Each number that a page displays, as Shown, or a Problem where there is nothing to compare."""
    for line, role, text in page.roles:
        try:
            if role == "wrong":
                read_role(text)
                continue
            shown, id = read_role(text)
            yield compare_one(page.name, line, role, id, shown, cell(facts if role == "fact" else cited, id))
        except (ValueError, KeyError) as error:
            yield Problem(page.name, line, f"{role}: {error.args[0]}")
    for fence in page.named("matrices"):
        try:
            blocks, start = read_figure(fence)
        except ValueError as error:
            yield Problem(page.name, fence.line, f"matrices: {error}")
            continue
        for block_ in blocks:
            if block_.id:
                yield from compare_block(page.name, start + block_.line, block_, facts)


def compare_one(page: str, line: int, role: str, id: str, shown: str, expected: float) -> Shown:
    """One displayed number."""
    ok, distance = agrees(shown, expected)
    return Shown(page, line, role, id, expected, shown, distance, ok)


def compare_block(page: str, line: int, block_: Block, facts: Facts) -> Iterator[Shown | Problem]:
    """Each cell of a block of a `matrices` figure."""
    shape = (len(block_.rows), len(block_.rows[0]))
    try:
        rows = as_rows(part(facts, block_.id), shape)
    except KeyError as error:
        yield Problem(page, line, f"matrices: {error.args[0]}")
        return
    if [len(row) for row in rows] != [len(row) for row in block_.rows]:
        there = f"{len(rows)}×{len(rows[0])}"
        yield Problem(page, line, f"matrices: {block_.id} is {there}, shown with rows of {[*map(len, block_.rows)]}")
        return
    for i, (row, texts) in enumerate(zip(rows, block_.rows)):
        for (numbers, expected), text in zip(row, texts):
            try:
                yield compare_one(page, line + 1 + i, "fact", block_.id + numbers, text, expected)
            except (ValueError, TypeError) as error:
                yield Problem(page, line + 1 + i, f"matrices: {block_.id}{numbers}: {error}")


def compare_figure(path: Path, root: Path, facts: Facts, cited: Facts) -> Iterator[Shown | Problem]:
    """The texts of a drawn figure: those with `data-fact` or `data-cited` are compared, the others linted."""
    name = path.relative_to(root).as_posix()
    try:
        tree = ElementTree.fromstring(path.read_text("utf-8"))
    except ElementTree.ParseError as error:
        yield Problem(name, error.position[0], f"no well-formed SVG: {error}")
        return
    for element in tree.iter():
        text = (element.text or "").strip()
        role = next((role for role in ("fact", "cited") if element.get(f"data-{role}")), "")
        if role:
            id = element.get(f"data-{role}", "")
            try:
                yield compare_one(name, 1, role, id, text, cell(facts if role == "fact" else cited, id))
            except (ValueError, KeyError) as error:
                yield Problem(name, 1, f"{role}: {error.args[0]}")
        elif not element.tag.endswith(("}style", "}script")):
            for number in loose_numbers(text):
                yield Problem(name, 1, f"{number} stands in no data-fact or data-cited")


# ------------------------------------------------------------------------------------------------------ the number lint

SECTION = r"[A-Z]?(?:[1-9](?:\.\d\d?)+|[1-9]\d?)(?![.,]?\d)"
ALLOWED = (
    (r"https?://\S+|\b10\.\d{4,}/\S+", "addresses and DOIs"),
    (r"(?<![\d.])(?:0[7-9]|[12]\d)(?:0[1-9]|1[0-2])\.\d{4,5}(?:v\d+)?(?!\d)", "arXiv numbers"),
    (rf"§+\s*{SECTION}(?:\s*(?:[-–—]|至|to)\s*§*{SECTION})?", "sections, after their sign"),
    (rf"\b(?:[Ss]ections?|[Cc]hapters?|Appendix)\s*{SECTION}", "sections, after their word"),
    (
        r"\b(?:[Tt]ables?|[Ff]igures?|Figs?\.|[Ee]quations?|Eqs?\.|Algorithm)\s*"
        r"\(?[A-Z]?[1-9]\d?(?:[-–]\d\d?)*\)?(?![.,]?\d)",
        "tables, figures and equations, after their word",
    ),
    (r"(?<![代方])[表图式](?:\s|[(（])*[A-Z]?[1-9]\d?(?:[-–]\d\d?)*(?![.,]?\d)", "the same in Chinese"),
    (rf"第\s*{SECTION}", "sections in Chinese"),
    (r"(?<![\d.,])[1-9](?:\.\d\d?)+\s*小?节", "section numbers before their word, in Chinese"),
    (r"(?<![\d.])\d+(?:\.\d+){2,}", "numbers with two points are sections or versions"),
    (rf"(?<![A-Za-z])[AB]{SECTION}", "sections of the two source documents"),
    (
        r"(?:Python|PyTorch|CUDA|[Vv]ersions?|版本|GPT-|CC BY(?:-SA)?)\s*(?:≥\s*)?[1-9](?:\.\d\d?)*(?![.,]?\d)",
        "versions",
    ),
)
DISGUISED = re.compile(
    r"\d(?:\{[.,]\}|&#\w+;|[．﹒\u200b\u2060])\d+"
)  # what LaTeX, HTML or a reader sees as one number
LOOSE = re.compile(r"(?<![\d.,])(?:\d[\d,]*)?\.\d+|(?<![\d.,])\d[\d,]*\d")


def loose_numbers(text: str) -> list[str]:
    """The decimals and the numbers of five or more digits that no entry of ALLOWED explains."""
    return [number for _, number in loose_at(text)]


def loose_at(text: str) -> list[tuple[int, str]]:
    """The same with their positions."""
    for pattern, _ in ALLOWED:
        text = re.sub(pattern, lambda m: blank(m[0]), text)
    found = [(m.start(), m[0]) for m in DISGUISED.finditer(text)]
    for m in LOOSE.finditer(text):
        if "." in m[0] or len(m[0].replace(",", "")) >= 5:
            found.append((m.start(), m[0]))
    return found


def lint_page(page: Page) -> list[Problem]:
    """A problem for each number of a page that should stand in a role."""
    message = "stands in no role; write it as {fact}, {cited} or {wrong}"
    return [Problem(page.name, page.line_of(at, page.prose), f"{n} {message}") for at, n in loose_at(page.prose)]


def lint(path: Path) -> list[Problem]:
    """The same for the file of a page."""
    return lint_page(Page(Path(path), Path(path).parents[1]))


# ------------------------------------------------------------------------------------------------ anchors, links, pairs

GENERATED = {"walkthrough.html"}  # written beside the pages when the site is built


def anchors_of(pages: list[Page]) -> tuple[dict[str, Page], list[Problem]]:
    """Anchor → name of its page, for the pages of one language, and the problems with them."""
    where: dict[str, Page] = {}
    problems = []
    for page in pages:
        for line, anchor in page.anchors:
            if not re.fullmatch(r"[a-z0-9][a-z0-9-]*", anchor):
                problems.append(
                    Problem(page.name, line, f"anchor {anchor!r}: use small ASCII letters, digits, hyphens")
                )
            if anchor in where:
                problems.append(Problem(page.name, line, f"anchor {anchor!r} stands in {where[anchor].name} already"))
            where.setdefault(anchor, page)
    return where, problems


def check_links(page: Page, pages: dict[str, Page], where: dict[str, Page]) -> Iterator[Problem]:
    """A problem for each link or reference that leads nowhere."""
    targets = [*page.links]
    for fence in page.fences:
        if fence.name in ("figure", "image"):
            targets.append((fence.line, True, fence.argument))
    for line, image, target in targets:
        if re.match(r"[a-z]+://|mailto:", target):
            if image:
                yield Problem(page.name, line, f"image {target}: the handbook loads nothing from the network")
            continue
        if target.startswith("ref:"):
            if target[4:] not in where:
                yield Problem(page.name, line, f"reference to {target[4:]!r}, an anchor that no page has")
            continue
        file, _, anchor = target.partition("#")
        if file.startswith("doc:"):
            file = file[4:] + ".md"
        if file and file not in GENERATED and not (page.path.parent / file).exists():
            yield Problem(page.name, line, f"{target}: there is no file {file}")
        elif anchor and (not file or file.endswith(".md")):
            home = where.get(anchor)
            if home is None or (file and pages.get(file) is not home):
                near = difflib.get_close_matches(anchor, where, 1)
                there = f", which {home.name} has" if home else f"; nearest is {near[0]!r}" if near else ""
                yield Problem(page.name, line, f"{target}: no anchor {anchor!r} in {file or 'any page'}{there}")


def check_contents(pages: dict[str, Page]) -> Iterator[Problem]:
    """Every page stands in a table of contents, and every entry is a page."""
    listed = set()
    for page in pages.values():
        for fence in page.named("toctree"):
            for line, text in fence.body:
                entry = re.sub(r".*<([^<>]+)>\s*$", r"\1", text.strip())
                if not entry or entry.startswith(":") or "://" in entry:
                    continue
                listed.add(entry + ".md")
                if entry + ".md" not in pages:
                    yield Problem(page.name, line, f"table of contents: there is no page {entry}.md")
    for file, page in pages.items():
        if file not in listed and file != "index.md":
            yield Problem(page.name, 1, "stands in no table of contents")


def outline(page: Page) -> dict[str, Counter[str]]:
    """What a page must have in common with its twin in the other language."""
    roles: Counter[str] = Counter()
    for _, role, text in page.roles:
        roles[f"{role} {text.rpartition('<')[2].rstrip('> ')}"] += 1
    for fence in page.named("matrices"):
        with contextlib.suppress(ValueError):  # reported where the numbers are compared
            roles.update(f"matrix {block_.id or block_.operator[:1]}" for block_ in read_figure(fence)[0])
    counts = {name: len(page.named(name)) for name in ("exercise", "solution", "misconception", "paper", "diagram")}
    anchors = [anchor for _, anchor in page.anchors]
    symbols = [fence.argument for fence in page.named("symbol")]
    return {
        "anchors": Counter(anchors),
        "numbers": roles,
        "symbols": Counter(symbols),
        "counts": Counter({**counts, "blocks of maths": page.maths, "blocks of code": page.code}),
    }


def check_pairs(by_language: dict[str, dict[str, Page]]) -> Iterator[Problem]:
    """Both languages have the same pages, and each pair the same outline."""
    first, second = (by_language[language] for language in LANGUAGES)
    for file in sorted(set(first) ^ set(second)):
        there, missing = LANGUAGES if file in first else LANGUAGES[::-1]
        yield Problem(f"{there}/{file}", 1, f"has no twin {missing}/{file}")
    for file in sorted(set(first) & set(second)):
        one, other = outline(first[file]), outline(second[file])
        for kind in one:
            for item in sorted(set(one[kind]) | set(other[kind])):
                a, b = one[kind][item], other[kind][item]
                if a != b:
                    yield Problem(
                        second[file].name, 1, f"{item}: {a} in {LANGUAGES[0]}, {b} in {LANGUAGES[1]} ({kind})"
                    )


# -------------------------------------------------------------------------------------- sources, errata, coverage, lock


def check_sources(language: str, pages: dict[str, Page], cited: Facts) -> Iterator[Problem]:
    """Each cited number has its source in references.md, each wrong one its erratum in errata.md."""

    def anchors(file: str) -> set[str]:
        return {anchor for _, anchor in pages[file].anchors} if file in pages else set()

    for source, ids in Counter(entry["source"] for entry in cited.values()).items():
        if f"ref-{source}" not in anchors("references.md"):
            message = f"no anchor 'ref-{source}', the source of {ids} numbers in cited.json"
            yield Problem(f"{language}/references.md", 1, message)
    for page in pages.values():
        for line, role, text in page.roles:
            erratum = text.rpartition("<")[2].rstrip("> ").lower()
            if role == "wrong" and erratum not in anchors("errata.md"):
                yield Problem(page.name, line, f"wrong: errata.md has no anchor {erratum!r}")


def check_coverage(root: Path, facts: Facts, shown_ids: set[str]) -> Iterator[Problem]:
    """Each audited figure is covered by a fact that is shown, or excused with a reason."""
    try:
        figures = json.loads((root / "coverage.json").read_text("utf-8")).items()
    except (OSError, ValueError):  # reported where the files are read
        return
    except AttributeError:
        yield Problem("coverage.json", 1, "is no object of figures")
        return
    for figure, entry in figures:
        if not isinstance(entry, dict):
            yield Problem("coverage.json", 1, f"{figure}: should be an object with 'fact' or 'reason'")
            continue
        if entry.get("reason"):
            continue
        ids = entry["fact"] if isinstance(entry.get("fact"), list) else [entry.get("fact")]
        for id in ids:
            try:
                part(facts, str(id))
            except KeyError as error:
                yield Problem("coverage.json", 1, f"{figure}: {error.args[0]}")
                continue
            if not any(f"{one}.".startswith(f"{id}.") or f"{id}.".startswith(f"{one}.") for one in shown_ids):
                yield Problem("coverage.json", 1, f"{figure}: no page shows {id}")


def to_json(value: Any) -> Any:
    """Lists stay lists; minus infinity, which JSON lacks, becomes a string."""
    if isinstance(value, list):
        return [to_json(item) for item in value]
    return "-inf" if value == -math.inf else value


def write_lock(facts: Facts, lock: Path = LOCK) -> None:
    """The facts for road 2, sorted, one a line."""
    lines = [f"    {json.dumps(id)}: {json.dumps(to_json(facts[id]))}" for id in sorted(facts)]
    lock.write_text('{\n  "facts": {\n' + ",\n".join(lines) + "\n  }\n}\n", "utf-8")


def same(a: Any, b: Any) -> bool:
    """Equal but for the last bits, which differ between the maths libraries of machines."""
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b))
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        return abs(a - b) <= 1e-12 * max(1, abs(a))
    return a == b


def check_lock(facts: Facts, lock: Path = LOCK) -> Iterator[Problem]:
    """The lock holds these facts and no others."""
    advice = "run verify.py --write-lock"
    if not lock.exists():
        yield Problem(lock.name, 1, f"is not there; {advice}")
        return
    try:
        locked = dict(json.loads(lock.read_text("utf-8"))["facts"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        yield Problem(lock.name, 1, f"is damaged ({type(error).__name__}: {error}); {advice}")
        return
    for id in sorted(set(locked) | set(facts)):
        if id not in locked or id not in facts:
            yield Problem(lock.name, 1, f"{id} is {'new' if id in facts else 'gone'}; {advice}")
        elif not same(to_json(facts[id]), locked[id]):
            yield Problem(lock.name, 1, f"{id} is {locked[id]}, computed {to_json(facts[id])}; {advice}")


# ----------------------------------------------------------------------------------------------------------- everything


class Report(NamedTuple):
    """All numbers shown, and all problems, mismatches among them."""

    facts: Facts
    shown: list[Shown]
    problems: list[Problem]


def no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """For json: an object in which no key stands twice."""
    for key, times_ in Counter(key for key, _ in pairs).items():
        if times_ > 1:
            raise ValueError(f"{key!r} stands {times_} times")
    return dict(pairs)


def check(root: Path = HERE, lock: Path = LOCK) -> Report:
    """Everything that this file checks, over the handbook in `root`."""
    facts, entries = FACTS(root), read_cited(root)
    cited = {id: entry["value"] for id, entry in entries.items()}
    by_language: dict[str, dict[str, Page]] = {}
    shown: list[Shown] = []
    problems: list[Problem] = [*check_lock(facts, lock)]
    for file in ("cited.json", "coverage.json"):
        try:
            json.loads((root / file).read_text("utf-8"), object_pairs_hook=no_duplicates)
        except (OSError, ValueError) as error:
            problems.append(Problem(file, 1, str(error)))
    for language in LANGUAGES:
        pages = {path.name: Page(path, root) for path in sorted((root / language).glob("*.md"))}
        for path in sorted((root / language).glob("*/**/*.md")):
            problems.append(
                Problem(path.relative_to(root).as_posix(), 1, f"lies too deep; all pages lie in {language}/")
            )
        by_language[language] = pages
        where, faults = anchors_of([*pages.values()])
        problems += faults
        if not pages:
            problems.append(Problem(language, 1, "no pages"))
        results: list[Shown | Problem] = []
        for page in pages.values():
            problems += page.broken
            results += compare(page, facts, cited)
            results += lint_page(page)
            results += check_links(page, pages, where)
        for path in sorted((root / "figures" / language).glob("*.svg")):
            results += compare_figure(path, root, facts, cited)
        shown += [one for one in results if isinstance(one, Shown)]
        problems += [one for one in results if isinstance(one, Problem)]
        problems += check_contents(pages)
        problems += check_sources(language, pages, entries)
    problems += check_pairs(by_language)
    problems += check_coverage(root, facts, {one.id for one in shown if one.role == "fact"})
    problems += [Problem(one.page, one.line, describe(one)) for one in shown if not one.ok]
    return Report(facts, shown, sorted(problems))


def describe(one: Shown) -> str:
    """A displayed number in words."""
    expected = f"{one.expected:.8g}" if isinstance(one.expected, float) else str(one.expected)
    return f"{one.id}  expected {expected}  shown {one.shown}  difference {one.difference:.1e}"


def main(arguments: list[str] | None = None) -> int:
    """The command; 0 if all is right, 1 on any problem, 2 if it was called wrongly."""
    parser = argparse.ArgumentParser(description="Recompute every number of the handbook and check its pages.")
    parser.add_argument("--fact", action="append", metavar="ID", help="only this fact, or those below it (repeatable)")
    parser.add_argument("--page", action="append", metavar="NAME", help="only pages of this name (en/04, 04-attention)")
    parser.add_argument("--json", action="store_true", help="the whole report as JSON")
    parser.add_argument("--quiet", action="store_true", help="problems only")
    parser.add_argument("--unused", action="store_true", help="list the facts that no page shows, then go on")
    parser.add_argument("--write-lock", action="store_true", help="write the lock for `clearhead verify` first")
    parser.add_argument("--root", type=Path, default=HERE, help="the folder of en, zh, cited.json and coverage.json")
    parser.add_argument("--lock", type=Path, default=LOCK, help="the lock file")
    options = parser.parse_args(arguments)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8")
    root = options.root.resolve()
    if not (root / "cited.json").exists():
        parser.error(f"{root} holds no cited.json; --root is the folder docs/transformer")
    try:
        facts = FACTS(root)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        print(f"cited.json:1  PROBLEM  is damaged, or lacks a number ({type(error).__name__}: {error})")
        return 1
    if options.write_lock:
        write_lock(facts, options.lock)
    report = check(root, options.lock)
    if options.fact:
        report = only(report, options.fact, parser)
    if options.page:
        report = on_pages(report, options.page, pages_of(root), parser)
    try:
        if options.json:
            print(json.dumps(as_json(report), ensure_ascii=False, indent=1))
        else:
            show(report, options)
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read the lines has seen enough (`| head`); what was found counts all the same
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 1 if report.problems else 0


def only(report: Report, ids: list[str], parser: argparse.ArgumentParser) -> Report:
    """The report on some facts alone."""

    def wanted(name: str) -> bool:
        return any(f"{name}.".startswith(f"{id}.") or f"{id}.".startswith(f"{name}.") for id in ids)

    known = {*report.facts, *(one.id for one in report.shown)}
    for id in ids:
        if not any(f"{name}.".startswith(f"{id}.") or f"{id}.".startswith(f"{name}.") for name in known):
            near = difflib.get_close_matches(id, known, 1)
            parser.error(f"no fact {id!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
    shown = [one for one in report.shown if wanted(one.id)]
    faults = {(one.page, one.line, describe(one)) for one in shown if not one.ok}
    return Report(
        {id: value for id, value in report.facts.items() if wanted(id)},
        shown,
        [problem for problem in report.problems if tuple(problem) in faults],
    )


def pages_of(root: Path) -> list[str]:
    """The names of all pages and drawn figures, as the report has them."""
    folders = [(root / language, "*.md") for language in LANGUAGES]
    folders += [(root / "figures" / language, "*.svg") for language in LANGUAGES]
    return [path.relative_to(root).as_posix() for folder, pattern in folders for path in sorted(folder.glob(pattern))]


def on_pages(report: Report, names: list[str], pages: list[str], parser: argparse.ArgumentParser) -> Report:
    """The report on some pages alone, with the facts that they show."""

    def means(name: str, page: str) -> bool:  # en/04, 04-attention, docs/transformer/en/04-attention.md
        return page.startswith(name) or page.partition("/")[2].startswith(name) or f"/{name}".endswith(f"/{page}")

    known = {*pages, *(problem.page for problem in report.problems)}
    for name in names:
        if not name or not any(means(name, page) for page in known):
            near = difflib.get_close_matches(name, [*(Path(page).stem for page in pages), *known], 1)
            parser.error(f"no page {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""))

    def wanted(page: str) -> bool:
        return any(means(name, page) for name in names)

    shown = [one for one in report.shown if wanted(one.page)]
    ids = {fact_of(one.id, report.facts) for one in shown if one.role == "fact"}
    return Report(
        {id: value for id, value in report.facts.items() if id in ids},
        shown,
        [problem for problem in report.problems if wanted(problem.page)],
    )


def as_json(report: Report) -> dict[str, Any]:
    """The report for programs."""
    shown = [{**one._asdict(), "expected": to_json(one.expected)} for one in report.shown]
    for one in shown:
        one["difference"] = one["difference"] if math.isfinite(one["difference"]) else "inf"
    return {
        "ok": not report.problems,
        "facts": {id: to_json(value) for id, value in report.facts.items()},
        "shown": shown,
        "problems": [problem._asdict() for problem in report.problems],
    }


def fact_of(id: str, facts: Facts) -> str:
    """The fact of which `id` may be a cell."""
    while id not in facts and "." in id:
        id = id.rpartition(".")[0]
    return id


def counted(count: int, one: str) -> str:
    """`1 problem`, `2 problems`."""
    return f"{count} {one}" + ("" if count == 1 else "s")


def by_chapter(report: Report) -> list[str]:
    """A table: for each chapter its facts, how many of them a page shows, how often, and how often wrongly."""
    numbers: Counter[str] = Counter()
    wrong: Counter[str] = Counter()
    seen: dict[str, set[str]] = {}
    for one in report.shown:
        chapter = one.id.partition(".")[0] if one.role == "fact" else "cited"
        numbers[chapter] += 1
        wrong[chapter] += not one.ok
        seen.setdefault(chapter, set()).add(fact_of(one.id, report.facts) if one.role == "fact" else one.id)
    facts = Counter(id.partition(".")[0] for id in report.facts)
    rows = [("chapter", "facts", "shown", "numbers", "wrong")]
    for chapter in [*facts, *(["cited"] if numbers["cited"] else [])]:
        counts = (len(seen.get(chapter, ())), numbers[chapter], wrong[chapter])
        rows.append((chapter, str(facts[chapter] or "-"), *map(str, counts)))
    widths = [max(map(len, column)) for column in zip(*rows)]
    return [
        "  ".join([row[0].ljust(widths[0]), *(text.rjust(width) for text, width in zip(row[1:], widths[1:]))])
        for row in rows
    ]


def show(report: Report, options: argparse.Namespace) -> None:
    """The report for people: a line a number in the order of the page, a table of the chapters, the problems."""
    if options.fact and not options.quiet:
        for id, value in report.facts.items():
            print(f"{id} = {json.dumps(to_json(value))}")
    if not options.quiet:
        for one in sorted(report.shown, key=lambda one: (one.page, one.line)):
            print(f"{one.page}:{one.line}  {describe(one)}" + ("" if one.ok else "  WRONG"))
    if options.unused:
        seen = {one.id for one in report.shown}
        for id in report.facts:
            if not any(f"{one}.".startswith(f"{id}.") or f"{id}.".startswith(f"{one}.") for one in seen):
                print(f"no page shows {id}")
    if not options.quiet:
        print("", *by_chapter(report), "", sep="\n")
    for problem in report.problems:
        print(f"{problem.page}:{problem.line}  PROBLEM  {problem.message}")
    if report.problems or not options.quiet:
        pages = counted(len({one.page for one in report.shown}), "page")
        facts, numbers = counted(len(report.facts), "fact"), counted(len(report.shown), "number")
        print(f"{facts}, {numbers} on {pages}, {counted(len(report.problems), 'problem')}")


if __name__ == "__main__":
    sys.exit(main())
