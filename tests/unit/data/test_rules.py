import time

import pytest

from clearhead.data.rules import PAIR_RULES, RULES, PairRules

GERMAN = PairRules(("en", "de"))
CHINESE = PairRules(("en", "zh"))


def broken(source: str, target: str, rules: PairRules = GERMAN) -> list[str]:
    return list(rules.broken(source, target))


@pytest.mark.parametrize(
    ("source", "target", "rule"),
    [
        ("", "leer", "empty source"),
        ("empty", " \t\u3000", "empty target"),
        ("OK", "OK", "identical sides"),
        ("long", "x" * 1001, "too long"),
        ("Hello, how are you?", "Привет, как у тебя дела?", "wrong target script"),
        ("我们今天去哪里吃饭？", "Wohin gehen wir essen?", "wrong source script"),
        ("Hi {name}", "Hallo {Name}", "placeholders differ"),
        ("Hi {name}", "Hallo", "placeholders differ"),
        ("Hi", "Hallo %s", "placeholders differ"),
        ("<b>Hi</b>", "<b>Hallo<b>", "placeholders differ"),
        ("{a} and {a}", "{a} und", "placeholders differ"),
        ("<b><i>Hi</i></b>", "<b><i>Hallo</b></i>", "tags not nested"),
        ("a <b>x</b>", "</b>x<b> a", "tags not nested"),
        ("Kitchen", "KÃ¼che", "mojibake"),
        ("It’s", "Itâ€™s fein", "mojibake"),
        ("It’s", "It\u00e2\x80\x99s fein", "mojibake"),
        ("5 °C", "5 Â°C warm", "mojibake"),
        ("a", "verloren\ufffd", "mojibake"),
        ("ring", "klin\x07gel", "control character"),
        ("nul", "n\x00ll", "control character"),
        ("c1", "\x93zitiert\x94", "control character"),
    ],
)
def test_each_rule_fires_on_what_it_is_for(source, target, rule):
    assert rule in broken(source, target)


@pytest.mark.parametrize(
    ("source", "target"),
    [
        ("Kitchen", "Küche"),
        ("Hi {name}, <b>%d</b> of {n}", "{n}: <b>%d</b>, hallo {name}"),
        ("%s of %s", "%2$s von %1$s"),
        ('<a href="/en">Help</a>', '<a href="/de">Hilfe</a>'),
        ("A<br>B", "A <br> B"),
        ("{n} & B", "{n} &amp; B"),
        ("20% off", "20 % Rabatt"),
        ("MENU “X”", "MENÜ“ und NÃO”"),
        ("à l’été", "À l’École “Édith”"),
        ("São Paulo", "SÃO PAULO – Âge «SÂ»"),
        ("tab\there", "Tabulator\thier\u2028neue Zeile"),
        ("1 < 2 > 0", "1 < 2 > 0!"),
        ("café”»", "„café”»"),
    ],
)
def test_no_rule_fires_on_what_is_well(source, target):
    assert broken(source, target) == []


def test_a_blank_side_is_not_compared_with_the_other():
    assert broken("", "Hallo {name}, как дела у тебя?") == ["empty source"]
    assert broken(" ", "") == ["empty source", "empty target"]


def test_mojibake_of_other_scripts_is_told_as_python_makes_it():
    for text in ("我们今天", "Привет", "こんにちは", "Ελλάδα"):
        assert "mojibake" in broken("x", text.encode().decode("latin-1"))
        assert "mojibake" not in broken("x", text)


def test_chinese_is_compared_with_the_writing_of_its_code():
    assert broken("We said this", "我們說這個", CHINESE) == ["other Chinese characters"]
    assert broken("We said this", "我們說這個", PairRules(("en", "zh-TW"))) == []
    assert broken("We said this", "我们说这个", PairRules(("en", "zh-Hant"))) == ["other Chinese characters"]
    assert RULES["other Chinese characters"].level == "note"


def test_without_languages_nothing_is_said_of_scripts():
    assert broken("Hello, how are you?", "Привет, как у тебя дела?", PairRules()) == []


def test_scripts_tell_languages_apart_only_where_they_differ():
    pairs = {("en", "zh"): True, ("en", "de"): False, ("zh-Hans", "zh-Hant"): False, ("en", "tlh"): False}
    assert {pair: PairRules(pair).tells_scripts for pair in pairs} == pairs


def test_every_name_is_in_the_order_of_reports():
    names = [*broken("", "x" * 2000), *broken("{a}", "Hallo")]
    assert all(name in PAIR_RULES for name in names)
    assert all(RULES[name].of_pair for name in PAIR_RULES)


NASTY = ["Ã", "â€", "à“”", "{", "<a", "%", "%(", "</", "<b>", "&", "a@", "/", "我", "\x07", "<b></b>", "_ "]


@pytest.mark.parametrize("unit", NASTY)
def test_time_grows_with_the_text(unit):
    def seconds(size: int) -> float:
        text = (unit * size)[:size]
        start = time.process_time()
        broken(text, text + "x", CHINESE)
        return time.process_time() - start

    half = whole = 9.0
    for _ in range(12):  # noise only adds: the least of some rounds, taken in turns, is nearest to the truth
        half, whole = min(half, seconds(50_000)), min(whole, seconds(100_000))
        if whole <= 3 * half + 0.02:
            break
    assert whole <= 3 * half + 0.02


@pytest.mark.parametrize(
    ("source", "target"), [("a<br>b", "a<br/>b"), ("a<br/>b", "a<BR />b"), ('<img src="a">', '<img src="b"/>')]
)
def test_a_void_tag_is_the_same_in_either_spelling(source, target):
    assert list(PairRules().broken(source, target + "c")) == []
    assert list(PairRules().broken(source, target + "<x/>")) == ["placeholders differ"]


def test_other_tags_differ_by_how_they_end():
    assert list(PairRules().broken("<x>a", "<x/>b")) == ["placeholders differ"]
