"""What the report of a comparison says in words of its own, in both languages; the numbers come from elsewhere."""

from __future__ import annotations

from dataclasses import dataclass

from clearhead.explorer.content import Both
from clearhead.recipes.compare.cited import Section

__all__ = [
    "AXES",
    "CURVES",
    "GROUPS",
    "GROUP_TITLES",
    "LABELS",
    "LAYERS",
    "NAMES_AXES",
    "PICTURES",
    "SECTIONS",
    "SectionWords",
]


@dataclass(frozen=True)
class SectionWords:
    """A section's title, its question, what is not comparable with the papers, and what is missing if all is."""

    title: Both
    question: Both
    caution: Both


SECTIONS: dict[Section, SectionWords] = {
    "scores": SectionWords(
        Both("Scores and speed", "得分与速度"),
        Both(
            "Which of the systems translates best, and at what cost, if all have as many parameters, the same text and "
            "the same number of updates?",
            "在参数量、文本与更新次数都相同的条件下，哪个系统译得最好，代价如何？",
        ),
        Both(
            "Here every model is small, trained for minutes on a processor, and one text of short sentences is all "
            "that it reads. The papers' scores are from other languages, test sets, tokenisations and BLEU scripts: "
            "only the order of systems within one paper can be set beside ours.",
            "这里的模型都很小，在处理器上只训练几分钟，读的只是一份短句语料。"
            "论文的得分来自不同的语言、测试集、切分与 BLEU 脚本：只有同一论文内的先后次序可以对照。",
        ),
    ),
    "lengths": SectionWords(
        Both("Long sentences", "长句"),
        Both(
            "Does a fixed vector fail where sentences grow long, and does attention hold? (The question of the "
            "chapter's figure 1-4.)",
            "句子变长时固定向量是否失效，注意力是否保持？（章节图 1-4 的问题。）",
        ),
        Both(
            "The papers' curves run to 60 words of news. Captions are short, so longer sources are joined captions, "
            "which no model has seen in training: their fall mixes length with unfamiliar text. Each length has "
            "sentences of its own: read the distance between the lines rather than the fall of one.",
            "论文的曲线到 60 词的新闻句。图片说明很短，因此更长的源句由多条说明拼接而成，"
            "训练中没有见过：得分下降里既有长度，也有陌生文本的作用。各档长度的句子互不相同：宜看曲线之间的距离，而非单条的下降。",
        ),
    ),
    "choices": SectionWords(
        Both("One choice at a time", "逐项取舍"),
        Both(
            "What does each part contribute: the reversed source, input feeding, the score, the window, the number of "
            "heads, the positions?",
            "每个部件各有多少贡献：源句逆序、输入馈送、打分函数、窗口、头数、位置？",
        ),
        Both(
            "Luong et al. add one thing at a time to four layers with dropout and a reversed source; Vaswani et al. "
            "vary the base model and report the development set. Effects of a point can be real there and drown here.",
            "Luong 等在四层、带 dropout、源句逆序的模型上逐项添加；Vaswani 等改动 base 模型并报告开发集得分。"
            "一分左右的效应在那里可以是真的，在这里会被噪声淹没。",
        ),
    ),
    "gradients": SectionWords(
        Both("Gradients through time", "穿越时间的梯度"),
        Both(
            "How much of a state is still felt so many steps later, at the beginning and after training, and what does "
            "the spectral radius of the recurrent matrix decide?",
            "若干步之后一个状态还剩多少影响，训练前与训练后各如何？循环矩阵的谱半径决定了什么？",
        ),
        Both(
            "The papers prove bounds and print no such curve. The norm is the spectral norm of the Jacobian; a radius "
            "below 1 makes it vanish in the end but not at once, and above 1 is necessary and not sufficient to "
            "explode where tanh squashes. A Transformer's layers join any two positions: its curve is no product of "
            "steps.",
            "论文证明的是界，没有给出这样的曲线。此处取雅可比矩阵的谱范数；谱半径小于 1 终究使它消失但未必立刻，"
            "有 tanh 压缩时大于 1 是爆炸的必要而非充分条件。"
            "Transformer 的层直接连接任意两个位置：它的曲线不是逐步的乘积。",
        ),
    ),
    "layers": SectionWords(
        Both("Steps in a row, and the clock", "顺序步数与实测时间"),
        Both(
            "How many steps must wait for one another, and from which length on does self-attention cost more than its "
            "rivals: by the count of Vaswani et al. 2017, Table 1, and by the clock?",
            "有多少步必须依次等待？自注意力从哪个长度起比其他层更费：按 Vaswani 等 2017 表 1 计数如何，按实测又如何？",
        ),
        Both(
            "Table 1 counts orders of growth without constants. The times are one layer's on this processor, one "
            "sentence at a time; on a GPU the steps in a row weigh more and the products less.",
            "表 1 只计增长阶，不含常数。时间是单层、单句在这台处理器上的实测；在 GPU 上顺序步数更要紧，乘法更便宜。",
        ),
    ),
    "alignments": SectionWords(
        Both("What was looked at", "看了哪里"),
        Both(
            "Which source words does each target word attend to, and how well do these links agree with known ones?",
            "每个目标词看向哪些源词？这些连线与已知连线有多一致？",
        ),
        Both(
            "Gold links exist here for a synthetic task of words and order only; Luong et al. used 508 sentences of "
            "Europarl that people had linked, and with general they linked the word that was read at a step (§5.3); "
            "here it is always the one that the step predicts. Attention is no alignment: it says what was read, not "
            "what it was worth.",
            "这里只有合成的“词汇加调序”任务有标准连线；Luong 等用的是 508 句人工标注的 Europarl。"
            "他们对 general 连的是该步读入的词（§5.3），这里一律连该步预测的词。"
            "注意力不是对齐：它说明读了哪里，不说明那有多大作用。",
        ),
    ),
}

