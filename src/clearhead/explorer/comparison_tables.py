"""The tables of the report: rows for CSV in full, and cells for the page."""

from __future__ import annotations

from dataclasses import dataclass

from clearhead.analysis.layer_times import crossovers
from clearhead.explorer.comparison_findings import Findings
from clearhead.explorer.comparison_mechanisms import reach
from clearhead.explorer.comparison_verdicts import Claim, scientific
from clearhead.explorer.comparison_words import CURVES, LAYERS
from clearhead.explorer.content import Both
from clearhead.recipes.compare.cited import TABLE_1
from clearhead.recipes.compare.results import Interval

__all__ = ["Table", "printed_table", "claim_rows", "context_table", "crossover_table", "link_table", "score_table"]


@dataclass(frozen=True)
class Table:
    """`heads` and `cells` are shown, `rows` (heads first) are the CSV; the first cell of a row names it."""

    name: str
    caption: Both
    heads: tuple[Both, ...]
    cells: tuple[tuple[str | Both, ...], ...]
    rows: list[list[object]]


def score_table(found: Findings) -> Table:
    """Section 1: a row a model."""
    heads = (
        Both("Model", "模型"),
        Both("BLEU [95 %]", "BLEU [95 %]"),
        Both("p", "p"),
        Both("chrF [95 %]", "chrF [95 %]"),
        Both("Dev NLL", "开发集 NLL"),
        Both("Parameters", "参数量"),
        Both("Updates", "更新次数"),
        Both("Training, tokens/s", "训练 词元/秒"),
        Both("Translation, tokens/s", "翻译 词元/秒"),
    )
    names = "name label family bleu bleu_low bleu_high bleu_p chrf chrf_low chrf_high chrf_p dev_nll parameters updates"
    rows: list[list[object]] = [
        [*names.split(), "stopped_by", "train_seconds", "train_tokens_s", "translate_tokens_s", "path", "signature"]
    ]
    cells: list[tuple[str | Both, ...]] = []
    for each in found.models.values():
        bleu, chrf = each.bleu, each.chrf
        scores: list[object] = [bleu.value, bleu.low, bleu.high, each.bleu_p, chrf.value, chrf.low, chrf.high]
        rates = [each.train_seconds, each.train_tokens_per_second, each.translate_tokens_per_second]
        rows.append(
            [each.name, each.label, each.family, *scores, each.chrf_p, each.dev_nll, each.parameters, each.updates,
             each.stopped_by, *rates, each.path, each.signature]
        )  # fmt: skip
        cells.append(
            (
                each.label, _interval(bleu), "–" if each.bleu_p is None else f"{each.bleu_p:.3g}", _interval(chrf),
                f"{each.dev_nll:.3f}", f"{each.parameters:,}", f"{each.updates:,}",
                f"{each.train_tokens_per_second:,.0f}", f"{each.translate_tokens_per_second:,.0f}",
            )
        )  # fmt: skip
    caption = Both(
        "p: paired bootstrap of BLEU against the Transformer. Training speed with the other jobs beside it, "
        "translation alone.",
        "p：与 Transformer 比较 BLEU 的配对自助法。训练速度在其他任务并行时测得，翻译速度单独测得。",
    )
    return Table("scores", caption, heads, tuple(cells), rows)


def _interval(score: Interval) -> str:
    return f"{score.value:.1f} [{score.low:.1f}, {score.high:.1f}]"


def context_table(found: Findings) -> Table:
    """Section 4: how far back each curve stays above 1 %."""
    heads = (
        Both("Curve", "曲线"),
        Both("Weights", "权重"),
        Both("State", "状态"),
        Both("Norm at 1", "距离 1 处"),
        Both("Norm at the end", "末端"),
        Both("Steps to 1 %", "降至 1 % 的步数"),
    )
    rows: list[list[object]] = [
        ["name", "trained", "radius", "state", "norm_1", "norm_last", "last", "steps_to_1_percent"]
    ]
    cells: list[tuple[str | Both, ...]] = []
    for each in found.gradients:
        if len(each.median) < 2:
            continue
        first, last = each.median[1], each.median[-1]
        radius = "" if each.radius is None else each.radius
        rows.append(
            [each.name, each.trained, radius, each.state, first, last, each.distances[-1], each.effective_context]
        )
        name = CURVES.get(each.name, each.name) + ("" if each.radius is None else f", ρ = {each.radius:g}")
        weights = Both("trained", "训练后") if each.trained else Both("initial", "训练前")
        steps = Both(reach(each), reach(each, "zh"))
        cells.append((name, weights, each.state, scientific(first), scientific(last), steps))
    caption = Both(
        "How far back the median stays at 1 % or more of its value at distance 1: a convention of this project. The "
        "chapter's 10–20 steps for an Elman cell and 100–200 for an LSTM come without a definition.",
        "中位数保持在距离 1 处的 1 % 以上能回溯多远：这是本项目的约定。"
        "章节所说 Elman 单元 10–20 步、LSTM 100–200 步没有给出定义。",
    )
    return Table("context", caption, heads, tuple(cells), rows)


