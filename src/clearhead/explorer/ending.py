"""The steps of a walk-through around its layers: the overview, the probabilities, the search and the translation."""

from __future__ import annotations

from typing import Any

from clearhead.decoding.penalties import divisor, formula
from clearhead.explorer import words
from clearhead.explorer.content import (
    Both,
    Chance,
    Chances,
    Finals,
    Group,
    Item,
    Lattice,
    Look,
    Matrix,
    Note,
    SearchTable,
    Sentence,
    Step,
    Tokens,
    Variant,
    Window,
)
from clearhead.explorer.words import CAPTIONS, TITLES
from clearhead.models.build import count_parameters
from clearhead.recipes.walk import Walk
from clearhead.text.languages import language
from clearhead.text.symbols import EOS

__all__ = ["output_group", "overview_group", "search_group"]

PLAIN = Both("", "")
LIKELIEST = 5
WIDEST_DRAWN = 12
CHINESE_NAMES = {
    "zh": "中文",
    "en": "英文",
    "de": "德文",
    "fr": "法文",
    "es": "西班牙文",
    "ru": "俄文",
    "ja": "日文",
    "ko": "韩文",
    "it": "意大利文",
    "pt": "葡萄牙文",
    "ar": "阿拉伯文",
}


def overview_group(walk: Walk) -> Group:
    """What is translated, into what, by what."""
    source, target = (language(code).name for code in walk.languages)
    first: Any = walk.model.get_submodule("encoder.layers.0.attention")
    depths = [len(list(walk.model.get_submodule(f"{stack}.layers").children())) for stack in ("encoder", "decoder")]
    width = first.query.weight.shape[1]
    count = count_parameters(walk.model)
    layers = " + ".join(f"{depth}" for depth in depths)
    told = Both(
        f"A Transformer with {layers} layers (encoder + decoder), d = {width}, {first.heads} heads and {count:,} "
        f"parameters translates this sentence from {source} to {target}. Every number on this page is the "
        f"model's own, "
        "taken while it worked. Go on with the buttons below or the arrow keys.",
        f"一个 {layers} 层（编码器 + 解码器）、d = {width}、{first.heads} 个头、共 {count:,} 个参数的 "
        f"Transformer 把这句话从"
        f"{_chinese(walk.languages[0])}译成{_chinese(walk.languages[1])}。"
        f"本页的每个数字都是模型工作时取下的真实数值。"
        "用下方按钮或方向键前进。",
    )
    rows: tuple[Item, ...] = (
        Sentence(Both("source", "原文"), walk.text, walk.languages[0]),
        Sentence(Both("translation", "译文"), walk.translation, walk.languages[1]),
    )
    if walk.asked:
        rows += (
            Sentence(Both("target that is walked through", "本页所走的译文"), walk.walked_text, walk.languages[1]),
        )
    caution = Note(
        Both(
            "Attention weights say what was read, not why the model decides: they are not an explanation by "
            "themselves.",
            "注意力权重说明读了哪里，并不说明模型为何如此决定：单凭它们不构成解释。",
        )
    )
    step = Step("overview", TITLES["overview"], told, (Variant(PLAIN, (*rows, caution)),))
    return Group(TITLES["overview"], (step,))


def output_group(walk: Walk, window: Window) -> Group:
    """Logits and probabilities after every position."""
    replay = walk.replay
    probabilities, logits = replay.log_probs.exp(), replay.logits
    cards: list[Item] = []
    shown = range(min(len(replay.gold), window.whole_rows))
    for position in shown:
        gold = replay.gold[position]
        likeliest = probabilities[position].topk(min(LIKELIEST, len(walk.vocabulary))).indices.tolist()
        ids = likeliest if gold in likeliest else [*likeliest[:-1], gold]
        chances = tuple(
            Chance(
                walk.vocabulary[token],
                float(logits[position, token]),
                float(probabilities[position, token]),
                token == gold,
            )
            for token in ids
        )
        cards.append(Chances(walk.prefix_pieces[position], position, chances))
    hidden = Matrix.of("decoder.hidden", "H", CAPTIONS["hidden"], replay.hidden, Look(window, walk.prefix_pieces))
    step = Step(
        "logits",
        TITLES["logits"],
        words.logits_words(len(walk.vocabulary)),
        (Variant(PLAIN, (hidden, *cards)),),
        "logits = H·W_outᵀ   p = softmax(logits)",
    )
    return Group(TITLES["output"], (step,))


def search_group(walk: Walk) -> Group:
    """The beam, the finished hypotheses, and the translation."""
    config, account = walk.config, walk.account
    steps = tuple(
        Variant(words.search_step(number), (SearchTable(step, walk.vocabulary),))
        for number, step in enumerate(account.steps, start=1)
    )
    lattice = Lattice(CAPTIONS["beam"], account, walk.best.tokens, walk.vocabulary)
    picture = (lattice,) if config.beam <= WIDEST_DRAWN else ()
    finals = Finals(
        tuple(
            (
                tuple(walk.vocabulary[token] for token in each.tokens),
                each.log_prob,
                len(each.tokens) + 1,
                divisor(config.penalty, config.alpha, len(each.tokens) + 1),
                each.score or 0.0,
                any(each.tokens == one.tokens for one in account.hypotheses),
            )
            for each in account.finished
        )
    )
    pieces = tuple(walk.vocabulary[token] for token in (*walk.best.tokens, EOS))
    result: tuple[Item, ...] = (
        Tokens(TITLES["result"], pieces, (*walk.best.tokens, EOS)),
        Sentence(Both("translation", "译文"), walk.translation, walk.languages[1]),
    )
    return Group(
        TITLES["search"],
        (
            Step("search", TITLES["steps"], words.search_words(config.beam), steps, before=picture),
            Step("finals", TITLES["finals"], words.finals_words(formula(config)), (Variant(PLAIN, (finals,)),)),
            Step("result", TITLES["result"], words.result_words(), (Variant(PLAIN, result),)),
        ),
    )


def _chinese(code: str) -> str:
    """A language's Chinese name, where we know it; its code elsewhere."""
    return CHINESE_NAMES.get(code, f" {code} ")
