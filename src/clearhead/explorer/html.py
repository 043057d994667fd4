"""From steps to HTML: everything that is shown is escaped here, and readable without a script."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from html import escape

from clearhead.explorer.beam_picture import draw
from clearhead.explorer.content import (
    Both,
    Chances,
    Finals,
    Fold,
    Group,
    Item,
    Lattice,
    Matrix,
    Note,
    Operator,
    SearchTable,
    Sentence,
    Step,
    Tokens,
)
from clearhead.text.symbols import EOS, UNK

__all__ = ["both", "figure", "navigation", "number", "section"]

LEVELS = 10
"""How many shades a colour has: classes, since the page's policy forbids styles in attributes."""
SMALL, TINY = 0.1, 0.001
"""Below them numbers in a matrix have more than two decimals, or are written with a power of ten."""
WIDE = 12
"""Columns of a matrix that leaves no room beside it."""


def both(words: Both) -> str:
    """A text in its two languages; the page shows one of them."""
    if words.en == words.zh:
        return _inline(words.en)
    return (
        f'<span class="l-en" lang="en">{_inline(words.en)}</span>'
        f'<span class="l-zh" lang="zh-CN">{_inline(words.zh)}</span>'
    )


def number(value: float | None, digits: int = 2) -> str:
    """A number with a true minus sign; −0.00 is 0.00."""
    if value is None or value == -math.inf:
        return "−∞"
    text = f"{value:.{digits}f}"
    if float(text) == 0.0:
        text = text.lstrip("-")
    return text.replace("-", "−")


def figure(value: float, size: float) -> str:
    """A number among others as large as `size`: two decimals, or so many that `size` has two significant digits.

    >>> figure(0.123, 0.9), figure(-0.0033, 0.9), figure(-0.0033, 0.042), figure(0.0033, 0.0033), figure(2e-5, 1e-4)
    ('0.12', '0.00', '−0.003', '0.0033', '2e−5')
    """
    if value == 0.0 or not SMALL > size > 0.0:
        return number(value)
    if size < TINY:
        return f"{value:.0e}".replace("e-0", "e-").replace("-", "−")
    return number(value, 1 - math.floor(math.log10(size)))


def navigation(groups: Iterable[Group]) -> str:
    """A list of links to the steps, by group."""
    parts = []
    for group in groups:
        links = "".join(f'<li><a href="#{step.name}">{both(step.title)}</a></li>' for step in group.steps)
        parts.append(f"<li><span>{both(group.title)}</span><ol>{links}</ol></li>")
    return f"<ol>{''.join(parts)}</ol>"


def section(group: Group, step: Step) -> str:
    """One step: heading, words, formula and its variants."""
    before = f'<div class="flow before">{_flow(step.before)}</div>' if step.before else ""
    formula = f'<p class="formula">{_symbol(step.formula)}</p>' if step.formula else ""
    return (
        f'<section class="step" id="{step.name}" aria-labelledby="{step.name}-title">'
        f'<p class="group">{both(group.title)}</p><h2 id="{step.name}-title" tabindex="-1">{both(step.title)}</h2>'
        f'<p class="words">{both(step.words)}</p>{formula}{before}{_variants(step)}</section>'
    )


def _variants(step: Step) -> str:
    if len(step.variants) == 1:
        variant = step.variants[0]
        label = f"<h3>{both(variant.label)}</h3>" if variant.label.en else ""
        return f'{label}<div class="{_flow_kind(variant.items)}">{_flow(variant.items)}</div>'
    # Without a script each has its heading; a script makes tabs of the headings.
    return (
        '<div class="variants">'
        + "".join(
            f'<div class="variant" id="{step.name}-{place}"><h3>{both(variant.label)}</h3>'
            f'<div class="{_flow_kind(variant.items)}">{_flow(variant.items)}</div></div>'
            for place, variant in enumerate(step.variants, start=1)
        )
        + "</div>"
    )


def _flow(items: tuple[Item, ...]) -> str:
    """The items; an operator stays behind what it starts from when a line is full, so that every line has one edge."""
    parts: list[str] = []
    for item in items:
        if isinstance(item, Operator):
            parts[-1] = f'<div class="pair">{parts[-1]}{_item(item)}</div>'
        else:
            parts.append(_item(item))
    return "".join(parts)


def _flow_kind(items: tuple[Item, ...]) -> str:
    """Wide matrices stand below each other, with what joins them in between."""
    wide = any(isinstance(item, Matrix) and len(item.values[0]) >= WIDE for item in items)
    return "flow stacked" if wide else "flow"


