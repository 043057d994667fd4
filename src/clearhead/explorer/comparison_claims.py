"""What the story claims, where it does, and what the results say to it: the numbers choose each sentence."""

from __future__ import annotations

from clearhead.explorer.comparison_findings import Findings, difference
from clearhead.explorer.comparison_mechanisms import mechanism_claims
from clearhead.explorer.comparison_verdicts import (
    ABOVE,
    PAIRED,
    Claim,
    Judgement,
    Verdict,
    claim,
    judge,
    missing,
    paper,
    signed,
    span,
)
from clearhead.explorer.content import Both
from clearhead.recipes.compare.results import Interval, LengthScore, ModelResult

__all__ = ["claims"]

EQUAL = 1.0
"""BLEU within which two models count as equal where a paper says that they are nearly so; a convention of ours."""
SIGNIFICANT = 0.05


def claims(found: Findings) -> list[Claim]:
    """Every expectation, judged by the results."""
    return [*_scores(found), *_lengths(found), *_choices(found), *mechanism_claims(found)]


def _gap_words(better: ModelResult, worse: ModelResult, gap: Interval) -> Both:
    verdict, told = judge(gap), span(gap)
    first, second = better.label, worse.label
    if verdict == "undecided":
        return Both(
            f"{first} against {second}: {told} BLEU; the interval covers zero.",
            f"{first} 相对 {second}：{told} BLEU，区间包含零。",
        )
    en, zh = ("more", "高于") if verdict == "holds" else ("less", "低于")
    return Both(
        f"{first} scores {en} than {second}: {told} BLEU.",
        f"{first} 得分{zh} {second}：{told} BLEU。",
    )


def _better(found: Findings, better: str, worse: str) -> Judgement:
    """Whether one model's BLEU is above another's: by the paired bootstrap where it was made, else by the intervals."""
    models = found.models
    absent = [name for name in (better, worse) if name not in models]
    if absent:
        return missing(*absent)
    first, second = models[better], models[worse]
    gap = difference(first.bleu, second.bleu)
    paired = second.bleu_p if better == "transformer" else first.bleu_p if worse == "transformer" else None
    words = _gap_words(first, second, gap)
    if paired is None:
        return judge(gap), words
    sure: Verdict = "undecided" if paired >= SIGNIFICANT else "holds" if gap.value > 0 else "fails"
    return sure, Both(
        f"{first.label} against {second.label}: {signed(gap.value)} BLEU, paired bootstrap p = {paired:.3g}.",
        f"{first.label} 相对 {second.label}：{signed(gap.value)} BLEU，配对自助法 p = {paired:.3g}。",
    )


def _near(found: Findings, first: str, second: str) -> Judgement:
    """Whether two models are within `EQUAL` of each other."""
    absent = [name for name in (first, second) if name not in found.models]
    if absent:
        return missing(*absent)
    one, other = found.models[first], found.models[second]
    gap = difference(one.bleu, other.bleu)
    verdict: Verdict = "undecided"
    if gap.low > -EQUAL and gap.high < EQUAL:
        verdict = "holds"
    elif gap.low > EQUAL or gap.high < -EQUAL:
        verdict = "fails"
    return verdict, Both(
        f"{one.label} against {other.label}: {span(gap)} BLEU; equal would be within ±{EQUAL:g}.",
        f"{one.label} 相对 {other.label}：{span(gap)} BLEU；差在 ±{EQUAL:g} 之内算相同。",
    )


