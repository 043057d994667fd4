"""What the papers report about the questions that `clearhead compare` asks, each figure with where it is printed.

None of these numbers can be compared with ours in its size: corpora, vocabularies, models and training differ by orders
of magnitude (`SCALES`). What can be compared is the direction of a difference.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["CITED", "PAPERS", "SCALES", "TABLE_1", "Cited", "Growth", "Paper", "Scale", "Section", "cited"]

Section = Literal["scores", "lengths", "choices", "gradients", "layers", "alignments"]
Paper = Literal["bahdanau2015", "sutskever2014", "luong2015", "vaswani2017", "gehring2017", "kalchbrenner2016"]

PAPERS: dict[Paper, str] = {
    "bahdanau2015": "Bahdanau, Cho and Bengio 2015",
    "sutskever2014": "Sutskever, Vinyals and Le 2014",
    "luong2015": "Luong, Pham and Manning 2015",
    "vaswani2017": "Vaswani et al. 2017",
    "gehring2017": "Gehring et al. 2017",
    "kalchbrenner2016": "Kalchbrenner et al. 2016",
}


@dataclass(frozen=True)
class Scale:
    """What a paper's figures were measured on, in English and in Chinese."""

    en: str
    zh: str


SCALES: dict[Paper, Scale] = {
    "bahdanau2015": Scale(
        "WMT'14 English to French, 348 million words, 30,000 words a side, 1,000 units (§4)",
        "WMT'14 英译法，3.48 亿词，每边 3 万词，1000 个隐藏单元（§4）",
    ),
    "sutskever2014": Scale(
        "WMT'14 English to French, 12 million pairs, four LSTM layers of 1,000, 384 million parameters (§3)",
        "WMT'14 英译法，1200 万句对，四层各 1000 个单元的 LSTM，3.84 亿参数（§3）",
    ),
    "luong2015": Scale(
        "WMT'14 English to German, 4.5 million pairs, 50,000 words a side, four LSTM layers of 1,000 cells (§4.1)",
        "WMT'14 英译德，450 万句对，每边 5 万词，四层各 1000 个单元的 LSTM（§4.1）",
    ),
    "vaswani2017": Scale(
        "WMT'14 English to German, 4.5 million pairs, 65 million parameters, 100,000 updates of some 25,000 source and "
        "25,000 target tokens (§5, Table 3)",
        "WMT'14 英译德，450 万句对，6500 万参数，10 万次更新，每批源端与目标端各约 2.5 万词元（§5、表 3）",
    ),
    "gehring2017": Scale(
        "WMT'14 English to German, 4.5 million pairs, 40,000 subword types (§4.1)",
        "WMT'14 英译德，450 万句对，4 万个子词（§4.1）",
    ),
    "kalchbrenner2016": Scale(
        "WMT'14 English to German, characters, as quoted by Vaswani et al. 2017, Table 2",
        "WMT'14 英译德，字符级，转引自 Vaswani 等 2017 表 2",
    ),
}


@dataclass(frozen=True)
class Cited:
    """One figure of a paper. `en` and `zh` say what was measured; `where` is the table, figure or section."""

    name: str
    section: Section
    paper: Paper
    where: str
    value: float
    unit: str
    en: str
    zh: str

    @property
    def source(self) -> str:
        """The paper and the place in it."""
        return f"{PAPERS[self.paper]}, {self.where}"


BLEU, AER, PERPLEXITY = "BLEU", "AER", "perplexity"