def _item(item: Item) -> str:  # noqa: PLR0911 (one return a kind)
    match item:
        case Matrix():
            return _matrix(item)
        case Operator():
            return _operator(item)
        case Note():
            return f'<p class="note">{both(item.words)}</p>'
        case Sentence():
            return _sentence(item)
        case Fold():
            inside = "".join(map(_item, item.items))
            return f"<details><summary>{both(item.summary)} <b>{_symbol(item.symbol)}</b></summary>{inside}</details>"
        case Tokens():
            return _tokens(item)
        case Chances():
            return _chances(item)
        case SearchTable():
            return _search(item)
        case Finals():
            return _finals(item)
        case Lattice():
            return _lattice(item)


def _operator(operator: Operator) -> str:
    words = f"<small>{both(operator.words)}</small>" if operator.words is not None else ""
    return f'<div class="operator"><span>{_symbol(operator.sign)}</span>{words}</div>'


def _sentence(sentence: Sentence) -> str:
    return (
        f'<figure class="sentence"><figcaption>{both(sentence.caption)}</figcaption>'
        f'<p lang="{escape(sentence.code)}" dir="auto" translate="no">{escape(sentence.text)}</p></figure>'
    )


def _matrix(matrix: Matrix) -> str:
    scale = max((abs(cell) for row in matrix.values for cell in row if cell is not None), default=0.0)
    columns = matrix.columns or tuple(str(place + 1) for place in range(len(matrix.values[0])))
    kind = "named" if matrix.columns is not None else "numbered"
    heads = "".join(f"<th scope=col>{_piece(name)}" for name in columns)
    # HTML lets these elements end by themselves; a page has some ten thousand of them.
    body = "".join(
        f"<tr><th scope=row>{_piece(name)}{''.join(_cell(cell, matrix, scale) for cell in row)}"
        for name, row in zip(matrix.rows, matrix.values, strict=True)
    )
    own, shape = _id(matrix), f"{matrix.shape[0]} × {matrix.shape[1]}"
    return (
        f'<figure class="matrix {kind}"><figcaption id="{own}-c"><b>{_symbol(matrix.symbol)}</b> '
        f'{both(matrix.caption)} <span class="shape">{shape}</span></figcaption>'
        f'<div class="scroll"><table id="{own}" data-name="{escape(matrix.name)}" aria-labelledby="{own}-c" '
        f'translate="no"><thead><tr><td>{heads}<tbody>{body}</table></div>{_summary(matrix)}</figure>'
    )


def _cell(cell: float | None, matrix: Matrix, scale: float) -> str:
    if cell is None:
        return f"<td class=hidden>{'0' if matrix.scale == 'share' else number(None)}"
    if matrix.scale == "mask":
        return "<td>0"
    share = abs(cell) if matrix.scale == "share" else abs(cell) / scale if scale > 0 else 0.0
    level = min(LEVELS, round(share * LEVELS)) if math.isfinite(share) else 0
    sign = "s" if matrix.scale == "share" else "p" if cell >= 0 else "n"
    shade = f" class={sign}{level}" if level else ""
    # Shares differ by powers of ten, and each has digits of its own; elsewhere the columns stay in line.
    return f"<td{shade}>{figure(cell, cell if matrix.scale == 'share' else scale)}"


def _summary(matrix: Matrix) -> str:
    if matrix.scale == "mask":
        return ""
    part = ""
    if not matrix.whole:
        rows, columns = len(matrix.values), len(matrix.values[0])
        part = both(Both(f"shown: first {rows} × {columns} · ", f"仅示前 {rows} × {columns} · "))
    smallest, largest, norm = (figure(each, abs(each)) for each in (matrix.smallest, matrix.largest, matrix.norm))
    figures = f"{smallest} … {largest} · {both(Both('norm', '范数'))} {norm}"
    return f'<p class="summary">{part}{figures}</p>'


def _tokens(tokens: Tokens) -> str:
    written = iter(tokens.unknown)
    cards = []
    for piece, own in zip(tokens.pieces, tokens.ids, strict=True):
        surface = next(written, "") if own == UNK else ""
        told = f'<span class="unknown"><bdi>{escape(surface)}</bdi></span>' if surface else ""
        cards.append(f'<li><bdi>{escape(piece)}</bdi>{told}<span class="id">{own}</span></li>')
    return f'<ol class="tokens" translate="no">{"".join(cards)}</ol>'


