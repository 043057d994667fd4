"""All words of the report of `clearhead inspect`, in both languages, by key.

`{name}` stands for something that the page puts in. What is told of a method is in `inspect_methods`, what the shell,
the overview and the map say in `inspect_page_words`, the names of what findings hold in `inspect_value_words`.
"""

from __future__ import annotations

from dataclasses import fields

from clearhead.explorer.content import Both
from clearhead.explorer.inspect_methods import CALIBRATED, METHODS
from clearhead.explorer.inspect_page_words import PAGE_WORDS
from clearhead.explorer.inspect_value_words import VALUE_WORDS

__all__ = ["WORDS"]

_GENERAL = {
    "stack.encoder": Both("encoder", "编码器"),
    "stack.decoder": Both("decoder", "解码器"),
    "stack.cross": Both("cross", "交叉"),
    "stack.encoder.long": Both("Encoder self-attention", "编码器自注意力"),
    "stack.decoder.long": Both("Decoder self-attention", "解码器自注意力"),
    "stack.cross.long": Both("Cross-attention", "交叉注意力"),
    "stack.all": Both("all stacks", "所有栈"),
    "not_tested": Both("not tested", "未测试"),
    "not_tested.long": Both("Not tested: nothing was run for this.", "未测试：没有为此运行任何方法。"),
    "scope.sentence": Both("from this one sentence", "仅由这一个句子得出"),
    "scope.sample": Both(
        "from a sample of {pairs} pairs ({tokens} target tokens)", "由 {pairs} 个句对的样本得出（{tokens} 个目标词元）"
    ),
    "scope.part": Both("from {pairs} of the sample's {all} pairs", "由样本 {all} 个句对中的 {pairs} 个得出"),
    "caution.weights": Both(
        "An attention weight says what was read, not why, and not what it was worth: where values are equal, weights "
        "do not matter.",
        "注意力权重说明读了什么，不说明为什么，也不说明那有多大作用：值相等时，权重无关紧要。",
    ),
    "caution.sentence": Both(
        "Figures from one sentence say little about the model: another sentence can give another order.",
        "由一个句子得出的数字很难说明整个模型：换一个句子，次序可能不同。",
    ),
    "column.method": Both("Method", "方法"),
    "column.unit": Both("Unit", "对象"),
    "column.prediction": Both("Prediction", "预测"),
    "column.head": Both("Head", "头"),
    "task.copy": Both("copy", "复制"),
    "task.reverse": Both("reverse", "逆序"),
    "task.sort": Both("sort", "排序"),
    "task.planted": Both("planted heads", "植入的头"),
    "task.language": Both("made-up language", "人造语言"),
    "chart.hover": Both(
        "Point at a mark, or move between marks with the arrow keys, to read its numbers.",
        "指向某个标记，或用方向键在标记之间移动，即可读出数值。",
    ),
    "chart.points": Both("marks of the picture", "图中的标记"),
    "method.can": Both("Can say", "能说明"),
    "method.cannot": Both("Cannot say", "不能说明"),
    "method.score": Both("Calibration score", "校准得分"),
    "method.cite": Both("After", "出处"),
}

