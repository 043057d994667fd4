"""What the shell, the overview, the map and the evidence card of an inspection's report say, in both languages."""

from __future__ import annotations

from clearhead.explorer.content import Both

__all__ = ["PAGE_WORDS"]

_SHELL = {
    "shell.skip": Both("Skip to the view", "跳到当前视图"),
    "shell.theme": Both("Light / dark", "浅色 / 深色"),
    "shell.about": Both("What was looked at", "所检查的内容"),
    "shell.views": Both("Views", "视图"),
    "shell.wait": Both("Unpacking the report …", "正在展开报告……"),
    "shell.broken": Both("This report cannot be shown:", "无法显示此报告："),
    "shell.old": Both(
        "the browser cannot unpack gzip (DecompressionStream); use one of 2023 or later",
        "浏览器不能解压 gzip（DecompressionStream），请使用 2023 年或之后的版本",
    ),
    "shell.origin.given": Both("given target, teacher forcing", "给定译文，教师强制"),
    "shell.origin.search": Both(
        "beam search, hypothesis {rank}, score {score}, read once more",
        "束搜索，第 {rank} 条假设，得分 {score}，再读一遍",
    ),
    "shell.likelihood": Both("log-probability {sum} nats, {mean} a token", "对数概率 {sum} nat，平均每词元 {mean}"),
    "shell.source": Both("Source", "源句"),
    "shell.target": Both("Target", "译文"),
    "shell.rows": Both(
        "Row t is the query that predicts token t + 1 of what the decoder reads, which begins with <s> (so row 1 has "
        "read <s> and predicts the first target token). A row of the decoder or of cross-attention is named “read → "
        "predicted”.",
        "第 t 行是预测第 t + 1 个词元的查询，词元按解码器所读的序列计数，该序列以 <s> 开头（所以第 1 行读到 <s>，"
        "预测译文的第一个词元）。在解码器与交叉注意力中，行名写作“已读 → 所预测”。",
    ),
    "shell.more": Both("Where these numbers come from", "这些数字从何而来"),
    "shell.fingerprint": Both("SHA-256 of the weights", "权重的 SHA-256"),
    "shell.tokenizer": Both("SHA-256 of the tokenizers", "分词器的 SHA-256"),
    "shell.capture": Both("Weights taken", "取权重之处"),
    "shell.dtype": Both("Arithmetic", "算术精度"),
    "shell.dropout": Both("Dropout", "Dropout"),
    "shell.on": Both("on", "开"),
    "shell.off": Both("off", "关"),
    "shell.versions": Both("Versions", "版本"),
    "shell.byte": Both("byte 0x{hex} of a character", "一个字符的字节 0x{hex}"),
    "shell.calibrated": Both("where the answer is known: {scores}", "答案已知时：{scores}"),
    "shell.calibrated.links": Both("right word first, where known: {scores}", "已知答案时，正确的词居首：{scores}"),
    "shell.calibrated.rank-correlation": Both(
        "ρ with right links, where known: {scores}", "已知答案时，与正确连线的 ρ：{scores}"
    ),
    "shell.calibrated.named": Both("right role, where known: {scores}", "已知答案时，判对角色：{scores}"),
    "shell.astray": Both("On {tasks} the number led astray.", "在{tasks}任务上，该数值起了误导作用。"),
    "shell.nothing": Both("On {tasks} the number told nothing.", "在{tasks}任务上，该数值毫无信息。"),
    "shell.uncalibrated": Both("not calibrated", "未校准"),
    "shell.descriptive": Both("describes; nothing to calibrate", "描述性，无可校准"),
    "shell.numbers": Both("Numbers", "数值"),
    "shell.table.show": Both("Show as a table", "以表格显示"),
    "shell.table.hide": Both("Hide the table", "收起表格"),
    "shell.row": Both("Rows", "行"),
    "shell.row.back": Both("Earlier rows", "前面的行"),
    "shell.row.on": Both("Later rows", "后面的行"),
    "shell.column": Both("Columns", "列"),
    "shell.column.back": Both("Earlier columns", "前面的列"),
    "shell.column.on": Both("Later columns", "后面的列"),
}