def _chances(found: Chances) -> str:
    rows = "".join(
        f'<tr{" class=chosen" if each.chosen else ""}><th scope="row">{_piece(each.piece)}</th>'
        f"<td>{number(each.logit)}</td><td>{number(each.probability, 4)}</td><td>{_bar(each.probability)}</td></tr>"
        for each in found.chances
    )
    place = both(Both(f"position {found.position}: after", f"位置 {found.position}：在"))
    end = both(Both("", "之后"))
    names = (both(Both("token", "词元")), "logit", "p")
    head = f"<tr>{''.join(f'<th scope=col>{name}</th>' for name in names)}<td></td></tr>"
    return (
        f'<figure class="chances" translate="no"><figcaption>{place} {_piece(found.after)} {end}</figcaption>'
        f"<table><thead>{head}</thead><tbody>{rows}</tbody></table></figure>"
    )


def _bar(share: float) -> str:
    width = f"{max(0.0, min(1.0, share)) * 100:.1f}"
    return (
        '<svg class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect width="{width}" height="8"/></svg>'
    )


FATES = {
    "kept": Both("lives on", "保留"),
    "finished": Both("finished", "完成"),
    "dropped": Both("dropped", "舍弃"),
}


def _search(table: SearchTable) -> str:
    names = table.vocabulary
    heads = (
        Both("hypothesis", "候选译文"),
        Both("next", "下一个"),
        Both("log p", "log p"),
        Both("sum", "累计"),
        Both("what becomes of it", "去向"),
        Both("score", "得分"),
    )
    rows = []
    for each in table.step.candidates:
        before = each.tokens if each.token == EOS else each.tokens[:-1]
        written = " ".join(_piece(names[token]) for token in before) or "<bdi>&lt;s&gt;</bdi>"
        score = "" if each.score is None else number(each.score, 4)
        rows.append(
            f'<tr class="{each.fate}"><td class="text">{written}</td><th scope="row">{_piece(names[each.token])}</th>'
            f"<td>{number(each.token_log_prob, 4)}</td><td>{number(each.log_prob, 4)}</td>"
            f"<td class=fate>{both(FATES[each.fate])}</td><td>{score}</td></tr>"
        )
    return _table("search", heads, rows)


def _lattice(lattice: Lattice) -> str:
    return (
        f'<figure class="picture" translate="no"><figcaption id="beam-c">{both(lattice.caption)}</figcaption>'
        f'<div class="scroll" tabindex="0">{draw(lattice, "beam-c")}</div></figure>'
    )


def _finals(finals: Finals) -> str:
    heads = (
        Both("hypothesis", "候选译文"),
        Both("log P", "log P"),
        Both("|Y|", "|Y|"),
        Both("divisor", "除数"),
        Both("score", "得分"),
        Both("", ""),
    )
    rows = []
    for pieces, log_prob, length, divided, score, chosen in finals.rows:
        mark = both(Both("the translation", "译文")) if chosen else ""
        rows.append(
            f'<tr{" class=chosen" if chosen else ""}><th scope="row" class="text">'
            f"{' '.join(map(_piece, pieces)) or '∅'}</th><td>{number(log_prob, 4)}</td>"
            f"<td>{length}</td><td>{number(divided, 4)}</td><td>{number(score, 4)}</td><td "
            f"class=fate>{mark}</td></tr>"
        )
    return _table("search", heads, rows)


def _table(kind: str, heads: Iterable[Both], rows: Iterable[str]) -> str:
    names = "".join(f'<th scope="col">{both(each)}</th>' if each.en else "<td></td>" for each in heads)
    return (
        f'<div class="scroll" tabindex="0"><table class="{kind}" translate="no"><thead><tr>{names}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )


def _piece(piece: str) -> str:
    """A token by name, whichever way it is written; long ones are cut by the style sheet, and whole in the tooltip."""
    whole = f' title="{escape(piece)}"' if len(piece) > 8 else ""
    return f"<bdi{whole}>{escape(piece)}</bdi>"


def _inline(text: str) -> str:
    coded = re.sub(r"`([^`]*)`", r"<code>\1</code>", escape(text, quote=False))
    return re.sub(r"\b([A-Z])_([A-Z])\b", r"\1<sub>\2</sub>", coded)


def _symbol(text: str) -> str:
    """`W_Q` with its subscript."""
    return re.sub(r"_([A-Za-z]+)", r"<sub>\1</sub>", escape(text, quote=False))


def _id(matrix: Matrix) -> str:
    return "m-" + re.sub(r"[^a-z0-9]+", "-", matrix.name.lower())
