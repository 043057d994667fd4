"""What the report of `clearhead inspect` says of each method: what it measures, what it can and cannot say, and whose
it is.

The ids are those of `Finding.method`, `TokenScores.method`, `Curve.method`; "lens" and "probes" are the two others.
"""

from __future__ import annotations

from dataclasses import dataclass

from clearhead.explorer.content import Both

__all__ = ["CALIBRATED", "METHODS", "MethodWords"]


@dataclass(frozen=True)
class MethodWords:
    """A method in words: its `name`, `what` it does in one sentence, what it `can` and `cannot` say, whom to `cite`."""

    name: Both
    what: Both
    can: Both
    cannot: Both
    cite: Both


def _same(text: str) -> Both:
    """A citation, which reads alike in both languages."""
    return Both(text, text)


_HEADS = {
    "statistics": MethodWords(
        Both("Statistics of the map", "注意力图的统计"),
        Both(
            "Entropy, sparsity, distance, the mean of each row's largest weight, and the share of weight at fixed "
            "offsets and on special tokens.",
            "熵、稀疏度、距离、每行最大权重的均值，以及落在固定偏移与特殊词元上的权重份额。",
        ),
        Both(
            "What a map looks like, in numbers that can be compared between lengths.",
            "用可跨长度比较的数字描述一张图的样子。",
        ),
        Both("Whether the model needs what it reads there.", "不能说明模型是否需要它在那里读到的内容。"),
        _same("Clark et al. 2019, §3; Voita et al. 2019, §4"),
    ),
    "role": MethodWords(
        Both("Role", "角色"),
        Both(
            "The first pattern whose score reaches its threshold, the special before the general; beside it stands "
            "what a map without any pattern, of the same length and mask, would score.",
            "由特殊到一般，第一个得分达到阈值的模式；旁边是同样长度、同样掩码但没有任何模式的图会得到的分数。",
        ),
        Both("Where a head looks as a habit.", "说明一个头习惯看向哪里。"),
        Both(
            "What the head is for. A role is seen in the text that was read and may not hold in another.",
            "不能说明这个头有什么用。角色只是在所读文本中观察到的，换一份文本未必成立。",
        ),
        _same("Clark et al. 2019, §3; Voita et al. 2019, §5"),
    ),
    "importance": MethodWords(
        Both("Head importance (by gradient)", "头重要性（按梯度）"),
        Both(
            "I_h = E|∂L/∂ξ_h|: how much the loss of a sentence would begin to change if the output of the head were "
            "scaled; the absolute value of each sentence, then the mean.",
            "I_h = E|∂L/∂ξ_h|：缩放该头的输出时，一个句子的损失开始变化的快慢；先对每个句子取绝对值，再取均值。",
        ),
        Both("A cheap order in which heads may be closed.", "以很小的代价给出关闭各头的次序。"),
        Both(
            "What happens when a head is gone altogether: it is a slope, not a difference. Between layers it should be "
            "compared with care.",
            "不能说明头完全去掉后会怎样：它是斜率，不是差值。跨层比较须谨慎。",
        ),
        _same("Michel et al. 2019, §4.1"),
    ),
    "ablation-zero": MethodWords(
        Both("Ablation to zero", "置零消融"),
        Both(
            "How much the loss of the gold tokens rises when the head gives nothing at all.",
            "该头什么也不输出时，标准词元的损失上升多少。",
        ),
        Both(
            "What the rest of the model loses, as it stands, without this head.",
            "其余部分不变时，模型少了这个头会失去多少。",
        ),
        Both(
            "What a model trained without it would lose. Zero is an input that the layers above have never seen; "
            "heads that stand in for each other each look needless.",
            "不能说明从头训练一个没有它的模型会失去多少。零是上层从未见过的输入；互相替补的头各自都显得多余。",
        ),
        _same("Michel et al. 2019, §3.2"),
    ),
    "ablation-mean": MethodWords(
        Both("Ablation to the mean", "均值消融"),
        Both(
            "How much the loss of the gold tokens rises when the head gives its mean output everywhere.",
            "该头在各处都只输出它的均值时，标准词元的损失上升多少。",
        ),
        Both(
            "What is lost if the head no longer depends on the input; its constant part is kept.",
            "说明该头不再随输入变化时失去多少；其常数部分保留。",
        ),
        Both(
            "More than the texts that the mean was taken over. Over one short sentence the mean holds much of the "
            "sentence itself.",
            "结论不超出求均值所用的文本。只用一个短句时，均值里已含有该句的许多内容。",
        ),
        Both("Michel et al. 2019, §3.2, with the mean in the place of zero", "Michel et al. 2019, §3.2，以均值代替零"),
    ),
    "permutation": MethodWords(
        Both("Permuted weights", "权重置换"),
        Both(
            "The weights of every row are shuffled among the tokens it may see, <s> and </s> apart; how far do the "
            "predictions move? The median total variation distance (TVD) over the shuffles.",
            "把每行的权重在它可见的词元之间随机打乱（<s> 与 </s> 除外），预测会移动多远？"
            "取多次打乱的总变差距离（TVD）中位数。",
        ),
        Both(
            "Whether it matters where these weights lie. 0: not at all; 1: altogether.",
            "说明权重落在哪里是否要紧。0：毫不要紧；1：完全要紧。",
        ),
        Both(
            "That attention is faithful where it matters; and of one head alone it says little, for the others go on "
            "reading. Look at the layer and the stack as well.",
            "要紧不等于注意力忠实；单独一个头说明不了多少，因为其余的头照读不误。请连同整层与整个栈一起看。",
        ),
        _same("Jain and Wallace 2019, §4.2.1"),
    ),
    "uniform": MethodWords(
        Both("Uniform weights", "均匀权重"),
        Both(
            "Every visible token gets the same weight; how far do the predictions move (TVD)?",
            "所有可见词元权重相同，预测会移动多远（TVD）？",
        ),
        Both("Whether the model makes any use of choosing here.", "说明模型在这里的选择是否有任何用处。"),
        Both(
            "Whether other weights that choose, but choose differently, would do as well.",
            "不能说明另一组同样有所选择、但选得不同的权重是否同样可行。",
        ),
        _same("Wiegreffe and Pinter 2019, §3.2"),
    ),
    "adversarial": MethodWords(
        Both("Adversarial weights", "对抗权重"),
        Both(
            "The most different weights that could be found (Jensen–Shannon divergence, JSD) while the prediction "
            "stays within ε of what it was (TVD).",
            "在预测的变化不超过 ε（TVD）的前提下，所能找到的差别最大的权重（JS 散度，JSD）。",
        ),
        Both(
            "A large JSD is a witness: quite another picture would have gone with a nearly unchanged prediction.",
            "JSD 大就是一个见证：换成全然不同的图，预测也几乎不变。",
        ),
        Both(
            "A small JSD proves nothing, for the search may have missed it. A large one does not show that the model "
            "could have learnt those weights; compare it with the divergence between seeds.",
            "JSD 小不能证明什么，搜索可能漏掉了。JSD 大也不表明模型能学到那样的权重；请与不同随机种子之间的散度对照。",
        ),
        _same("Jain and Wallace 2019, §4.2.2; Wiegreffe and Pinter 2019, §4"),
    ),
    "agreement": MethodWords(
        Both("Agreement with other methods", "与其他方法的一致性"),
        Both(
            "Rank correlation (Kendall τ-b and Spearman ρ) between the rows of a head and those of another method.",
            "某个头的各行与另一方法的各行之间的秩相关（Kendall τ-b 与 Spearman ρ）。",
        ),
        Both("Whether two ways of looking put tokens in the same order.", "说明两种看法给词元排出的次序是否相同。"),
        Both(
            "Which of the two is right. Methods can agree and be wrong, and gradients are no gold standard.",
            "不能说明哪一个对。方法可能一致却都错；梯度并不是标准答案。",
        ),
        _same("Jain and Wallace 2019, §4.1"),
    ),
    "seed-null": MethodWords(
        Both("Divergence between seeds", "随机种子之间的散度"),
        Both(
            "How different the weights are of models that were trained alike but began from other random numbers "
            "(JSD).",
            "训练方式相同、只是随机初值不同的模型，它们的权重相差多少（JSD）。",
        ),
        Both(
            "What is chance: an adversarial JSD below this one is nothing remarkable.",
            "说明多少属于偶然：低于它的对抗 JSD 不足为奇。",
        ),
        Both(
            "Which head of one model is which of another; heads are matched as well as they can be.",
            "不能说明一个模型的某个头就是另一个模型的哪个头；这里只作尽可能好的匹配。",
        ),
        _same("Wiegreffe and Pinter 2019, §3.3"),
    ),
}