_OVERVIEW = {
    "overview.title": Both("Overview", "总览"),
    "overview.lead": Both(
        "Every head of every stack. A picture shows the largest weight of each block of cells, so that no single cell "
        "is lost; open one to read its numbers.",
        "每一栈的每一个头。缩略图取每块单元格中的最大权重，因此不会漏掉任何一格；打开即可读到数值。",
    ),
    "overview.none": Both(
        "This model has no attention: there is no map to show.", "这个模型没有注意力，因此没有图可以显示。"
    ),
    "overview.grid": Both("Attention maps of all heads", "所有头的注意力图"),
    "overview.order": Both("Order", "次序"),
    "overview.by.layer": Both("Layer", "层"),
    "overview.by.role": Both("Role", "角色"),
    "overview.by.importance": Both("Head importance (Michel et al. 2019)", "头重要性（Michel 等 2019）"),
    "overview.by.ablation": Both("Loss when the head is closed (ablation to zero)", "关闭该头时的损失（置零消融）"),
    "overview.by.entropy": Both("Entropy, as a share of the largest possible", "熵占最大可能值的份额"),
    "overview.ablation.short": Both("Δ", "Δ"),
    "overview.importance.short": Both("I", "I"),
    "overview.entropy.short": Both("H", "H"),
    "overview.stack": Both("Stack", "栈"),
    "overview.role": Both("Role", "角色"),
    "overview.role.option": Both("Role", "角色"),
    "overview.all": Both("all", "全部"),
    "overview.own": Both("scale each picture to its own maximum", "每张图按自身最大值着色"),
    "overview.own.flag": Both(
        "Each picture has a scale of its own now: colours of different pictures cannot be compared.",
        "现在每张图各有自己的色标：不同图之间的颜色不可比较。",
    ),
    "overview.layer": Both("layer {layer}", "第 {layer} 层"),
    "overview.count": Both("{shown} of {all} heads", "{all} 个头中的 {shown} 个"),
    "overview.hint": Both(
        "Arrows move, Enter opens. Δ: loss when the head is closed, nats a token. I: head importance. H: entropy "
        "share. Grey: not visible.",
        "方向键移动，回车打开。Δ：关闭该头时损失的变化（nat/词元）。I：头重要性。H：熵份额。灰色：不可见。",
    ),
    "overview.legend": Both("Colour scale of attention weights", "注意力权重的色标"),
    "overview.weight": Both("attention weight", "注意力权重"),
    "overview.summary": Both(
        "{unit}: map of {rows} × {columns} attention weights; on average {share} of a row is on {token}; the largest "
        "weight is {largest}, from {query} to {key}.",
        "{unit}：{rows} × {columns} 的注意力权重图；平均每行有 {share} 落在 {token}；"
        "最大权重 {largest}，由 {query} 到 {key}。",
    ),
}