CITED: tuple[Cited, ...] = (
    # Bahdanau et al.'s first column, all sentences; the second leaves out those with unknown words.
    Cited("encdec-30", "lengths", "bahdanau2015", "Table 1", 13.93, BLEU, "RNNencdec-30", "RNNencdec-30"),
    Cited("encdec-50", "lengths", "bahdanau2015", "Table 1", 17.82, BLEU, "RNNencdec-50", "RNNencdec-50"),
    Cited("search-30", "lengths", "bahdanau2015", "Table 1", 21.50, BLEU, "RNNsearch-30", "RNNsearch-30"),
    Cited("search-50", "lengths", "bahdanau2015", "Table 1", 26.75, BLEU, "RNNsearch-50", "RNNsearch-50"),
    Cited(
        "search-50-longer",
        "lengths",
        "bahdanau2015",
        "Table 1",
        28.45,
        BLEU,
        "RNNsearch-50, trained until the development score stood still",
        "RNNsearch-50，训练至开发集不再提高",
    ),
    Cited("ensemble", "scores", "sutskever2014", "Table 1", 34.81, BLEU, "five reversed LSTMs", "五个逆序 LSTM 集成"),
    Cited("bytenet", "scores", "kalchbrenner2016", "Table 2 of Vaswani et al.", 23.75, BLEU, "ByteNet", "ByteNet"),
    Cited("convs2s", "scores", "gehring2017", "Table 1", 25.16, BLEU, "ConvS2S, one model", "ConvS2S 单模型"),
    Cited(
        "gnmt",
        "scores",
        "vaswani2017",
        "Table 2",
        24.6,
        BLEU,
        "GNMT + RL (Wu et al. 2016), recurrent with attention",
        "GNMT + RL（Wu 等 2016），循环网络加注意力",
    ),
    Cited("base", "scores", "vaswani2017", "Table 2", 27.3, BLEU, "Transformer, base", "Transformer base"),
    Cited("forward", "choices", "sutskever2014", "§3.3", 25.9, BLEU, "source as it stands", "源句原序"),
    Cited("reversed", "choices", "sutskever2014", "§3.3", 30.6, BLEU, "source reversed", "源句逆序"),
    Cited("forward-ppl", "choices", "sutskever2014", "§3.3", 5.8, PERPLEXITY, "source as it stands", "源句原序"),
    Cited("reversed-ppl", "choices", "sutskever2014", "§3.3", 4.7, PERPLEXITY, "source reversed", "源句逆序"),
    # Luong et al.'s Table 1 adds one thing a row; each gain is over the row above.
    Cited("luong-base", "choices", "luong2015", "Table 1", 11.3, BLEU, "no attention", "无注意力"),
    Cited("luong-reverse", "choices", "luong2015", "Table 1", 12.6, BLEU, "+ reversed source", "+ 源句逆序"),
    Cited("luong-dropout", "choices", "luong2015", "Table 1", 14.0, BLEU, "+ dropout", "+ dropout"),
    Cited(
        "luong-global",
        "choices",
        "luong2015",
        "Table 1",
        16.8,
        BLEU,
        "+ global attention (location)",
        "+ 全局注意力（location）",
    ),
    Cited("luong-feeding", "choices", "luong2015", "Table 1", 18.1, BLEU, "+ input feeding", "+ 输入馈送"),
    Cited(
        "luong-local-p",
        "choices",
        "luong2015",
        "Table 1",
        19.0,
        BLEU,
        "local-p (general) with feeding instead",
        "改用 local-p（general）加输入馈送",
    ),
    Cited("luong-dot", "choices", "luong2015", "Table 4", 18.6, BLEU, "global, dot", "全局 dot"),
    Cited("luong-general", "choices", "luong2015", "Table 4", 17.3, BLEU, "global, general", "全局 general"),
    Cited("heads-1", "choices", "vaswani2017", "Table 3 (A)", 24.9, BLEU, "1 head", "1 头"),
    Cited("heads-4", "choices", "vaswani2017", "Table 3 (A)", 25.5, BLEU, "4 heads", "4 头"),
    Cited("heads-8", "choices", "vaswani2017", "Table 3, base", 25.8, BLEU, "8 heads", "8 头"),
    Cited("heads-16", "choices", "vaswani2017", "Table 3 (A)", 25.8, BLEU, "16 heads", "16 头"),
    Cited("heads-32", "choices", "vaswani2017", "Table 3 (A)", 25.4, BLEU, "32 heads", "32 头"),
    Cited("learned", "choices", "vaswani2017", "Table 3 (E)", 25.7, BLEU, "learned positions", "学习式位置"),
    Cited("sinusoidal", "choices", "vaswani2017", "Table 3, base", 25.8, BLEU, "sinusoids", "正弦位置"),
    # Luong et al. on Europarl's 508 English-German sentences with gold links.
    Cited("aer-global", "alignments", "luong2015", "Table 6", 0.39, AER, "global (location)", "全局（location）"),
    Cited("aer-local-m", "alignments", "luong2015", "Table 6", 0.34, AER, "local-m (general)", "local-m（general）"),
    Cited("aer-local-p", "alignments", "luong2015", "Table 6", 0.36, AER, "local-p (general)", "local-p（general）"),
    Cited("aer-berkeley", "alignments", "luong2015", "Table 6", 0.32, AER, "Berkeley aligner", "Berkeley 对齐器"),
)


@dataclass(frozen=True)
class Growth:
    """A row of Vaswani et al. 2017, Table 1: orders of growth of one kind of layer."""

    en: str
    zh: str
    operations: str
    sequential: str
    path: str


TABLE_1: tuple[Growth, ...] = (
    Growth("self-attention", "自注意力", "O(n²·d)", "O(1)", "O(1)"),
    Growth("recurrent", "循环", "O(n·d²)", "O(n)", "O(n)"),
    Growth("convolutional", "卷积", "O(k·n·d²)", "O(1)", "O(log_k n)"),
    Growth("self-attention, restricted", "受限自注意力", "O(r·n·d)", "O(1)", "O(n/r)"),
)


def cited(name: str) -> Cited:
    """The figure of that name.

    >>> cited("search-50").value - cited("encdec-50").value
    8.93
    """
    return next(each for each in CITED if each.name == name)