LABELS = {
    "title": Both("The ancestors compared", "前辈系统的比较"),
    "skip": Both("Skip to the results", "跳到结果"),
    "theme": Both("Light / dark", "浅色 / 深色"),
    "sections": Both("Sections", "各节"),
    "summary": Both("The claims, and what was found", "各项主张与所见"),
    "setting": Both("What all models had in common", "所有模型的共同条件"),
    "claim": Both("Claim", "主张"),
    "source": Both("Source", "出处"),
    "test": Both("Confirmed by", "判据"),
    "verdict": Both("Verdict", "结论"),
    "found": Both("Found", "所见"),
    "reading": Both("Reading", "解读"),
    "paper": Both("The papers' own figures", "论文自己的数字"),
    "scale": Both("Not comparable in", "不可比之处"),
    "measured": Both("What was measured", "测量对象"),
    "value": Both("Value", "数值"),
    "no_paper": Both("No paper prints a figure for this question.", "没有论文为这个问题给出数字。"),
    "empty": Both("Not measured yet: its file in `results` is missing.", "尚未测量：`results` 中没有它的文件。"),
    "unfinished": Both("Not in these results:", "这些结果中没有："),
    "stopped": Both("Ended before its updates were done:", "未完成全部更新即结束："),
    "quick": Both(
        "A quick run: far too short for any conclusion; it shows that everything works.",
        "快速运行：远不足以下结论，只说明一切可以运行。",
    ),
    "intervals": Both(
        "Intervals are the middle 95 % of a bootstrap over the test sentences. They say nothing about another seed: "
        "each model was trained once. Of twenty such comparisons without any effect one would look decided.",
        "区间是对测试句作自助法得到的中间 95 %。它们不反映换一个随机种子的差别：每个模型只训练了一次。"
        "二十个毫无效应的比较中，平均会有一个看似有定论。",
    ),
}

AXES = {
    "curves-updates": Both("updates", "更新次数"),
    "curves-seconds": Both("seconds of training", "训练秒数"),
    "nll": Both("development loss, nats a token", "开发集损失（每词元 nat）"),
    "length": Both("source words (sentences)", "源句词数（句数）"),
    "distance": Both("distance T − t", "距离 T − t"),
    "norm": Both("‖∂h_T/∂h_t‖", "‖∂h_T/∂h_t‖"),
    "tokens": Both("tokens n", "词元数 n"),
    "milliseconds": Both("milliseconds, one layer", "单层毫秒数"),
    "steps": Both("steps in a row", "顺序步数"),
}