_TOKENS = {
    "attention": MethodWords(
        Both("Attention weight", "注意力权重"),
        Both(
            "The weight that the query gives to each token, the mean over the heads of the layer.",
            "查询给予各词元的权重，取该层各头的均值。",
        ),
        Both("What was read at this layer, and in what proportion.", "说明这一层读了什么，比例如何。"),
        Both(
            "What the reading was worth: where values are equal the weights do not matter, and above the first layer "
            "a position no longer holds its own token alone.",
            "不能说明读到的有多大作用：值相等时权重无关紧要；第一层以上，一个位置所含的已不只是它自己的词元。",
        ),
        _same("Bahdanau et al. 2015, §3.1; Vaswani et al. 2017, §3.2"),
    ),
    "value-norms": MethodWords(
        Both("Weighted value norm", "加权值向量范数"),
        Both(
            "The length of the vector that each token adds to the output: its weight times its value, projected.",
            "每个词元加到输出上的向量的长度：权重乘以它的值，再经投影。",
        ),
        Both(
            "Whether a large weight brings anything: a weight on a value near zero adds nothing.",
            "说明大权重是否真的带来内容：落在近零值上的权重什么也不添加。",
        ),
        Both(
            "Whether the layers above make use of what was added; vectors may also cancel.",
            "不能说明上层是否用到所添加的内容；向量还可能互相抵消。",
        ),
        _same("Kobayashi et al. 2020"),
    ),
    "rollout": MethodWords(
        Both("Attention rollout", "注意力展开（rollout）"),
        Both(
            "The weights of all layers multiplied, half of each layer taken as the residual connection.",
            "把各层的权重连乘，每层的一半算作残差连接。",
        ),
        Both(
            "A rough path from the prediction back to the tokens through all layers.",
            "粗略给出从预测经各层回到词元的路径。",
        ),
        Both(
            "It is a rule of thumb: it knows neither values nor signs, and the half is an assumption.",
            "它只是经验规则：既不知道值，也不知道正负，“一半”是假设。",
        ),
        _same("Abnar and Zuidema 2020, §3"),
    ),
    "gradient-input": MethodWords(
        Both("Gradient × input", "梯度 × 输入"),
        Both(
            "The slope of the log-probability of the gold token along each embedding, times the embedding.",
            "标准词元的对数概率沿各词嵌入的斜率，再乘以该词嵌入。",
        ),
        Both(
            "What a very small change of a token's embedding would do here.", "说明词嵌入的微小变化在此处会有什么作用。"
        ),
        Both(
            "What a whole token is worth: where the model has saturated, slopes are small though the token matters.",
            "不能说明整个词元的作用：模型饱和处斜率很小，词元却可能要紧。",
        ),
        _same("Shrikumar et al. 2017"),
    ),
    "gradient-norm": MethodWords(
        Both("Gradient norm", "梯度范数"),
        Both(
            "How steep the log-probability of the gold token is at each embedding, in whichever direction.",
            "标准词元的对数概率在各词嵌入处有多陡，不论方向。",
        ),
        Both("Where the prediction is sensitive.", "说明预测对哪里敏感。"),
        Both(
            "Whether a token speaks for or against; the slope holds only close by.",
            "不能说明词元是支持还是反对；斜率只在近处成立。",
        ),
        _same("Simonyan et al. 2014"),
    ),
    "integrated-gradients": MethodWords(
        Both("Integrated gradients", "积分梯度"),
        Both(
            "Gradients summed along the straight path from a baseline of empty embeddings to the real ones, over "
            "source and target prefix together; the parts add up to the whole difference.",
            "沿着从空白基线词嵌入到真实词嵌入的直线累加梯度，源句与目标前缀一起算；各部分之和等于总差。",
        ),
        Both(
            "How the difference to the baseline is shared out; the completeness error says how exact the sum is.",
            "说明与基线之间的差如何分摊；完备性误差说明求和有多精确。",
        ),
        Both(
            "Anything beyond its baseline: another baseline gives another share. Not converged means: do not read it.",
            "结论不超出所取的基线：换一个基线，份额就变。标明“未收敛”的不要解读。",
        ),
        _same("Sundararajan et al. 2017, §3"),
    ),
    "occlusion": MethodWords(
        Both("Occlusion (leave one out)", "遮挡（逐个去除）"),
        Both(
            "How much the log-probability of the gold token falls when one token's embedding is replaced by the "
            "baseline.",
            "把一个词元的词嵌入换成基线后，标准词元的对数概率下降多少。",
        ),
        Both("What the model itself says when the token is taken away.", "直接由模型说明去掉该词元会怎样。"),
        Both(
            "What tokens do together: if either of two would be enough, neither seems needed.",
            "不能说明词元的共同作用：两个词元中任一个就够时，两者都显得不需要。",
        ),
        _same("Li et al. 2016; Jain and Wallace 2019, §4.1"),
    ),
}