_TOKENS = {
    "tokens.title": Both("Tokens", "词元"),
    "tokens.lead": Both(
        "One prediction at a time: what each method says of every token that was there to read.",
        "一次看一个预测：对每个可读的词元，各方法怎么说。",
    ),
    "tokens.choose": Both("Predicted token", "被预测的词元"),
    "tokens.back": Both("Previous prediction", "上一个预测"),
    "tokens.forth": Both("Next prediction", "下一个预测"),
    "tokens.keys": Both(
        "Arrow keys move between predictions, and from cell to cell inside the rows; Esc leads back here.",
        "方向键在预测之间移动，在行内逐格移动；Esc 回到这里。",
    ),
    "tokens.option": Both("prediction {place}", "第 {place} 个预测"),
    "tokens.statement": Both(
        "Row {row} is the query that has read the target up to “{read}” and predicts “{gold}”, with probability "
        "{probability}.",
        "第 {row} 行是已读到目标词元“{read}”、预测“{gold}”的查询，概率为 {probability}。",
    ),
    "tokens.source": Both("Over the source", "源句各词元"),
    "tokens.prefix": Both("Over the target read so far", "已读目标各词元"),
    "tokens.none": Both("No method says anything of this side.", "没有方法涉及这一侧。"),
    "tokens.scale": Both("Scale", "色标"),
    "tokens.scale.plain": Both("0 to {most}", "0 至 {most}"),
    "tokens.scale.signed": Both("±{most}", "±{most}"),
    "tokens.legend": Both(
        "Each row has its own colour scale, so that colours compare tokens, never methods. ● marks the largest of a "
        "row (of either sign); + and − stand where a method knows for and against; hatched: not yet read.",
        "每行有自己的色标：颜色只比较词元，不比较方法。● 标出一行中（不论正负）最大的；"
        "能区分支持与反对的方法标出 + 与 −；斜线：尚未读到。",
    ),
    "tokens.hover": Both(
        "Point at a cell, or move to it with the keys, to read its value.",
        "指向某格，或用键盘移到那里，即可读出数值。",
    ),
    "tokens.value": Both("{method} · {token}: {value}", "{method} · {token}：{value}"),
    "tokens.value.error": Both("{method} · {token}: {value} ± {error}", "{method} · {token}：{value} ± {error}"),
    "tokens.unread": Both("{token}: not yet read", "{token}：尚未读到"),
    "tokens.chosen": Both("the chosen head {head}", "所选的头 {head}"),
    "tokens.mean": Both("{layer}, mean of {heads} heads", "{layer}，{heads} 个头的均值"),
    "tokens.mean.one": Both("{layer}, its one head", "{layer}，仅有一个头"),
    "tokens.converged": Both("completeness error {error} at {steps} steps", "完备性误差 {error}，{steps} 步"),
    "tokens.not_converged": Both(
        "not converged: completeness error {error} at {steps} steps; do not read this row",
        "未收敛：{steps} 步时完备性误差仍为 {error}；请勿解读此行",
    ),
    "tokens.table": Both("{side}: the numbers of all methods", "{side}：所有方法的数值"),
    "tokens.agreement": Both("Where the methods agree", "各方法是否一致"),
    "tokens.caution": Both(
        "No row is the explanation of the prediction. The methods ask different questions, and where they disagree the "
        "page cannot tell which of them to believe.",
        "没有哪一行就是对预测的解释。各方法回答的是不同的问题；它们不一致时，本页无法判定该信哪一个。",
    ),
    "tokens.agreement.few": Both(
        "Fewer than three tokens, or fewer than two methods: no rank correlation can be given.",
        "词元不足三个，或方法不足两个：无法给出秩相关。",
    ),
    "tokens.agreement.first": Both(
        "{count} of {all} rows have token {place}, “{token}”, on top.",
        "{all} 行中有 {count} 行以第 {place} 个词元“{token}”为最大。",
    ),
    "tokens.agreement.all": Both(
        "All {all} rows have token {place}, “{token}”, on top.", "全部 {all} 行都以第 {place} 个词元“{token}”为最大。"
    ),
    "tokens.agreement.across": Both(
        "Between what reads weights and what asks the model, furthest apart are {one} and {other} (rank correlation "
        "{low}), closest {first} and {second} ({high}).",
        "在读权重的方法与直接询问模型的方法之间，相差最远的是 {one} 与 {other}（秩相关 {low}），"
        "最接近的是 {first} 与 {second}（{high}）。",
    ),
    "tokens.agreement.any": Both(
        "Furthest apart are {one} and {other} (rank correlation {low}), closest {first} and {second} ({high}).",
        "相差最远的是 {one} 与 {other}（秩相关 {low}），最接近的是 {first} 与 {second}（{high}）。",
    ),
    "tokens.agreement.table": Both(
        "Spearman ρ between the rows over the source, signs left out", "源句各行之间的 Spearman ρ，不计正负号"
    ),
    "tokens.methods": Both("What each method can and cannot say", "各方法能说明什么，不能说明什么"),
    "tokens.lens": Both("What each layer would predict here", "每一层在此处会预测什么"),
    "tokens.lens.layer": Both("Layer", "层"),
    "tokens.lens.entering": Both("0 (embeddings)", "0（词嵌入）"),
    "tokens.lens.likeliest": Both("Likeliest tokens", "最可能的词元"),
    "tokens.lens.rank": Both("Rank of “{token}”", "“{token}”的名次"),
    "tokens.lens.probability": Both("Its probability", "其概率"),
    "tokens.lens.divergence": Both("KL to the output, nats", "与输出的 KL 散度（nat）"),
}