PICTURES = {
    "curves-updates": Both("Development loss by updates", "开发集损失随更新次数"),
    "curves-seconds": Both("Development loss by time", "开发集损失随时间"),
    "lengths-test": Both("BLEU by source length, test set", "测试集上 BLEU 随源句长度"),
    "lengths-joined": Both("BLEU by source length, joined captions", "拼接句上 BLEU 随源句长度"),
    "gradients-initial": Both("At the beginning: median and quartiles", "训练前：中位数与四分位数"),
    "gradients-trained": Both("Trained: median and quartiles", "训练后：中位数与四分位数"),
    "gradients-radius": Both("By spectral radius ρ, untrained", "按谱半径 ρ，未训练"),
    "layers-time": Both("Measured; circles: crossovers with self-attention", "实测；圆圈：与自注意力的交叉点"),
    "layers-steps": Both("Counted: steps that wait for one another", "计数：必须依次等待的步数"),
}

GROUPS: dict[str, tuple[tuple[str, Both], ...]] = {
    "reversal": (
        ("seq2seq", Both("as it stands", "原序")),
        ("seq2seq-reversed", Both("reversed", "逆序")),
    ),
    "feeding": (
        ("luong-no-feeding", Both("without", "无")),
        ("luong", Both("with", "有")),
    ),
    "score": (
        ("luong-dot", Both("dot", "dot")),
        ("luong", Both("general", "general")),
        ("luong-concat", Both("concat", "concat")),
    ),
    "window": (
        ("luong", Both("global", "全局")),
        ("luong-local-m", Both("local-m", "local-m")),
        ("luong-local-p", Both("local-p", "local-p")),
    ),
    "heads": (
        ("transformer-1-head", Both("1", "1")),
        ("transformer-2-heads", Both("2", "2")),
        ("transformer", Both("4", "4")),
        ("transformer-8-heads", Both("8", "8")),
        ("transformer-16-heads", Both("16", "16")),
    ),
    "positions": (
        ("transformer", Both("sinusoids", "正弦")),
        ("transformer-learned", Both("learned", "学习式")),
        ("transformer-no-positions", Both("none", "无")),
    ),
}

GROUP_TITLES = {
    "reversal": Both("Order of the source (Seq2Seq)", "源句次序（Seq2Seq）"),
    "feeding": Both("Input feeding (Luong)", "输入馈送（Luong）"),
    "score": Both("Score function (Luong, global)", "打分函数（Luong，全局）"),
    "window": Both("Window (Luong, general)", "窗口（Luong，general）"),
    "heads": Both("Heads at constant compute (Transformer)", "计算量不变的头数（Transformer）"),
    "positions": Both("Positions (Transformer)", "位置（Transformer）"),
}

NAMES_AXES = {
    "reversal": Both("source", "源句"),
    "feeding": Both("input feeding", "输入馈送"),
    "score": Both("score", "打分函数"),
    "window": Both("window", "窗口"),
    "heads": Both("heads", "头数"),
    "positions": Both("positions", "位置"),
}

CURVES = {
    "linear": "linear",
    "elman": "Elman",
    "lstm": "LSTM",
    "lstm-1997": "LSTM 1997",
    "gru-before": "GRU (reset before)",
    "gru-after": "GRU (reset after)",
    "seq2seq": "LSTM (seq2seq)",
    "seq2seq-linear": "linear (seq2seq)",
    "seq2seq-elman": "Elman (seq2seq)",
    "seq2seq-gru": "GRU (seq2seq)",
    "transformer": "Transformer",
    "linear, gaussian": "linear, Gaussian",
    "elman, gaussian": "Elman, Gaussian",
}

LAYERS = {
    "elman": "Elman",
    "gru-before": "GRU (reset before)",
    "gru-after": "GRU (reset after)",
    "lstm": "LSTM",
    "convolution": "convolution, k = 3",
    "dilated": "dilated stack",
    "restricted-attention": "attention, r = 33",
    "self-attention": "self-attention",
}