def _scores(found: Findings) -> list[Claim]:
    rate = _ratio(found, "transformer", "rnnsearch")
    return [
        claim(
            "scores",
            Both("Attention scores more than a fixed vector.", "有注意力的得分高于固定向量。"),
            paper("search-50", "encdec-50"),
            _better(found, "rnnsearch", "encdec"),
        ),
        claim(
            "scores",
            Both("The Transformer scores more than RNNsearch.", "Transformer 得分高于 RNNsearch。"),
            paper("gnmt", "base"),
            _better(found, "transformer", "rnnsearch"),
            PAIRED,
        ),
        claim(
            "scores",
            Both("The Transformer scores more than ConvS2S.", "Transformer 得分高于 ConvS2S。"),
            paper("convs2s", "base"),
            _better(found, "transformer", "convs2s"),
            PAIRED,
        ),
        claim(
            "scores",
            Both("The Transformer trains on more tokens a second.", "Transformer 每秒训练的词元更多。"),
            "Vaswani et al. 2017, §4, Table 1",
            rate,
            Both("a ratio above one (one measurement, without an interval)", "比值大于一（单次测量，无区间）"),
        ),
    ]


def _ratio(found: Findings, first: str, second: str) -> Judgement:
    absent = [name for name in (first, second) if name not in found.models]
    if absent:
        return missing(*absent)
    one, other = found.models[first], found.models[second]
    if other.train_tokens_per_second <= 0:
        return missing(second)
    ratio = one.train_tokens_per_second / other.train_tokens_per_second
    return ("holds" if ratio > 1 else "fails"), Both(
        f"{one.label} trains on {ratio:.2f} times as many tokens a second as {other.label}.",
        f"{one.label} 每秒训练的词元是 {other.label} 的 {ratio:.2f} 倍。",
    )


def _usable(scores: list[LengthScore]) -> list[LengthScore]:
    return [each for each in scores if each.available and each.sentences]


def _words_of(bucket: LengthScore) -> str:
    return f"{bucket.low}–{bucket.high}" if bucket.high is not None else f"{bucket.low}+"


def _widens(found: Findings, better: str, worse: str) -> Judgement:
    """Whether the lead of one model over another is larger in the longest sentences than in the shortest."""
    absent = [name for name in (better, worse) if name not in found.models]
    if absent:
        return missing(*absent)
    first, second = found.models[better], found.models[worse]
    ours, theirs = (_usable(each.long_by_length) or _usable(each.by_length) for each in (first, second))
    shared = {each.low: each for each in theirs}
    pairs = [(each, shared[each.low]) for each in ours if each.low in shared]
    if len(pairs) < 2:
        return "missing", Both("There are fewer than two lengths to compare.", "可比较的长度不足两档。")
    short, long = (difference(one.bleu, other.bleu) for one, other in (pairs[0], pairs[-1]))
    gap = difference(long, short)
    short_words, long_words = _words_of(pairs[0][0]), _words_of(pairs[-1][0])
    return judge(gap), Both(
        f"The lead of {first.label} over {second.label} goes from {signed(short.value)} BLEU ({short_words} words) to "
        f"{signed(long.value)} ({long_words} words); the change is {span(gap)}.",
        f"{first.label} 对 {second.label} 的领先从 {signed(short.value)} BLEU（{short_words} 词）变为 "
        f"{signed(long.value)}（{long_words} 词），变化 {span(gap)}。",
    )


def _lasts(found: Findings, name: str, limit: int) -> Judgement:
    """Whether a model's longest sentences within `limit` words score no less than its shortest."""
    if name not in found.models:
        return missing(name)
    model = found.models[name]
    # Every sentence is in the first set; the joined captions are another text.
    within = [each for each in _usable(model.by_length) if each.low < limit]
    if len(within) < 2:
        return "missing", Both("There are fewer than two lengths to compare.", "可比较的长度不足两档。")
    gap = difference(within[-1].bleu, within[0].bleu)
    verdict: Verdict = "holds" if gap.low >= -EQUAL else "fails" if gap.high < 0 else "undecided"
    first, last = _words_of(within[0]), _words_of(within[-1])
    return verdict, Both(
        f"{model.label}: {span(gap)} BLEU from {first} to {last} words.",
        f"{model.label}：从 {first} 词到 {last} 词，{span(gap)} BLEU。",
    )