_MAP = {
    "map.title": Both("Map", "注意力图"),
    "map.lead": Both(
        "One map with its numbers, and beside it what else was found about this head, its layer and its stack.",
        "一张图及其数值；旁边是关于这个头、这一层与这一栈的其他发现。",
    ),
    "map.stack": Both("Stack", "栈"),
    "map.layer": Both("Layer", "层"),
    "map.head": Both("Head", "头"),
    "map.mean": Both("mean of all heads", "所有头的平均"),
    "map.back": Both("Head before", "上一个头"),
    "map.on": Both("Next head", "下一个头"),
    "map.ends": Both("hide <s> and </s>", "隐藏 <s> 与 </s>"),
    "map.punctuation": Both("hide punctuation", "隐藏标点"),
    "map.words": Both("join pieces to words", "合并为词"),
    "map.log": Both("logarithmic colours", "对数色标"),
    "map.own": Both("scale to this map's maximum", "按本图最大值着色"),
    "map.out": Both("Smaller cells", "缩小"),
    "map.in": Both("Larger cells", "放大"),
    "map.fit": Both("Fit", "适应宽度"),
    "map.png": Both("Save as PNG", "保存 PNG"),
    "map.csv": Both("Save as CSV", "保存 CSV"),
    "map.removed": Both("hidden", "已隐藏"),
    "map.masked": Both("masked", "遮蔽"),
    "map.weights": Both("Attention weights", "注意力权重"),
    "map.table": Both("Attention weights of {unit}", "{unit} 的注意力权重"),
    "map.region": Both("Map of {unit}; arrows move from cell to cell", "{unit} 的图；方向键逐格移动"),
    "map.keys": Both(
        "Keys in the map: arrows, Home, End, Page Up and Down move the cell; + − 0 zoom (or Ctrl and the wheel); Enter "
        "goes to the token view; Esc to the choice of head.",
        "图内按键：方向键、Home、End、翻页键移动单元格；+ − 0 缩放（或 Ctrl 加滚轮）；"
        "回车进入词元视图；Esc 回到头的选择。",
    ),
    "map.hatch": Both(
        "Hatched cells are masked: the query cannot see the key, and the weight is exactly 0.",
        "斜纹格被遮蔽：查询看不到该键，权重恰为 0。",
    ),
    "map.precision.u16": Both(
        "Numbers are kept in 16 bits: none is off by more than 0.000016.", "数值以 16 位保存：误差都不超过 0.000016。"
    ),
    "map.precision.u8": Both(
        "The sentence is long: the three largest weights of each row are kept in 16 bits (off by at most 0.00004), the "
        "others in 8 or fewer and marked ≈ with their error (at most {error}).",
        "句子较长：每行最大的三个权重以 16 位保存（误差至多 0.00004），其余以 8 位或更少保存，"
        "标 ≈ 并附误差（至多 {error}）。",
    ),
    "map.cell.reads": Both(
        "Query {query} ({row}) reads {key} ({column}):", "查询 {query}（{row}）读取 {key}（{column}）："
    ),
    "map.cell.predicts": Both(
        "After {query}, predicting {predicts} (row {row}), reads {key} ({column}):",
        "读到 {query}、预测 {predicts}（第 {row} 行），读取 {key}（{column}）：",
    ),
    "map.cell.weight": Both("attention weight {weight}.", "注意力权重 {weight}。"),
    "map.cell.masked": Both("masked, exactly 0.", "被遮蔽，恰为 0。"),
    "map.cell.removed": Both(
        "{share} of this row is hidden; the rest was divided by what remains.",
        "本行有 {share} 被隐藏；其余已按剩余部分重新归一。",
    ),
    "map.flag.own": Both("scaled to this map's maximum, {peak}", "按本图最大值 {peak} 着色"),
    "map.flag.log": Both("logarithmic colours, from 0.0001 on", "对数色标，自 0.0001 起"),
    "map.flag.hidden": Both(
        "renormalised: {share} of the weight is hidden on average", "已重新归一：平均 {share} 的权重被隐藏"
    ),
    "map.flag.words": Both("words: sum over keys, mean over queries", "按词：键求和，查询取平均"),
    "map.flag.mean": Both(
        "mean of {heads} heads: no head need look like this", "{heads} 个头的平均：未必有哪个头是这样"
    ),
    "map.flag.sums": Both("rows need not sum to 1 by this model's formula", "按此模型的公式，行和不必为 1"),
}

_CARD = {
    "card.title": Both("Evidence: {unit}", "证据：{unit}"),
    "card.bare": Both(
        "No evidence was computed with this map. A picture alone does not say what the model needs.",
        "没有随此图计算任何证据。仅凭图片不能说明模型需要什么。",
    ),
    "card.head": Both("This head", "这个头"),
    "card.layer": Both("All heads of its layer ({unit})", "该层的所有头（{unit}）"),
    "card.stack": Both("All heads of its stack ({unit})", "该栈的所有头（{unit}）"),
    "card.all": Both("more numbers, and settings", "更多数值与设置"),
    "card.settings": Both("Settings, {scope}: {settings}", "设置（{scope}）：{settings}"),
    "card.value": Both("Number", "数值"),
    "card.sentence": Both("this sentence", "本句"),
    "card.sample": Both("{pairs} pairs", "{pairs} 个句对"),
    "card.part": Both("{pairs} of {all} pairs", "{all} 个句对中 {pairs} 个"),
    "value.lens.first": Both("share of gold tokens that come first", "标准词元排第一的份额"),
    "value.lens.rank": Both("median rank of the gold token", "标准词元名次的中位数"),
    "value.lens.divergence": Both("mean divergence from the model's prediction, nats", "与模型预测的平均散度（nat）"),
    "card.note": Both(
        "Tests of one head alone understate what the model depends on; tests of a whole layer show how free the "
        "weights are, not which of them is right.",
        "只测一个头会低估模型的依赖；测整层显示权重有多大自由度，而不是哪一种权重正确。",
    ),
}

PAGE_WORDS: dict[str, Both] = {**_SHELL, **_OVERVIEW, **_MAP, **_CARD}
"""By key; `{name}` stands for something that the page puts in."""