_HEADS = {
    "heads.title": Both("Heads", "头"),
    "heads.lead": Both(
        "All heads beside each other: what they look at, and what is lost without them.",
        "把所有的头放在一起：它们看哪里，没有它们会失去什么。",
    ),
    "heads.roles": Both("Every head", "每一个头"),
    "heads.filter.stack": Both("Stack", "栈"),
    "heads.filter.role": Both("Role", "角色"),
    "heads.filter.any": Both("all", "全部"),
    "heads.shown": Both("{count} of {all} heads are shown.", "显示 {all} 个头中的 {count} 个。"),
    "heads.score": Both("Score", "得分"),
    "heads.baseline": Both("Baseline", "基线"),
    "heads.threshold": Both("Threshold", "阈值"),
    "heads.entropy": Both("Entropy share", "熵占比"),
    "heads.importance": Both("Head importance", "头重要性"),
    "heads.zero": Both("ΔNLL, zero", "ΔNLL，置零"),
    "heads.mean": Both("ΔNLL, mean", "ΔNLL，均值"),
    "heads.permutation": Both("Permuted, TVD", "置换 TVD"),
    "heads.units": Both(
        "ΔNLL and head importance are in nats a token; a positive ΔNLL means worse without the head. Score, baseline "
        "and threshold are shares from 0 to 1.",
        "ΔNLL 与头重要性以 nat/词元计；ΔNLL 为正表示没有这个头会更差。得分、基线与阈值都是 0 到 1 的份额。",
    ),
    "heads.mixed": Both(
        "¹ From this one sentence; all other columns are from the sample.",
        "¹ 仅由这一个句子得出；其余各列来自样本。",
    ),
    "heads.none": Both("This model has no attention: there are no heads to show.", "此模型没有注意力：没有头可显示。"),
    "heads.scatter": Both("Head importance against ablation", "头重要性与消融"),
    "heads.scatter.zero": Both("zero", "置零"),
    "heads.scatter.mean": Both("mean", "均值"),
    "heads.scatter.fill": Both("Closed heads give", "关闭的头输出"),
    "heads.scatter.x": Both("head importance |∂L/∂ξ|, nats a token", "头重要性 |∂L/∂ξ|，nat/词元"),
    "heads.scatter.y": Both("ΔNLL without the head, nats a token", "没有该头时的 ΔNLL，nat/词元"),
    "heads.scatter.summary": Both(
        "{count} heads. The rank correlation between gradient and ablation is {rho}. Closing {worst} costs most: "
        "{most} nats a token.",
        "{count} 个头。梯度与消融的秩相关为 {rho}。关闭 {worst} 损失最大：每词元 {most} nat。",
    ),
    "heads.scatter.few": Both(
        "{count} heads, too few for a rank correlation. Closing {worst} costs most: {most} nats a token.",
        "{count} 个头，不足以计算秩相关。关闭 {worst} 损失最大：每词元 {most} nat。",
    ),
    "heads.scatter.caution": Both(
        "Heads that stand in for one another all lie low, though together they are needed: see the pruning curve.",
        "互相替补的头都落在低处，合起来却不可缺少：见剪枝曲线。",
    ),
    "heads.pruning": Both("How many heads can go", "能去掉多少个头"),
    "heads.pruning.translated": Both(
        "BLEU is that of greedy translations of the first {translated} pairs.",
        "BLEU 取自前 {translated} 个句对的贪心译文。",
    ),
    "heads.pruning.few": Both(
        "BLEU of {translated} translations: differences of a few points mean nothing.",
        "BLEU 只取自 {translated} 句译文：相差几分不说明问题。",
    ),
    "heads.probes.few": Both(
        "Probes of as few as {examples} examples: differences of a few per cent mean nothing.",
        "探针最少只用了 {examples} 个样例：相差百分之几不说明问题。",
    ),
    "heads.pruning.nll": Both("ΔNLL, nats a token", "ΔNLL，nat/词元"),
    "heads.pruning.score": Both("BLEU", "BLEU"),
    "heads.pruning.x": Both("share of the heads of the stack closed", "栈中已关闭的头的比例"),
    "heads.pruning.summary": Both("Curves over the share of closed heads: {lines}.", "随关闭比例变化的曲线：{lines}。"),
    "heads.curve.end": Both("{name}: from {first} to {last}", "{name}：从 {first} 到 {last}"),
    "heads.temperature": Both("Sharper and flatter weights", "更尖锐与更平坦的权重"),
    "heads.temperature.x": Both("temperature τ (1: as it is)", "温度 τ（1：原样）"),
    "heads.temperature.summary": Both("Curves over the temperature: {lines}.", "随温度变化的曲线：{lines}。"),
    "heads.probes": Both("What can be read off the states", "能从状态中读出什么"),
    "probe.label": Both("Label", "标签"),
    "probe.place": Both("States of", "状态来自"),
    "probe.kind": Both("Probe", "探针"),
    "probe.kind.linear": Both("linear", "线性"),
    "probe.kind.mlp": Both("one hidden layer", "单隐层"),
    "probe.accuracy": Both("Accuracy", "准确率"),
    "probe.control": Both("Control task", "对照任务"),
    "probe.selectivity": Both("Selectivity", "选择性"),
    "probe.majority": Both("Always the commonest", "总猜最常见"),
    "probe.untrained": Both("Untrained model", "未训练的模型"),
    "probe.classes": Both("Classes", "类别数"),
    "probe.examples": Both("Examples", "样例数"),
    "probe.label.position": Both("position of the token", "词元位置"),
    "probe.label.word-shape": Both("shape of the word", "词形"),
    "probe.label.sentence-length": Both("length of the sentence", "句子长度"),
    "probe.label.placeholder": Both("placeholder or not", "是否占位符"),
    "probe.label.word": Both("identity of the word", "词的身份"),
}

