"""What the steps of a walk-through say, in English and in Chinese."""

from __future__ import annotations

from clearhead.explorer.content import Both

__all__ = [
    "CAPTIONS",
    "TITLES",
    "add_and_norm",
    "attention_words",
    "embedding_words",
    "feedforward_words",
    "finals_words",
    "head",
    "join_words",
    "layer",
    "logits_words",
    "memory_words",
    "projection_words",
    "result_words",
    "search_step",
    "search_words",
    "shifted_words",
    "sublayer",
    "tokens_words",
    "unknown_words",
]

TITLES = {
    "overview": Both("The sentence", "句子"),
    "source": Both("Source", "源语言"),
    "tokens": Both("Text to tokens", "文本到词元"),
    "embedding": Both("Embedding and position", "词嵌入与位置"),
    "projections": Both("Queries, keys, values", "查询、键、值"),
    "attention": Both("Scores, mask, weights", "分数、掩码、权重"),
    "join": Both("Heads joined, add & norm", "多头合并、残差与归一化"),
    "feedforward": Both("Feed-forward", "前馈网络"),
    "memory": Both("Memory", "记忆"),
    "shifted": Both("The target so far", "已有的译文"),
    "output": Both("Output", "输出"),
    "logits": Both("Logits and probabilities", "logits 与概率"),
    "search": Both("Search", "搜索"),
    "steps": Both("Beam search, step by step", "束搜索逐步看"),
    "finals": Both("Length penalty and choice", "长度惩罚与选择"),
    "result": Both("The translation", "译文"),
}

CAPTIONS = {
    "rows": Both("rows of the table", "嵌入表中的行"),
    "scaled": Both("times √d", "乘以 √d"),
    "positions": Both("positions", "位置编码"),
    "sum": Both("sum", "相加"),
    "x": Both("input", "输入"),
    "normed": Both("normalised input", "归一化后的输入"),
    "memory": Both("the encoder's memory", "编码器的记忆"),
    "weight": Both("learnt", "学到的权重"),
    "matrix": Both("the learnt matrix", "学到的矩阵"),
    "queries": Both("queries", "查询"),
    "keys": Both("keys", "键"),
    "values": Both("values", "值"),
    "scores": Both("scores", "分数"),
    "mask": Both("mask", "掩码"),
    "weights": Both("attention weights", "注意力权重"),
    "mixed": Both("values, mixed", "混合后的值"),
    "concat": Both("heads side by side", "各头并排"),
    "output": Both("output of the sub-layer", "子层的输出"),
    "residual": Both("input + output", "输入 + 输出"),
    "norm": Both("normalised", "归一化后"),
    "inner": Both("widened", "加宽"),
    "active": Both("after the activation", "激活之后"),
    "beam": Both(
        "Every hypothesis that lived on or ended, a column a step; below each token the sum of its log-probabilities",
        "每一步保留或完成的候选译文，一步一列；词元下方是累计的对数概率",
    ),
    "hidden": Both("what leaves the decoder", "解码器的输出"),
}

ATTENTION_NAMES = {
    "self_attention": Both("masked self-attention", "掩码自注意力"),
    "cross_attention": Both("cross-attention", "交叉注意力"),
}


def layer(stack: str, number: int) -> Both:
    """The title of a layer, counted from one."""
    names = {"encoder": Both("Encoder", "编码器"), "decoder": Both("Decoder", "解码器")}
    name = names[stack]
    return Both(f"{name.en}, layer {number}", f"{name.zh}第 {number} 层")


def sublayer(number: int, kind: str) -> Both:
    """The title of one of a decoder layer's attentions."""
    name, called = layer("decoder", number), ATTENTION_NAMES[kind]
    return Both(f"{name.en} · {called.en}", f"{name.zh} · {called.zh}")


def head(number: int) -> Both:
    """A head's name, counted from one."""
    return Both(f"head {number}", f"头 {number}")


def search_step(number: int) -> Both:
    """A step's name, counted from one."""
    return Both(f"step {number}", f"第 {number} 步")


def tokens_words() -> Both:
    """How a text becomes ids."""
    return Both(
        "The tokenizer cuts the text into pieces of its vocabulary; ▁ marks a space. Each piece has a number, "
        "its id, and "
        "`</s>` (the end) is put behind the last. From here on every row of every matrix is one of these tokens.",
        "分词器把文本切成词表中的片段，▁ 表示空格。每个片段有一个编号（id），最后补上表示结束的 `</s>`。"
        "从这里开始，每个矩阵的每一行都对应其中一个词元。",
    )


