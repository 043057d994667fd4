"""Text in figures: roles, a little maths and CJK, measured and drawn as SVG. One unit is a sixteenth of an em."""

from __future__ import annotations

import html
import re
import unicodedata
from dataclasses import dataclass

from handbook.numbers import NUMBER_ROLE, tooltip, typeset

__all__ = ["EM", "Run", "draw", "escape", "measure", "plain", "read_runs"]

EM = 16.0
_SYMBOLS = {
    "top": "⊤", "sqrt": "√", "cdot": "·", "times": "×", "sum": "∑", "in": "∈", "to": "→", "infty": "∞", "le": "≤",
    "ge": "≥", "ldots": "…", "dots": "…", "cdots": "⋯", "odot": "⊙", "oplus": "⊕", "partial": "∂", "alpha": "α",
    "beta": "β", "gamma": "γ", "delta": "δ", "epsilon": "ε", "varepsilon": "ε", "theta": "θ", "lambda": "λ", "mu": "μ",
    "pi": "π", "sigma": "σ", "tau": "τ", "phi": "φ", "omega": "ω", "Sigma": "Σ", "Delta": "Δ", "rightarrow": "→",
    "leftarrow": "←", "prime": "′", "approx": "≈", "neq": "≠", "quad": "\u2003", "mid": "∣", "max": "max", "exp": "exp",
    "log": "log", "ln": "ln", "tanh": "tanh", "sin": "sin", "cos": "cos",
}  # fmt: skip
_ACCENTS = {"hat": "\u0302", "tilde": "\u0303", "bar": "\u0304", "vec": "\u20d7", "overrightarrow": "\u20d7"}
_ACCENTS["overleftarrow"] = "\u20d6"
_UPRIGHT = {"mathrm", "text", "operatorname", "mathbf", "mathit"}
_INLINE = re.compile(rf"(?P<role>{NUMBER_ROLE.pattern})|\$(?P<maths>[^$]+)\$|\*\*(?P<bold>[^*]+)\*\*|`(?P<code>[^`]+)`")
_INDEX = re.compile(r"(?<![A-Za-z0-9_^])([A-Za-z]{1,2})([_^])(\{[^}]+\}|[A-Za-z0-9]{1,5})(?![A-Za-z0-9_^])")
_TOKEN = re.compile(r"\\([A-Za-z]+)\s*|\\(.)|([_^])|(\{)|(\})|(\s+)|(.)", re.DOTALL)
_NARROW, _BROAD = set("ilj.,:;|'!()[]{}ft·"), set("mwMW@%∑→←—")


@dataclass(frozen=True)
class Run:
    """A piece of text in one style: italic, bold, code, fact, cited, wrong, shape. Shift −1 is an index, 1 a power."""

    text: str
    style: str = ""
    shift: int = 0
    tip: str = ""
    fact: str = ""


def escape(text: str) -> str:
    """Text for an element or an attribute."""
    return html.escape(text, quote=True)


def read_runs(text: str, language: str | None = None) -> list[Run]:
    """Split a line of a figure into runs. Raises ValueError for maths or numbers that cannot be drawn."""
    runs: list[Run] = []
    end = 0
    for match in _INLINE.finditer(text):
        runs += _indexed(text[end : match.start()])
        end = match.end()
        if match["role"]:
            kind, shown, identifier = NUMBER_ROLE.fullmatch(match["role"]).groups()
            tip = tooltip(kind, identifier, language)
            if tip is None:
                raise ValueError(f"{{{kind}}} knows no id {identifier!r}")
            runs.append(Run(typeset(shown), kind, 0, tip, identifier))
        elif match["maths"]:
            runs += _maths(match["maths"])
        else:
            runs.append(Run(match["bold"] or match["code"], "bold" if match["bold"] else "code"))
    runs += _indexed(text[end:])
    return [run for run in runs if run.text]


def _indexed(text: str) -> list[Run]:
    """Words in which `d_k` and `W^O` are drawn with an index and a power."""
    runs: list[Run] = []
    end = 0
    for match in _INDEX.finditer(text):
        runs += [Run(text[end : match.start()] + match[1]), Run(match[3].strip("{}"), "", -1 if match[2] == "_" else 1)]
        end = match.end()
    return [*runs, Run(text[end:])]