def _lengths(found: Findings) -> list[Claim]:
    growing = Both(
        "the lead in the longest sentences less the lead in the shortest, above zero",
        "最长句的领先减最短句的领先高于零",
    )
    return [
        claim(
            "lengths",
            Both(
                "What attention gains over the fixed vector grows with the length.",
                "注意力相对固定向量的增益随长度增大。",
            ),
            Both("Bahdanau et al. 2015, Figure 2 and §5.1", "Bahdanau et al. 2015，图 2 与 §5.1"),
            _widens(found, "rnnsearch", "encdec"),
            growing,
        ),
        claim(
            "lengths",
            Both(
                "What the Transformer gains over a reversed LSTM grows with the length.",
                "Transformer 相对逆序 LSTM 的增益随长度增大。",
            ),
            Both("the chapter, figure 1-4; no paper measured this pair", "章节图 1-4；没有论文测过这一对"),
            _widens(found, "transformer", "seq2seq-reversed"),
            growing,
        ),
        claim(
            "lengths",
            Both(
                "A reversed LSTM does not lose up to 35 words. (The chapter says the opposite of the paper.)",
                "逆序 LSTM 在 35 词以内不退化。（章节所述与论文相反。）",
            ),
            Both("Sutskever et al. 2014, Figure 3 and §3.7", "Sutskever et al. 2014，图 3 与 §3.7"),
            _lasts(found, "seq2seq-reversed", 35),
            Both(
                f"the longest bucket less the shortest, its interval above −{EQUAL:g} BLEU",
                f"最长一档减最短一档，区间高于 −{EQUAL:g} BLEU",
            ),
        ),
    ]


Better = tuple[Both, Both, str, str]


def _choices(found: Findings) -> list[Claim]:
    rows: list[Better] = [
        (
            Both("Reversing the source helps an LSTM without attention.", "源句逆序有助于无注意力的 LSTM。"),
            paper("forward", "reversed"),
            "seq2seq-reversed",
            "seq2seq",
        ),
        (
            Both("Input feeding helps.", "输入馈送有帮助。"),
            paper("luong-global", "luong-feeding"),
            "luong",
            "luong-no-feeding",
        ),
        (
            Both("With global attention dot scores more than general.", "全局注意力下 dot 得分高于 general。"),
            paper("luong-dot", "luong-general"),
            "luong-dot",
            "luong",
        ),
        (
            Both("local-p scores more than global.", "local-p 得分高于全局。"),
            paper("luong-feeding", "luong-local-p"),
            "luong-local-p",
            "luong",
        ),
        (
            Both("One head is worse than several.", "单头不如多头。"),
            paper("heads-1", "heads-8"),
            "transformer",
            "transformer-1-head",
        ),
        (
            Both("Too many heads are worse than several.", "头数过多不如适中。"),
            paper("heads-32", "heads-8"),
            "transformer",
            "transformer-16-heads",
        ),
        (
            Both("Without positions a Transformer scores less.", "没有位置信息的 Transformer 得分更低。"),
            Both(
                "Vaswani et al. 2017, §3.5 says why; no figure is printed",
                "Vaswani et al. 2017，§3.5 说明缘由，未给数字",
            ),
            "transformer",
            "transformer-no-positions",
        ),
    ]
    listed = [
        claim("choices", words, source, _better(found, better, worse), PAIRED if better == "transformer" else ABOVE)
        for words, source, better, worse in rows
    ]
    nearly = claim(
        "choices",
        Both("Learned positions do as well as sinusoids.", "学习式位置与正弦位置相当。"),
        paper("sinusoidal", "learned"),
        _near(found, "transformer-learned", "transformer"),
        Both(f"the interval of the difference within ±{EQUAL:g} BLEU", f"差值区间在 ±{EQUAL:g} BLEU 之内"),
    )
    return [*listed, nearly]