_TESTS = {
    "tests.title": Both("Tests", "检验"),
    "tests.lead": Both(
        "Does it matter where the attention lies? What other weights would do to the predictions.",
        "注意力落在哪里要紧吗？换成别的权重，预测会怎样。",
    ),
    "tests.scale": Both(
        "TVD runs from 0 (the same prediction) to 1 (nothing in common); JSD from 0 to ln 2 = 0.693 nats.",
        "TVD 从 0（预测相同）到 1（毫无共同之处）；JSD 从 0 到 ln 2 = 0.693 nat。",
    ),
    "tests.plot.tvd": Both("median TVD of the predictions", "预测的 TVD 中位数"),
    "tests.plot.uniform": Both("mean TVD of the predictions", "预测的平均 TVD"),
    "tests.plot.jsd": Both(
        "largest JSD found, mean over the predictions, nats", "所找到的最大 JSD，对预测取均值（nat）"
    ),
    "tests.plot.legend": Both(
        "● one head · ◆ all heads of the layer · ■ the whole stack",
        "● 一个头 · ◆ 该层所有头 · ■ 整个栈",
    ),
    "tests.plot.seed": Both("┆ divergence between seeds", "┆ 随机种子之间的散度"),
    "tests.plot.summary": Both(
        "{heads} heads, {layers} layers and {stacks} stacks were tested. Largest: {unit}, {most}.",
        "检验了 {heads} 个头、{layers} 层与 {stacks} 个栈。最大：{unit}，{most}。",
    ),
    "tests.compare": Both(
        "One head moves predictions by {head} on average, a whole layer by {layer}, a whole stack by {stack}: what one "
        "head seems not to matter for, the others make good.",
        "单个头平均使预测移动 {head}，整层 {layer}，整个栈 {stack}：一个头看似不要紧，是因为其余的头补上了。",
    ),
    "tests.compare.plain": Both(
        "On average one head moves predictions by {head}, a whole layer by {layer}, a whole stack by {stack}.",
        "平均而言，单个头使预测移动 {head}，整层 {layer}，整个栈 {stack}。",
    ),
    "tests.compare.adversarial": Both(
        "While predictions hardly move, the weights found lie on average {head} nats (JSD) from the model's own where "
        "one head was changed, {layer} where a whole layer was, {stack} where a whole stack was.",
        "预测几乎不动，而找到的权重与模型自身权重的平均 JSD 为：只改一个头 {head} nat，改整层 {layer} nat，"
        "改整个栈 {stack} nat。",
    ),
    "tests.settings": Both("Settings: {settings}", "设置：{settings}"),
    "tests.kind": Both("What was changed", "改动对象"),
    "tests.kind.head": Both("one head", "一个头"),
    "tests.kind.layer": Both("layer", "整层"),
    "tests.kind.stack": Both("stack", "整个栈"),
    "tests.largest": Both("Largest", "最大"),
    "tests.share": Both("Predictions with JSD > 0.3", "JSD > 0.3 的预测"),
    "tests.reached": Both("TVD reached", "达到的 TVD"),
    "tests.seed": Both("JSD between seeds", "种子之间的 JSD"),
    "tests.adversarial.read": Both(
        "Predictions are nearly unchanged (TVD at most {epsilon}), not identical.",
        "预测几乎不变（TVD 至多 {epsilon}），并非完全相同。",
    ),
    "tests.adversarial.no_seeds": Both(
        "No other seed was trained: how much of this is chance is not known.",
        "没有训练其他种子：其中多少属于偶然，不得而知。",
    ),
    "tests.agreement.table": Both("Kendall τ-b, a row a head", "Kendall τ-b，每行一个头"),
    "tests.ig": Both("Did integrated gradients converge?", "积分梯度是否收敛？"),
    "tests.ig.lead": Both(
        "The attributions of a prediction must add up to the difference between the model and its baseline. What is "
        "missing, relative to that difference, is the completeness error; steps are doubled until it is below "
        "{tolerance}.",
        "一个预测的各项归因之和必须等于模型与基线之差。缺少的部分与该差之比即完备性误差；"
        "步数加倍，直到它低于 {tolerance}。",
    ),
    "tests.ig.count": Both(
        "{good} of {all} predictions converged; the largest error is {worst}.",
        "{all} 个预测中有 {good} 个收敛；最大误差为 {worst}。",
    ),
    "tests.ig.steps": Both("Steps", "步数"),
    "tests.ig.error": Both("Completeness error", "完备性误差"),
    "tests.ig.difference": Both("F(input) − F(baseline)", "F 在输入与基线处之差"),
    "tests.ig.state": Both("State", "状态"),
    "tests.ig.yes": Both("converged", "已收敛"),
    "tests.ig.no": Both("not converged", "未收敛"),
}


def _method_words() -> dict[str, Both]:
    """`method.ID` is the name; `method.ID.what`, `.can`, `.cannot`, `.cite` and `.calibrated` are the rest."""
    found = {}
    for method, words in METHODS.items():
        for field in fields(words):
            key = f"method.{method}" if field.name == "name" else f"method.{method}.{field.name}"
            found[key] = getattr(words, field.name)
        found[f"method.{method}.calibrated"] = CALIBRATED[method]
    return found


WORDS: dict[str, Both] = {
    **PAGE_WORDS,
    **_GENERAL,
    **VALUE_WORDS,
    **_TOKENS,
    **_HEADS,
    **_TESTS,
    **_method_words(),
}
"""Every word of the page by its key."""