def unknown_words(count: int) -> Both:
    """What `<unk>` means."""
    how_many = "1 token here is" if count == 1 else f"{count} tokens here are"
    return Both(
        f"{how_many} `<unk>`: the vocabulary has no piece for what is written, which stands below it. All that is "
        "unknown has this one id, so the model knows nothing of what was written and can only guess from the rest.",
        f"这里有 {count} 个词元是 `<unk>`（未登录词）：词表中没有片段能拼出所写的内容（写在它的下方）。"
        "凡是未登录的都用这同一个 id，所以模型对所写的内容一无所知，只能根据其余部分猜测。",
    )


def embedding_words(width: int, placed: bool) -> Both:
    """From ids to vectors; `placed`: whether the model has positions to add."""
    picked = Both(
        f"An id picks one row of a learnt table: {width} numbers. They are multiplied by √d = √{width}",
        f"每个 id 取出嵌入表中的一行，共 {width} 个数；乘以 √d = √{width}",
    )
    if not placed:
        return Both(
            picked.en + ". This model was built without positions: zeros are added, and nothing tells its encoder one "
            "order of the words from another.",
            picked.zh + "。这个模型没有位置编码：加上的全是零，编码器无从分辨词的先后次序。",
        )
    return Both(
        picked.en + ", so that they are as large as the position's numbers, which are added. Without these the model "
        "could not tell one order of the words from another.",
        picked.zh + "，使其大小与位置编码相当，再加上位置编码。没有位置编码，模型就分不清词的先后次序。",
    )


def projection_words(kind: str, width: int, heads: int, kv_heads: int, bias: bool) -> Both:
    """Queries, keys and values of one attention layer."""
    shared_en = f" {heads // kv_heads} heads share the same keys and values." if kv_heads != heads else ""
    shared_zh = f"每 {heads // kv_heads} 个头共用一组键和值。" if kv_heads != heads else ""
    bias_en, bias_zh = (" A learnt bias is added.", "另加一个学到的偏置。") if bias else ("", "")
    if kind == "cross_attention":
        return Both(
            f"The target asks, the source answers: queries come from the decoder, keys and values from the "
            f"memory. Each of "
            f"the {heads} heads has maps of its own into {width} dimensions.{shared_en}{bias_en}",
            f"译文提问，原文回答：查询来自解码器，键和值来自记忆。{heads} 个头各有自己的映射，映到 {width} 维。"
            f"{shared_zh}{bias_zh}",
        )
    return Both(
        f"Each token makes three vectors: a query (what it looks for), a key (what it can be found by) and a "
        f"value (what it "
        f"gives). Each of the {heads} heads has maps of its own into {width} dimensions.{shared_en}{bias_en}",
        f"每个词元产生三个向量：查询（它要找什么）、键（凭什么找到它）和值（它给出什么）。"
        f"{heads} 个头各有自己的映射，映到 {width} 维。{shared_zh}{bias_zh}",
    )


def attention_words(kind: str) -> Both:
    """Scores, mask, softmax and the mixture."""
    start = Both(
        "Each query is multiplied with each key and the product divided by the root of their width. Softmax "
        "turns a row of "
        "scores into weights that add up to 1, and with these the values are mixed.",
        "每个查询与每个键相乘，再除以它们宽度的平方根。softmax 把一行分数变成和为 1 的权重，再按权重混合各个值。",
    )
    ends = {
        "attention": Both(
            " Nothing is hidden here: every source token may read every other.",
            "这里没有遮住任何位置：源语言的每个词元都可以读到所有词元。",
        ),
        "self_attention": Both(
            " What comes later is hidden: its score becomes −∞ before the softmax, so its weight is exactly 0. "
            "Row t is the "
            "query that helps to predict token t + 1.",
            "后面的位置被遮住：softmax 之前其分数变为 −∞，权重恰好为 0。第 t 行的查询用来预测第 t + 1 个词元。",
        ),
        "cross_attention": Both(
            " Rows are target tokens, columns source tokens. Row t helps to predict token t + 1, so look for "
            "the source of "
            "the word that comes next.",
            "行是译文词元，列是原文词元。第 t 行用来预测第 t + 1 个词元，所以应当去看下一个词来自原文何处。",
        ),
    }
    end = ends[kind]
    return Both(start.en + end.en, start.zh + end.zh)


def join_words(placement: str) -> Both:
    """W_O, the residual and the norm."""
    start = Both(
        "The outputs of the heads are set side by side and mixed by one more learnt matrix, W_O.",
        "各头的输出并排放好，再由另一个学到的矩阵 W_O 混合起来。",
    )
    end = add_and_norm(placement)
    return Both(f"{start.en} {end.en}", start.zh + end.zh)


