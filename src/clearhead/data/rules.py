"""The rules of the data doctor: what can be wrong with a corpus, how bad it is, and how a single pair shows it.

`data check` reports by these rules and `data filter` drops by them. `RULES` holds every one; `PairRules` applies those
that need nothing but the pair. What needs the whole corpus stands in `traces.py` (lengths, repetitions), `sides.py`
(languages) and `overlap.py` (held-out text).
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from clearhead.data.scripts import ScriptRule, chinese_form
from clearhead.formats.lines import LONGEST_LINE
from clearhead.text.languages import language
from clearhead.text.placeholders import find_placeholders

__all__ = ["LONGEST", "PAIR_RULES", "RATIO_FACTOR", "RULES", "Level", "PairRules", "Rule"]

Level = Literal["error", "warning", "note"]
LONGEST = 1000
"""Characters that a side may have. It is some 250 tokens, about what training takes (`DataConfig.max_length`)."""
RATIO_FACTOR = 3.0


@dataclass(frozen=True)
class Rule:
    """A thing that can be found: its name, its level, what follows from it, and whether it is a property of a pair.

    The level is "error" (training refuses it, or scores become worthless), "warning" (the model learns badly from it)
    or "note" (worth knowing); `refused` says that training refuses the whole file.
    """

    name: str
    level: Level
    meaning: str
    of_pair: bool = True
    refused: bool = False


_FOREIGN = "most of its letters are of another script than its language's"
_OTHER_SIDE = "it reads like the other side's language, as trigrams of letters learnt from this corpus tell"
_ALL = (
    Rule(
        "line counts differ", "error", "the files are not aligned; training refuses them", of_pair=False, refused=True
    ),
    Rule("no pairs", "error", "there is nothing to train on", of_pair=False, refused=True),
    Rule(
        "sides may be shifted",
        "error",
        "the lines of the two sides seem not to belong together; the model learns noise",
        of_pair=False,
    ),
    Rule(
        "no tab",
        "error",
        "a line without the tab before its translation is no pair; training refuses it",
        of_pair=False,
        refused=True,
    ),
    Rule(
        "not UTF-8", "error", "training refuses the file; convert it (iconv -f … -t UTF-8)", of_pair=False, refused=True
    ),
    Rule(
        "endless line",
        "error",
        f"over {LONGEST_LINE >> 20} MiB; training refuses it, and what follows was not checked",
        of_pair=False,
        refused=True,
    ),
    Rule("damaged archive", "error", "fetch or pack the file again", of_pair=False, refused=True),
    Rule(
        "damaged file",
        "error",
        "what comes after it was not checked; training refuses the file",
        of_pair=False,
        refused=True,
    ),
    Rule("empty source", "warning", "training drops the pair"),
    Rule("empty target", "warning", "training drops the pair"),
    Rule("needs review", "warning", "nobody has approved the translation; training leaves it out"),
    Rule("identical sides", "warning", "the source seems not to be translated; the model learns to copy"),
    Rule(
        "length ratio", "warning", f"the sides differ in length {RATIO_FACTOR:g} times more or less than is usual here"
    ),
    Rule(
        "too long", "warning", f"a side has more than {LONGEST:,} characters; training drops what has too many tokens"
    ),
    Rule("wrong source script", "warning", _FOREIGN),
    Rule("wrong target script", "warning", _FOREIGN),
    Rule("wrong source language", "warning", _OTHER_SIDE),
    Rule("wrong target language", "warning", _OTHER_SIDE),
    Rule("placeholders differ", "warning", "the sides do not have the same ones; the model learns to lose them"),
    Rule("tags not nested", "warning", "the tags of the target close in another order than they open"),
    Rule("mojibake", "warning", "UTF-8 that was read as Latin-1, or signs that a conversion could not read"),
    Rule("control character", "warning", "it belongs to no text and may be the trace of a damaged file"),
    Rule("duplicate pair", "note", "the pair came before; it is learnt with more weight"),
    Rule("other translation", "note", "the source came before with another target"),
    Rule(
        "near-duplicate source", "note", "the source came before with other digits, placeholders, case or punctuation"
    ),
    Rule(
        "other Chinese characters", "note", "simplified where the language is written in traditional ones, or reversed"
    ),
    Rule("held-out text in corpus", "error", "text of the held-out file is also trained on; scores on it mean nothing"),
    Rule("held-out text nearly in corpus", "warning", "all but digits, placeholders, case, punctuation is the same"),
    Rule("held-out target in corpus", "note", "other sources have the same translation"),
    Rule("odd character", "note", "some tools end a line here; clearhead does not", of_pair=False),
    Rule("byte order mark", "note", "dropped when read", of_pair=False),
    Rule("CRLF line ends", "note", "the carriage return is dropped when read", of_pair=False),
    Rule("no final line end", "note", "the last line may be cut short", of_pair=False),
)
RULES = {rule.name: rule for rule in _ALL}
PAIR_RULES = tuple(rule.name for rule in _ALL if rule.of_pair)
"""The names of those by which pairs can be dropped, the order being that of reports."""

# Characters at which other tools end a line are an "odd character" of their own.
_CONTROL = re.compile("[\x00-\x08\x0e-\x1b\x1f\x7f-\x84\x86-\x9f]")
# What the bytes 0x80 to 0xBF become when UTF-8 is read as Latin-1 or as Windows-1252.
_HIGH = "\x80-\xbf€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ"
# Letters of western Europe and signs of punctuation begin with Ã, Â and â€. An Ã or Â that ends a word in capitals,
# before a quotation mark or a dash, is none.
_PUNCTUATION = "\xa0«»‘’“”‚„‹›–—…"
_MOJIBAKE = re.compile(
    f"\ufffd|[ÃÂ](?![{_PUNCTUATION}])[{_HIGH}]|(?<![A-ZÀ-Þ])[ÃÂ][{_PUNCTUATION}]|â€[{_HIGH}]|â\x80[\x80-\xbf]|ï»¿"
)
_TWO_OR_MORE = re.compile(f"(?:[Â-ß][{_HIGH}]|[à-ï][{_HIGH}]{{2}}|[ð-ô][{_HIGH}]{{3}}){{2}}")
_MARKUP = re.compile(r"[{%<]")
_TAG = re.compile(r"</?([A-Za-z][\w:.-]{0,64})")
_POSITION = re.compile(r"(?<=^%)[0-9]{1,2}\$")
_VOID = frozenset(("area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "wbr"))


class PairRules:
    """The rules that look at a single pair. Without `languages` (codes) nothing is said about scripts."""

    def __init__(self, languages: tuple[str, str] | None = None, *, longest: int = LONGEST) -> None:
        scripts = [language(code).script for code in languages] if languages else ["", ""]
        self.longest = longest
        self._scripts = ScriptRule(scripts[0]), ScriptRule(scripts[1])
        chinese = [code.partition("-")[0] in ("zh", "yue") for code in languages or ("", "")]
        self._forms = [script if is_chinese else "" for script, is_chinese in zip(scripts, chinese, strict=True)]

    @property
    def tells_scripts(self) -> bool:
        """Whether the two languages are written in scripts that are known and differ."""
        first, second = self._scripts
        han = {"Hans", "Hant"}
        return first.known and second.known and first != second and {first.script, second.script} != han

    def broken(self, source: str, target: str) -> Iterator[str]:
        """The names of the rules that the pair breaks. A pair with a blank side breaks no rule that compares sides."""
        blank = not source.strip(), not target.strip()
        if blank[0]:
            yield "empty source"
        if blank[1]:
            yield "empty target"
        if len(source) > self.longest or len(target) > self.longest:
            yield "too long"
        yield from self._damage(source, target)
        if any(blank):
            return
        if source == target:
            yield "identical sides"
            return
        yield from self._scripts_broken(source, target)
        if (_MARKUP.search(source) or _MARKUP.search(target)) and (name := _markup(source, target)):
            yield name

    def _damage(self, source: str, target: str) -> Iterator[str]:
        if not (source.isprintable() and target.isprintable()) and (_CONTROL.search(source) or _CONTROL.search(target)):
            yield "control character"
        if not (source.isascii() and target.isascii()) and (_is_mojibake(source) or _is_mojibake(target)):
            yield "mojibake"

    def _scripts_broken(self, source: str, target: str) -> Iterator[str]:
        for side, rule, text in zip(("source", "target"), self._scripts, (source, target), strict=True):
            if rule.foreign(text):
                yield f"wrong {side} script"
        if any(
            form and chinese_form(text) not in ("", form)
            for form, text in zip(self._forms, (source, target), strict=True)
        ):
            yield "other Chinese characters"


def _is_mojibake(text: str) -> bool:
    return not text.isascii() and bool(_MOJIBAKE.search(text) or _TWO_OR_MORE.search(text))


def _markup(source: str, target: str) -> str:
    """The name of the rule that the placeholders and tags of a pair break; empty if they break none."""
    ours, theirs = _placeholders(source), _placeholders(target)
    if Counter(ours) != Counter(theirs):
        return "placeholders differ"
    return "tags not nested" if _nested(ours) and not _nested(theirs) else ""


def _placeholders(text: str) -> list[str]:
    """Placeholders as far as they must agree: tags without attributes, printf forms without positions, no entities.

    A link may lead to another page in each language, `%2$s` is how a translation changes the order, and whether a
    sign is written as an entity is a matter of taste.
    """
    found = []
    for text_of_one in find_placeholders(text):
        if text_of_one[0] == "&":
            continue
        if tag := _TAG.match(text_of_one):
            void = tag[0].lower().removeprefix("<") in _VOID  # <br> in HTML is <br/> in XHTML
            end = "/>" if text_of_one.endswith("/>") and not void else ">"
            found.append(tag[0].lower() + end)
        else:
            found.append(_POSITION.sub("", text_of_one).replace(" ", ""))
    return found


def _nested(placeholders: list[str]) -> bool:
    open_tags: list[str] = []
    for each in placeholders:
        name = each.strip("</>")
        if each[0] != "<" or each.endswith("/>") or name in _VOID:
            continue
        if not each.startswith("</"):
            open_tags.append(name)
        elif not open_tags or open_tags.pop() != name:
            return False
    return not open_tags
