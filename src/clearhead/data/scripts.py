"""Which script a text is written in, counted over its letters.

A script is told by the Unicode name of a character ("CYRILLIC SMALL LETTER A"). Signs that all scripts share (digits,
punctuation, mathematical letters) are of none. Names, code and addresses in Latin letters are usual in every language,
so that they alone make no text foreign unless there are many of them and hardly anything else.
"""

import re
import unicodedata
from dataclasses import dataclass

from clearhead.text.placeholders import strip_placeholders

__all__ = ["ScriptRule", "chinese_form", "plain_words", "script_counts"]

# The marks that stand for a script while its letters are counted, by the first word of Unicode's names.
_MARKS = {
    "LATIN": "L",
    "CYRILLIC": "C",
    "GREEK": "G",
    "CJK": "H",
    "HIRAGANA": "J",
    "KATAKANA": "J",
    "HANGUL": "K",
    "BOPOMOFO": "P",
    "ARABIC": "A",
    "HEBREW": "E",
    "ARMENIAN": "M",
    "GEORGIAN": "g",
    "DEVANAGARI": "d",
    "BENGALI": "b",
    "GURMUKHI": "u",
    "GUJARATI": "j",
    "ORIYA": "o",
    "TAMIL": "t",
    "TELUGU": "e",
    "KANNADA": "k",
    "MALAYALAM": "m",
    "SINHALA": "s",
    "THAI": "h",
    "LAO": "l",
    "TIBETAN": "T",
    "MYANMAR": "y",
    "KHMER": "r",
    "ETHIOPIC": "i",
    "MONGOLIAN": "n",
}
_NAMES = {mark: word.title() for word, mark in _MARKS.items()} | {"H": "Han", "J": "Kana"}
# ISO 15924 codes of text/languages.py: the marks that their text is made of.
_SCRIPTS = {
    "Latn": "L",
    "Cyrl": "C",
    "Grek": "G",
    "Hans": "HP",
    "Hant": "HP",
    "Hani": "HP",
    "Jpan": "HJ",
    "Kore": "KH",
    "Arab": "A",
    "Hebr": "E",
    "Armn": "M",
    "Geor": "g",
    "Deva": "d",
    "Beng": "b",
    "Guru": "u",
    "Gujr": "j",
    "Orya": "o",
    "Taml": "t",
    "Telu": "e",
    "Knda": "k",
    "Mlym": "m",
    "Sinh": "s",
    "Thai": "h",
    "Laoo": "l",
    "Tibt": "T",
    "Mymr": "y",
    "Khmr": "r",
    "Ethi": "i",
    "Mong": "n",
}
# A sign of these scripts is about as much text as three letters of an alphabet.
_DENSE = frozenset("HJK")
_ADDRESS = re.compile(r"[a-z]{2,8}://\S{1,2000}|[\w.+-]{1,64}@[\w.-]{2,200}|(?<!\S)\S{0,200}[/\\_=]\S{0,200}")

LEAST_FOREIGN = 12
LEAST_LATIN = 20
MOST_RIGHT = 0.4
MOST_RIGHT_BESIDE_LATIN = 0.1


class _Marks(dict[int, str | None]):
    """For str.translate: a letter becomes the mark of its script, anything else goes; filled as characters turn up."""

    def __missing__(self, code: int) -> str | None:
        character = chr(code)
        mark = None
        if unicodedata.category(character)[0] == "L":
            # Half and full width are properties of a sign, not scripts.
            words = re.split(r"[ -]", unicodedata.name(character, ""), maxsplit=2)
            word = words[1] if words[0] in ("FULLWIDTH", "HALFWIDTH") and len(words) > 1 else words[0]
            mark = _MARKS.get(word)
        self[code] = mark
        return mark


_TO_MARK = _Marks()


def plain_words(text: str) -> str:
    """The text without placeholders, addresses, file names and assignments, which are of no language.

    >>> plain_words("Open {url} or /etc/hosts").split()
    ['Open', 'or']
    """
    return _ADDRESS.sub(" ", strip_placeholders(text))


def script_counts(text: str) -> dict[str, int]:
    """How many letters of each script a text has, by mark; signs of Han, Kana and Hangul count three each.

    >>> {_NAMES[mark]: count for mark, count in script_counts("Wi-Fi 设置 3").items()}
    {'Latin': 4, 'Han': 6}
    """
    if text.isascii():
        letters = sum(map(text.count, "etaoinsrhldcumfpgwybvkxjqzETAOINSRHLDCUMFPGWYBVKXJQZ"))
        return {"L": letters} if letters else {}
    marks = text.translate(_TO_MARK)
    return {mark: marks.count(mark) * (3 if mark in _DENSE else 1) for mark in sorted(set(marks), key=marks.index)}


@dataclass(frozen=True)
class ScriptRule:
    """Whether a text is in the script of a language; `script` is a code of ISO 15924 such as "Cyrl" or "Jpan".

    A text is foreign if letters of other scripts prevail in it: at least `LEAST_FOREIGN` of them (a Chinese sign being
    three) and at most the share `MOST_RIGHT` of right ones. Where only Latin letters are in the way, names perhaps,
    there must be `LEAST_LATIN` outside placeholders, addresses and file names, and next to nothing else.
    """

    script: str

    @property
    def known(self) -> bool:
        """Whether the rule can say anything."""
        return self.script in _SCRIPTS

    def foreign(self, text: str) -> bool:
        """Whether the text is evidently written in another script."""
        right = _SCRIPTS.get(self.script, "")
        if not right or (text.isascii() and (right == "L" or len(text) < LEAST_LATIN)):
            return False
        return self._foreign(text, right) and self._foreign(plain_words(text), right)

    def _foreign(self, text: str, right: str) -> bool:
        counts = script_counts(text)
        ours = sum(counts.get(mark, 0) for mark in right)
        others = sum(counts.values()) - ours
        latin = 0 if "L" in right else counts.get("L", 0)
        if others - latin < LEAST_FOREIGN:
            return others >= LEAST_LATIN and ours <= MOST_RIGHT_BESIDE_LATIN * (ours + others)
        return ours <= MOST_RIGHT * (ours + others)


# Signs of the commonest words that are written in one way only, in the same order: simplified, traditional.
_SIMPLIFIED = (
    "们这个来说时对会过没还发为学国开关长东车马门问见现实点经样进给让头认设电网络连传输显视图书话读写买卖钱请谢谁爱"
)
_TRADITIONAL = (
    "們這個來說時對會過沒還發為學國開關長東車馬門問見現實點經樣進給讓頭認設電網絡連傳輸顯視圖書話讀寫買賣錢請謝誰愛"
)
_FORMS = {ord(s): "s" for s, t in zip(_SIMPLIFIED, _TRADITIONAL, strict=True) if s != t} | {
    ord(t): "t" for s, t in zip(_SIMPLIFIED, _TRADITIONAL, strict=True) if s != t
}
_FORM_SIGNS = re.compile("[" + "".join(map(chr, _FORMS)) + "]")


def chinese_form(text: str) -> str:
    """ "Hans" or "Hant" if a Chinese text has characters of that form of writing only; "" if it has none or both.

    Only some fifty common characters are looked at.

    >>> chinese_form("我们学会了"), chinese_form("我們學會了"), chinese_form("我")
    ('Hans', 'Hant', '')
    """
    if text.isascii():
        return ""
    found = {_FORMS[ord(sign)] for sign in _FORM_SIGNS.findall(text)}
    return {"s": "Hans", "t": "Hant"}[found.pop()] if len(found) == 1 else ""
