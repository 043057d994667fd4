"""The claims about how the models work: gradients through time, steps in a row, and links between words."""

from __future__ import annotations

from clearhead.analysis.gradients import GradientCurve
from clearhead.analysis.layer_times import crossovers
from clearhead.explorer.comparison_findings import Findings
from clearhead.explorer.comparison_verdicts import Claim, Judgement, Verdict, claim, paper, scientific
from clearhead.explorer.content import Both

__all__ = ["is_aligner", "mechanism_claims", "reach"]

ALIGNERS = ("ibm", "hmm", "aligner")
NONE = Both("Not measured yet.", "尚未测量。")


def mechanism_claims(found: Findings) -> list[Claim]:
    """What sections 4 to 6 expect, judged by the results."""
    return [*_gradients(found), *_layers(found), *_links(found)]


def is_aligner(model: str) -> bool:
    """Whether links come from a statistical aligner and not from attention."""
    return any(each in model.lower() for each in ALIGNERS)


def reach(curve: GradientCurve, language: str = "en") -> str:
    """How far back a curve stays at 1 % or more of its value at distance 1, in words."""
    steps = curve.effective_context
    if steps is not None:
        return str(steps)
    last = curve.distances[-1]
    return f"more than {last}" if language == "en" else f"超过 {last}"


def _gradients(found: Findings) -> list[Claim]:
    return [
        claim(
            "gradients",
            Both(
                "With a spectral radius below 1 the gradient of a linear cell vanishes.",
                "谱半径小于 1 时线性单元的梯度消失。",
            ),
            "Pascanu et al. 2013, §2.1",
            _radius(found, 0.9),
            Both("less at the far end than at distance 1, in the median", "远端的中位数小于距离 1 处"),
        ),
        claim(
            "gradients",
            Both("With a spectral radius above 1 it explodes.", "谱半径大于 1 时梯度爆炸。"),
            "Pascanu et al. 2013, §2.1",
            _radius(found, 1.1),
            Both("more at the far end than at distance 1, in the median", "远端的中位数大于距离 1 处"),
        ),
        claim(
            "gradients",
            Both(
                "A trained LSTM reaches farther back than a trained Elman cell: the chapter says 100–200 against 10–20 "
                "steps.",
                "训练后的 LSTM 比训练后的 Elman 单元回溯更远：章节称 100–200 步对 10–20 步。",
            ),
            Both("the chapter, 1.2.1 and 1.2.3; it cites no measurement", "章节 1.2.1 与 1.2.3；未引用任何测量"),
            _farther(found),
            Both("the distance at which 1 % is left, greater for the LSTM", "降至 1 % 的距离，LSTM 更大"),
        ),
    ]


def _radius(found: Findings, radius: float) -> Judgement:
    curves = [each for each in found.gradients if each.radius == radius and each.name == "linear"]
    if not curves or len(curves[0].median) < 3:
        return "missing", NONE
    curve = curves[0]
    near, far = curve.median[1], curve.median[-1]
    holds = far < near if radius < 1 else far > near
    return ("holds" if holds else "fails"), Both(
        f"Radius {radius:g}: {scientific(near)} at distance 1, {scientific(far)} at distance {curve.distances[-1]}.",
        f"谱半径 {radius:g}：距离 1 处 {scientific(near)}，距离 {curve.distances[-1]} 处 {scientific(far)}。",
    )


def _trained(found: Findings, cell: str) -> GradientCurve | None:
    """The trained curve of a cell; by the cell's name, or that of the model that has it."""
    names = {cell, f"seq2seq-{cell}", *(("seq2seq",) if cell == "lstm" else ())}
    return next((each for each in found.gradients if each.trained and each.name in names), None)


def _farther(found: Findings) -> Judgement:
    lstm, elman = _trained(found, "lstm"), _trained(found, "elman")
    if lstm is None or elman is None:
        return "missing", NONE
    first, second = lstm.effective_context, elman.effective_context
    # Both outlast the text: then no one can say which of them reaches farther.
    shared = min(lstm.distances[-1], elman.distances[-1])
    verdict: Verdict = "undecided"
    if second is not None:
        verdict = "holds" if (first is None and lstm.distances[-1] > second) or (first or 0) > second else "fails"
    elif first is not None and first < shared:
        verdict = "fails"
    return verdict, Both(
        f"One per cent is left after {reach(elman)} steps of the Elman cell and {reach(lstm)} of the LSTM.",
        f"Elman 单元在 {reach(elman, 'zh')} 步后、LSTM 在 {reach(lstm, 'zh')} 步后只剩 1 %。",
    )