_WHOLE = {
    "lens": MethodWords(
        Both("Logit lens", "logit 透镜"),
        Both(
            "What would be predicted if the decoder ended after this layer: the model's own last step applied to each "
            "layer's state.",
            "假如解码器到这一层为止会预测什么：把模型自己的最后一步用在每一层的状态上。",
        ),
        Both("From which layer on the final prediction stands.", "说明从哪一层起最终预测已经成形。"),
        Both(
            "That a lower layer knows nothing: it may hold it in a form that the last step cannot read.",
            "不能说明低层一无所知：它可能以最后一步读不出的形式存着。",
        ),
        _same("nostalgebraist 2020"),
    ),
    "temperature": MethodWords(
        Both("Temperature", "温度"),
        Both(
            "All weights of a stack raised to the power 1/τ and normalised anew: sharper below 1, flatter above.",
            "把一个栈的所有权重取 1/τ 次幂再归一化：τ 小于 1 更尖锐，大于 1 更平坦。",
        ),
        Both("How much the model depends on how sharply it chooses.", "说明模型在多大程度上依赖选择的锐利程度。"),
        Both(
            "Whether the model could be trained at another temperature.",
            "不能说明模型能否在另一温度下训练。",
        ),
        Both("A check of our own, after no paper", "本项目自己的检查，不出自论文"),
    ),
    "pruning": MethodWords(
        Both("Pruning curve", "剪枝曲线"),
        Both(
            "Heads closed one tenth at a time, the least important by gradient first, scored anew after each step.",
            "每次关闭十分之一的头，按梯度算的头重要性最低者先关，每步之后重新打分。",
        ),
        Both("How many heads a stack can do without.", "说明一个栈可以少掉多少个头。"),
        Both(
            "The most that could be closed: the order is greedy, and nothing is trained again afterwards.",
            "不能说明最多能关多少：次序是贪心的，之后也没有再训练。",
        ),
        _same("Michel et al. 2019, §4"),
    ),
    "probes": MethodWords(
        Both("Probes", "探针"),
        Both(
            "A small classifier reads a label off the frozen states of a layer; selectivity is its accuracy less that "
            "on a control task of random labels.",
            "用小分类器从冻结的某层状态中读出标签；选择性等于准确率减去随机标签的对照任务上的准确率。",
        ),
        Both("That a label can be read there.", "说明标签能从那里读出来。"),
        Both(
            "That the model uses it. A high accuracy with a high control says how much the probe learns by itself.",
            "不能说明模型用到了它。准确率高而对照也高，说明的是探针自己能学多少。",
        ),
        _same("Hewitt and Liang 2019, §2"),
    ),
}