def _maths(latex: str) -> list[Run]:
    runs: list[Run] = []
    rest = latex
    while rest:
        piece, rest = _atom(rest)
        if piece and piece[0].text in "_^" and piece[0].shift == 9:
            sign = -1 if piece[0].text == "_" else 1
            piece, rest = _atom(rest)
            piece = [Run(run.text, run.style, sign) for run in piece]
        runs += piece
    return runs


def _atom(rest: str) -> tuple[list[Run], str]:
    """The first symbol, group or command of a formula, and what follows it; 9 marks the signs of index and power."""
    match = _TOKEN.match(rest)
    if match is None:
        raise ValueError("a formula of a figure ends too early")
    command, escaped, sign, opening, closing, blank, letter = match.groups()
    rest = rest[match.end() :]
    if blank or closing:
        return [], rest
    if opening:
        return _group(rest)
    if sign:
        return [Run(sign, "", 9)], rest
    if letter or escaped:
        text = letter or (" " if escaped in ",;: " else escaped)
        return [Run("−" if text == "-" else text, "italic" if text.isascii() and text.isalpha() else "")], rest
    return _command(command, rest)


def _command(command: str, rest: str) -> tuple[list[Run], str]:
    if command in {"left", "right"}:
        return _atom(rest)
    if command in _SYMBOLS:
        return [Run(_SYMBOLS[command])], rest
    if command not in _UPRIGHT | _ACCENTS.keys() | {"mathbb", "frac"}:
        raise ValueError(f"figures do not know \\{command}")
    inside, rest = _atom(rest)
    if command == "mathbb":
        runs = [Run("ℝ" if run.text == "R" else run.text) for run in inside]
    elif command in _UPRIGHT:
        runs = [Run(run.text, "" if command != "mathbf" else "bold", run.shift) for run in inside]
    elif command in _ACCENTS:
        runs = [*inside[:-1], *(Run(run.text + _ACCENTS[command], run.style) for run in inside[-1:])]
    else:
        below, rest = _atom(rest)
        runs = [*inside, Run("/"), *below]
    return runs, rest


def _group(rest: str) -> tuple[list[Run], str]:
    depth = 1
    for place, letter in enumerate(rest):
        depth += (letter == "{") - (letter == "}")
        if depth == 0:
            return _maths(rest[:place]), rest[place + 1 :]
    raise ValueError("a brace is not closed")


def plain(runs: list[Run]) -> str:
    """The text of the runs, for a title."""
    return "".join(run.text for run in runs)


def _advance(letter: str) -> float:
    if unicodedata.combining(letter):
        return 0.0
    if unicodedata.east_asian_width(letter) in "WF":
        return 1.0
    if letter in _NARROW:
        return 0.34
    if letter in _BROAD:
        return 0.88
    if letter == " ":
        return 0.29
    return 0.69 if letter.isupper() else 0.58


def measure(runs: list[Run], size: float) -> float:
    """About how wide the runs are at a font size, in units."""
    return sum(size * (0.74 if run.shift else 1.0) * sum(map(_advance, run.text)) for run in runs)


def draw(runs: list[Run], x: float, y: float, size: float, marks: str = "", anchor: str = "middle") -> str:
    """A `text` element with its baseline at y."""
    parts: list[str] = []
    lifted = 0.0
    for run in runs:
        wanted = -0.34 * size * run.shift if run.shift > 0 else -0.22 * size * run.shift
        inner = f"<title>{escape(run.tip)}</title>{escape(run.text)}" if run.tip else escape(run.text)
        attributes = f' class="{run.style}"' if run.style else ""
        attributes += f' data-fact="{escape(run.fact)}"' if run.fact else ""
        attributes += f' font-size="{0.74 * size:.4g}"' if run.shift else ""
        attributes += f' dx="{size / 2:g}"' if run.style == "shape" else ""
        attributes += f' dy="{wanted - lifted:.3g}"' if wanted != lifted else ""
        lifted = wanted
        parts.append(f"<tspan{attributes}>{inner}</tspan>" if attributes else inner)
    marks = f' class="{marks}"' if marks else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size:g}" text-anchor="{anchor}"{marks}>{"".join(parts)}</text>'