def add_and_norm(placement: str) -> Both:
    """The residual connection, by the place of its norm."""
    if placement == "post":
        return Both(
            "The result is added to what came in, and each row is normalised: mean 0, variance 1, then a learnt "
            "scale and "
            "shift.",
            "结果加到输入上，再对每一行做归一化：均值 0、方差 1，然后乘以学到的缩放、加上学到的平移。",
        )
    return Both(
        "The result is added to what came in. In this model the norm stands before the sub-layer (pre-norm), so "
        "the sum goes "
        "on as it is.",
        "结果加到输入上。这个模型把归一化放在子层之前（pre-norm），所以相加的结果直接传下去。",
    )


def feedforward_words(activation: str, inner: int, placement: str) -> Both:
    """The feed-forward sub-layer."""
    bends = {
        "relu": Both("what is negative becomes 0", "负数变为 0"),
        "gelu": Both("GELU bends them", "经过 GELU"),
        "silu": Both("SiLU bends them", "经过 SiLU"),
        "swiglu": Both("a second map, through SiLU, gates them", "由另一个经 SiLU 的映射做门控"),
    }
    bend, end = bends[activation], add_and_norm(placement)
    return Both(
        f"Each token by itself is widened to {inner} numbers, {bend.en}, and they are narrowed again. {end.en}",
        f"每个词元各自加宽到 {inner} 个数，{bend.zh}，再收窄回来。{end.zh}",
    )


def memory_words() -> Both:
    """What the encoder hands over."""
    return Both(
        "The rows that leave the last layer are all that the decoder will know of the source: one row a token. "
        "They are "
        "worked out once, and every step of the translation reads them.",
        "离开最后一层的这些行，就是解码器所知的关于原文的一切：每个词元一行。它们只算一次，译文的每一步都会读它们。",
    )


def shifted_words(asked: bool) -> Both:
    """What the decoder reads."""
    end = (
        Both(" Here it is the target that was asked for.", "这里用的是指定的译文。")
        if asked
        else Both(
            " Here it is the translation that the search found (its steps come at the end).",
            "这里用的是搜索得到的译文（搜索的过程在最后）。",
        )
    )
    return Both(
        "The decoder reads what has been written so far, starting from `<s>`, and predicts what comes next. "
        "Given a whole "
        "target it does so at all positions at once; the mask keeps each from seeing its own answer." + end.en,
        "解码器从 `<s>` 开始读已经写出的部分，预测下一个词元。给它整句译文时，它在所有位置上同时预测，"
        "掩码保证谁也看不到自己的答案。" + end.zh,
    )


def logits_words(size: int) -> Both:
    """From hidden states to probabilities."""
    return Both(
        f"The last layer's output at each position is multiplied with all {size:,} rows of the output table: one "
        "number a piece, its logit. Softmax makes probabilities of them. Marked is the token that the target takes.",
        f"每个位置在最后一层的输出与输出表的全部 {size:,} 行相乘，每个词元得到一个数，即 logit；softmax "
        f"把它们变成概率。标出的是译文所取的词元。",
    )


def search_words(beam: int) -> Both:
    """The beam."""
    if beam == 1:
        return Both(
            "A beam of one: each step takes the likeliest token and never looks back (greedy search).",
            "束宽为 1：每一步取最可能的词元，从不回头（贪心搜索）。",
        )
    return Both(
        f"{beam} hypotheses live side by side. Each step looks at the {2 * beam} best continuations of all of "
        f"them: those "
        f"among the first {beam} that end are finished, and the best {beam} of the others live on. It stops "
        f"when no living "
        "hypothesis can still win.",
        f"同时保留 {beam} 条候选译文。每一步看它们所有续写中最好的 {2 * beam} 个：前 {beam} 个里结束的就算完成，"
        f"其余的取最好的 {beam} 个继续。没有哪条未完成的译文还可能胜出时，搜索结束。",
    )


def finals_words(formula: str) -> Both:
    """The ranking of finished hypotheses."""
    return Both(
        f"Every further token makes a hypothesis less likely, so long ones would always lose. The score makes "
        f"up for it: "
        f"{formula}, where |Y| counts the tokens with `</s>`. The highest score wins.",
        f"每多一个词元，译文的概率就更低，长的总要吃亏。得分对此作了补偿：{formula}，其中 |Y| 是含 `</s>` "
        f"的词元数。得分最高者胜出。",
    )


def result_words() -> Both:
    """The end."""
    return Both(
        "The pieces are joined and ▁ becomes a space again. `clearhead translate` gives the same text.",
        "把片段连起来，▁ 还原为空格。`clearhead translate` 给出同样的文本。",
    )