def _layers(found: Findings) -> list[Claim]:
    return [
        claim(
            "layers",
            Both(
                "Self-attention is faster than a recurrent layer while n is less than d.",
                "当 n 小于 d 时自注意力层快于循环层。",
            ),
            Both("Vaswani et al. 2017, §4, Table 1", "Vaswani et al. 2017，§4，表 1"),
            _faster(found),
            Both("less time than the LSTM at every measured n below d", "在每个小于 d 的测量长度上用时少于 LSTM"),
        ),
        claim(
            "layers",
            Both("Above some n it is slower.", "超过某个 n 后自注意力更慢。"),
            Both("Vaswani et al. 2017, §4, Table 1: n²·d against n·d²", "Vaswani et al. 2017，§4，表 1：n²·d 对 n·d²"),
            _slower(found),
            Both("a measured crossover with the LSTM", "测得与 LSTM 的交叉点"),
        ),
    ]


def _faster(found: Findings) -> Judgement:
    own = {each.length: each.seconds for each in found.layers if each.layer == "self-attention"}
    pairs = [
        (each.length, own[each.length], each.seconds)
        for each in found.layers
        if each.layer == "lstm" and each.length in own and each.length < each.width
    ]
    if not pairs:
        return "missing", NONE
    won = [length for length, ours, theirs in pairs if ours < theirs]
    verdict: Verdict = "holds" if len(won) == len(pairs) else "fails"
    return verdict, Both(
        f"Faster at {len(won)} of {len(pairs)} lengths below d = {found.layers[0].width}.",
        f"在 d = {found.layers[0].width} 以下的 {len(pairs)} 个长度中，{len(won)} 个更快。",
    )


def _slower(found: Findings) -> Judgement:
    crossing = next((each for each in crossovers(found.layers) if each.other == "lstm"), None) if found.layers else None
    if crossing is None:
        return "missing", NONE
    counted = "∞" if crossing.counted is None else f"{crossing.counted:,}"
    if crossing.measured is None:
        longest = max(each.length for each in found.layers)
        verdict: Verdict = "undecided" if crossing.faster_long == "self-attention" else "fails"
        return verdict, Both(
            f"No crossover up to n = {longest:,}; the count of operations says {counted}.",
            f"到 n = {longest:,} 为止没有交叉；按运算次数应在 {counted}。",
        )
    # A crossing the other way round, from slower to faster, is no confirmation.
    verdict = "holds" if crossing.faster_short == "self-attention" and crossing.faster_long == "lstm" else "fails"
    return verdict, Both(
        f"Measured at n = {crossing.measured:,.0f}; the count of operations says {counted}.",
        f"实测在 n = {crossing.measured:,.0f}；按运算次数应在 {counted}。",
    )


def _links(found: Findings) -> list[Claim]:
    return [
        claim(
            "alignments",
            Both("A statistical aligner finds the links better than attention.", "统计对齐器找到的连线优于注意力。"),
            paper("aer-berkeley", "aer-local-m"),
            _aligner(found),
            Both("a lower AER than the best attention (no interval)", "AER 低于最好的注意力（无区间）"),
        )
    ]


def _aligner(found: Findings) -> Judgement:
    errors = found.alignments.errors if found.alignments is not None else []
    statistical = [each for each in errors if is_aligner(each.model)]
    attention = [each for each in errors if not is_aligner(each.model)]
    if not statistical or not attention:
        return "missing", NONE
    best, rival = (min(group, key=lambda each: each.error_rate) for group in (statistical, attention))
    return ("holds" if best.error_rate < rival.error_rate else "fails"), Both(
        f"AER {best.error_rate:.3f} of {best.model}, {rival.error_rate:.3f} of {rival.model} ({rival.attention}).",
        f"{best.model} 的 AER 为 {best.error_rate:.3f}，{rival.model}（{rival.attention}）为 {rival.error_rate:.3f}。",
    )