METHODS: dict[str, MethodWords] = {**_HEADS, **_TOKENS, **_WHOLE}
"""Every method that a report may show, by its id."""

_LINKS = Both(
    "The share of target words, on tasks whose links are known, for which the source word with the largest score is "
    "the right one. Of other text it promises nothing.",
    "在连线已知的任务上，得分最大的源词正是正确源词的目标词所占的比例。对其他文本不作保证。",
)
_RANKS = Both(
    "Spearman's ρ, from −1 to 1, between this number and how often the head's largest weight lies on the right word, "
    "over the cross-attention heads of models that solved tasks whose links are known. Below 0 it leads astray.",
    "在解决了连线已知任务的模型中，对各交叉注意力头计算：该数值与“头的最大权重落在正确词上的频率”之间的 "
    "Spearman ρ，取值 −1 到 1。小于 0 说明它会误导。",
)
_NAMED = Both(
    "The share of heads that are given the role that they have: heads whose weights were written by hand (planted), "
    "and aligned heads of models that solved tasks whose links are known.",
    "被判为其真实角色的头所占的比例：既有手工写定权重的头（植入），也有在连线已知任务上训练好的模型里的对齐头。",
)
_NOTHING = Both("It describes; there is nothing that it could be wrong about.", "它只作描述，没有可判对错的内容。")
_DESCRIPTIVE = ("statistics", "seed-null", *_WHOLE)

CALIBRATED: dict[str, Both] = {
    **dict.fromkeys(_TOKENS, _LINKS),
    **dict.fromkeys(_HEADS, _RANKS),
    **dict.fromkeys(_DESCRIPTIVE, _NOTHING),
    "role": _NAMED,
}
"""What the calibration score beside a method's name is a score of."""