def crossover_table(found: Findings) -> Table:
    """Section 5: where self-attention meets each other layer."""
    heads = (
        Both("Self-attention against", "自注意力相对"),
        Both("Table 1", "表 1"),
        Both("Counted", "计数"),
        Both("Measured", "实测"),
        Both("Faster at the shortest", "最短处更快"),
        Both("Faster at the longest", "最长处更快"),
    )
    rows: list[list[object]] = [["other", "table_1", "counted", "measured", "faster_short", "faster_long"]]
    cells: list[tuple[str | Both, ...]] = []
    never, unmet = Both("never below", "从不更省"), Both("no crossing", "未交叉")
    for each in crossovers(found.layers) if found.layers else []:
        rows.append([each.other, each.table, each.counted, each.measured, each.faster_short, each.faster_long])
        sides = (LAYERS.get(each.faster_short, each.faster_short), LAYERS.get(each.faster_long, each.faster_long))
        cells.append(
            (
                LAYERS.get(each.other, each.other),
                never if each.table is None else f"{each.table:,}",
                never if each.counted is None else f"{each.counted:,}",
                unmet if each.measured is None else f"{each.measured:,.0f}",
                *sides,
            )
        )
    caption = Both(
        "The n from which on self-attention costs as much or more: by the orders of growth of Table 1, by all products "
        "with their constants, and by the clock.",
        "自注意力从哪个 n 起不再更省：按表 1 的增长阶、按含常数的全部乘法、按实测。",
    )
    return Table("crossovers", caption, heads, tuple(cells), rows)


def printed_table() -> Table:
    """Section 5: Vaswani et al. 2017, Table 1, as it is printed."""
    heads = (
        Both("Layer", "层"),
        Both("Operations", "运算量"),
        Both("Steps in a row", "顺序步数"),
        Both("Longest path", "最长路径"),
    )
    cells = tuple((Both(each.en, each.zh), each.operations, each.sequential, each.path) for each in TABLE_1)
    rows: list[list[object]] = [["layer", "operations", "sequential", "path"]]
    rows += [[each.en, each.operations, each.sequential, each.path] for each in TABLE_1]
    caption = Both(
        "Vaswani et al. 2017, Table 1: a layer's cost, n tokens of d numbers, kernel k, neighbourhood r. Its log path "
        "is that of dilated convolutions; plain ones take n/k layers (§4).",
        "Vaswani et al. 2017，表 1：n 个词元、每个 d 维、卷积核宽 k、邻域 r。"
        "表中的对数路径属于膨胀卷积；普通卷积需 n/k 层（§4）。",
    )
    return Table("table-1", caption, heads, cells, rows)


def link_table(found: Findings) -> Table:
    """Section 6: alignment errors on the synthetic task."""
    heads = (
        Both("Links of", "连线来自"),
        Both("Read from", "读取处"),
        Both("AER", "AER"),
        Both("Precision", "精确率"),
        Both("Recall", "召回率"),
        Both("Sentences", "句数"),
        Both("Note", "说明"),
    )
    errors = found.alignments.errors if found.alignments is not None else []
    rows: list[list[object]] = [["model", "attention", "aer", "precision", "recall", "sentences", "note"]]
    cells: list[tuple[str | Both, ...]] = []
    for each in sorted(errors, key=lambda each: each.error_rate):
        numbers = [each.error_rate, each.precision, each.recall]
        rows.append([each.model, each.attention, *numbers, each.sentences, each.note])
        shown = [f"{number:.3f}" for number in numbers]
        cells.append((each.model, each.attention, *shown, f"{each.sentences:,}", each.note))
    caption = Both(
        "Against the known links of the synthetic task; less is better.", "对照合成任务的已知连线；越低越好。"
    )
    return Table("links", caption, heads, tuple(cells), rows)


def claim_rows(judged: list[Claim]) -> list[list[object]]:
    """All claims for CSV, in English."""
    rows: list[list[object]] = [["section", "claim", "source", "confirmed_by", "verdict", "reading"]]
    rows += [
        [each.section, each.words.en, each.source.en, each.test.en, each.verdict, each.reading.en] for each in judged
    ]
    return rows
