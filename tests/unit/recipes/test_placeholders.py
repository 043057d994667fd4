"""Whether placeholders are kept: the faults that models make are seen, and sound translations are let through."""

import time

import pytest

from clearhead.recipes.placeholders import (
    exchange,
    has_words,
    is_message_format,
    keeps_placeholders,
    mend,
    parts,
    plain,
    respace,
    stand_ins,
)


@pytest.mark.parametrize(
    ("source", "translation"),
    [
        ("Open {name}", "{name} öffnen"),
        ("{a} of {b}", "{b}: davon {a}"),  # named ones may change places
        ("%1$s of %2$s", "%2$s: davon %1$s"),
        ("%d of %s", "%d von %s"),
        ("Click <b>here</b><br>", "<br>Hier <b>klicken</b>"),
        ("<a><b>x</b></a>", "<b><a>x</a></b>"),
        ("two</b> and <b>three", "zwei</b> und <b>drei"),  # a part of a sentence that begins and ends elsewhere
        ("Empty <i></i> here", "Hier <i></i> leer"),
        ("100% safe", "100 % sicher"),
        ("file(s) of {n}", "Datei(en) von {n}"),
        ("{name}'s house", "{name}s Haus"),
        ("in {name}", "{name}ban"),
        ("%d files", "%d个文件"),
        ("{x}", "{x}"),
    ],
)
def test_sound_translations(source: str, translation: str) -> None:
    assert keeps_placeholders(source, translation)


@pytest.mark.parametrize(
    ("source", "translation"),
    [
        ("Open {name}", "Öffnen"),
        ("Open {name}", "{name} {name} öffnen"),
        ("Open", "{name} öffnen"),
        ("Open {name}", "{Name} öffnen"),
        ("Open {name}", "{name öffnen {name}"),
        ("%d of %s", "%s mit %d"),  # the next argument would be the wrong one
        ("{} of {:d}", "{:d} von {}"),
        ("Click <b>here</b>", "Hier </b>klicken<b>"),
        ("Click <b>here</b>", "Hier klicken <b></b>"),
        ("<g1>a</g1><g2>b</g2>", "<g1>a<g2>b</g1></g2>"),
        ("two</b> and <b>three", "<b>zwei</b> und drei"),
        ("A &amp; B", "A & B"),
        ("Deleted %(name)s", "%(name)sicher gelöscht"),
        ("Delete %(name)s", "%(name)s) löschen"),
        ("Delete {name}", "{name}"),
        ("Delete {name}", "{name} l\ufffdschen"),
    ],
)
def test_broken_translations(source: str, translation: str) -> None:
    assert not keeps_placeholders(source, translation)


@pytest.mark.parametrize(
    ("source", "translation", "mended"),
    [
        ("Open {name}", "{NAME} öffnen", "{name} öffnen"),
        ("<b>x</b>", "< B >x</ b>", "<b>x</b>"),
        ("{a} {A}", "{A} {A}", "{A} {A}"),  # both stand in the source as they are: which is meant is not guessed
        ("50 %s", "50 % Sonne", "50 % Sonne"),
        ("Open {name}", "Öffnen", "Öffnen"),
    ],
)
def test_other_spellings(source: str, translation: str, mended: str) -> None:
    assert mend(source, translation) == mended


@pytest.mark.parametrize(
    ("source", "translation", "wanted"),
    [
        ("Open ({name})", "( {name} ) öffnen", "({name}) öffnen"),
        ("the {name} file", "von{name}", "von {name}"),
        ("See <b>this</b> one", "Sieh<b> das </b>da", "Sieh <b>das</b> da"),
        ("{name}: yes", "ja: {name}", "ja: {name}"),
        ("{n} %", "{n} %", "{n} %"),
        ("Go to {x}", "Zu  {x}", "Zu {x}"),
        ("nothing", "nichts  hier", "nichts  hier"),
    ],
)
def test_space_is_as_in_the_source(source: str, translation: str, wanted: str) -> None:
    assert respace(source, translation, spaced=True) == wanted


def test_no_space_comes_in_where_words_are_not_parted() -> None:
    assert respace("Open {name} now", "打开{name}吧", spaced=False) == "打开{name}吧"
    assert respace("See <b>this</b> one", "看<b> 这个 </b>吧", spaced=False) == "看<b>这个</b>吧"


@pytest.mark.parametrize(
    "text", ["", "{a}x{b}", "The width ({w}px) is <b>too</b> large (see %s).", "共{n}个文件", "file(s) {x", "((", "%%"]
)
def test_parts_are_the_text(text: str) -> None:
    assert "".join(part for part, _ in parts(text)) == text


def test_words_that_are_joined_to_a_placeholder_are_not_translated_in_parts() -> None:
    assert ("{w}px", True) in parts("The width ({w}px)")
    assert parts("共{n}个文件") == [("共", False), ("{n}", True), ("个文件", False)]  # no space, so nothing is joined


def test_stand_ins_are_unlike_each_other_and_go_back() -> None:
    text = "%s {value} %(name)s {{ name }} {0} %d <b>%s</b> &amp; %%"
    table = stand_ins(text)
    shown = exchange(text, table)
    assert len({*table.values(), "{value}"}) == len(table) + 1
    assert "%s" not in shown
    assert "<b>" in shown
    assert "&amp; %%" in shown
    assert exchange(shown, {stand_in: placeholder for placeholder, stand_in in table.items()}) == text


def test_what_has_nothing_to_translate() -> None:
    assert not any(has_words(text) for text in ("", "123", "{name}: %s", "<b>…</b>", "&nbsp;"))
    assert all(has_words(text) for text in ("a", "{n} Dateien", "文件"))
    assert plain("a {x} (b} c") == "a b c"


def test_plural_forms_of_messages_are_recognised() -> None:
    assert is_message_format("You have {count, plural, one {# file} other {# files}}")
    assert not is_message_format("{count} {name}, plural, one")


@pytest.mark.parametrize(
    "text",
    ["{a}" * 60_000, "<b>" * 60_000, "<b> x </b>" * 20_000, " " * 200_000, "{" * 200_000, "%1d%2d%3d" * 20_000]
    + ["".join(f"{{n{n}}} " for n in range(20_000)), "(" * 100_000 + "{a}" + ")" * 100_000],
)
def test_time_grows_with_the_text_and_no_faster(text: str) -> None:
    start = time.process_time()
    shouted = text.upper()
    assert keeps_placeholders(text, text)
    mend(text, shouted)
    respace(text, shouted.replace(" ", "   "), spaced=True)
    assert "".join(part for part, _ in parts(text)) == text
    plain(text)
    is_message_format(text)
    assert time.process_time() - start < 4  # where time were quadratic it would be minutes
