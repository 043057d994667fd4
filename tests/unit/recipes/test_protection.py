"""Each stage of the repair of placeholders mends what those before it could not, and nothing broken gets through."""

import pytest

from clearhead.base.errors import InputError
from clearhead.decoding.config import DecodingConfig, Sampling
from clearhead.recipes.placeholders import keeps_placeholders
from clearhead.recipes.protection import Protector
from clearhead.recipes.translation import Translation
from clearhead.text.glossary import Glossary, Term
from clearhead.text.placeholders import strip_placeholders
from tests.unit.recipes.breaking import Breaking
from tests.unit.recipes.tiny import tiny_translator

REPAIRED = ("placeholders_repaired",)


def protected(breaking: Breaking, *texts: str, config: DecodingConfig | None = None) -> list[Translation]:
    pairs = [(text, "") for text in texts]
    return list(Protector(breaking.translator, config or DecodingConfig()).stream(pairs))


def naive(breaking: Breaking, *texts: str) -> list[str]:
    """What is delivered without protection."""
    return [each.text for each in breaking.stream_forced([(text, "") for text in texts], DecodingConfig())]


def test_a_sound_translation_is_left_alone() -> None:
    breaking = Breaking(lambda text, _: [f"{{name}} ({text.split(maxsplit=1)[0]})", "{x}"])
    (found,) = protected(breaking, "Open {name}")
    assert (found.text, found.flags, found.score) == ("{name} (Open)", (), 0.0)
    assert breaking.calls == [(["Open {name}"], 1, False)]


def test_another_spelling_is_mended_without_asking_again() -> None:
    breaking = Breaking(lambda *_: ["{ Name } öffnen"])
    (found,) = protected(breaking, "Open {name}")
    assert (found.text, found.flags) == ("{name} öffnen", REPAIRED)
    assert len(breaking.calls) == 1


@pytest.mark.parametrize(
    ("source", "bad", "good"),
    [
        ("Open {name}", "Öffnen", "{name} öffnen"),
        ("Open {name}", "{name} {name} öffnen", "{name} öffnen"),
        ("Open {name}", "{file} öffnen", "{name} öffnen"),
        ("Open it", "{file} öffnen", "Es öffnen"),
        ("<b>Stop</b> it", "</b>Halt<b>", "<b>Halt</b>"),
        ("<b>Stop</b> it", "Halt <b></b>", "<b>Halt</b>"),
        ("%s in %d", "%d in %s", "%s: %d Stück"),
    ],
)
def test_the_rest_of_the_list(source: str, bad: str, good: str) -> None:
    breaking = Breaking(lambda *_: [bad, bad + "!", good])
    assert not keeps_placeholders(source, naive(breaking, source)[0])
    (found,) = protected(breaking, source)
    assert (found.text, found.flags, found.alternatives) == (good, REPAIRED, ())
    assert breaking.calls[-1] == ([source], 10, False)


def test_braces_in_the_place_of_what_a_model_does_not_know() -> None:
    def answer(text: str, _: bool) -> list[str]:
        return ["{count} Dateien in {name}"] if "{" in text else ["%(count)Dateien"]

    breaking = Breaking(answer)
    (found,) = protected(breaking, "%(count)d files in %(name)s")
    assert (found.text, found.flags) == ("%(count)d Dateien in %(name)s", REPAIRED)
    assert breaking.calls[-1] == (["{count} files in {name}"], 10, False)


def test_braces_do_not_change_the_order_of_arguments() -> None:
    def answer(text: str, forced: bool) -> list[str]:
        return ["{count} mal {value}"] if "{" in text else [text.upper()]

    (found,) = protected(Breaking(answer), "%s times %d")
    assert found.text == "%s TIMES %d"  # in capitals the first try was sound


def test_a_forced_search() -> None:
    breaking = Breaking(lambda text, forced: ["{name} öffnen"] if forced else ["Öffnen", "Auf"])
    (found,) = protected(breaking, "Open {name}")
    assert (found.text, found.flags) == ("{name} öffnen", REPAIRED)
    assert [forced for *_, forced in breaking.calls] == [False, False, True]


def test_parts_are_always_right() -> None:
    breaking = Breaking(
        lambda text, _: [strip_placeholders(text).upper().rstrip(". ") + "."]
    )  # and it likes full stops
    (found,) = protected(breaking, "  The {name}'s <b>file ({n}px)</b>: gone. ")
    assert found.text == "  THE {name}'S <b>FILE ({n}px)</b>: GONE. "
    assert found.flags == REPAIRED
    assert breaking.calls[-1][0] == ["The", "s", "file", "gone."]


@pytest.mark.parametrize(("language", "text"), [("de", "Den Hund {n} Gestern"), ("fr", "Den Hund {n} gestern")])
def test_parts_begin_small_where_the_source_does(language: str, text: str) -> None:
    answers = {"The dog": ["Den Hund."], "yesterday": ["Gestern."]}
    breaking = Breaking(lambda text, _: answers.get(text, ["kaputt"]), ("en", language))
    (found,) = protected(breaking, "The dog {n} yesterday")
    assert found.text == text


def test_parts_take_no_placeholders_from_the_model() -> None:
    breaking = Breaking(lambda text, _: [f"{{x}} {text.replace('{', '(').upper()} <b>"])
    (found,) = protected(breaking, "open {name} now")
    assert (found.text, found.flags) == ("OPEN {name} NOW", REPAIRED)


def test_what_nothing_helps_is_flagged() -> None:
    breaking = Breaking(lambda text, _: ["…" if "{" in text else " "])
    (found,) = protected(breaking, "Open {name}")
    assert (found.text, found.flags) == ("…", ("placeholders",))


def test_messages_with_plural_forms_are_not_guessed_at() -> None:
    breaking = Breaking(lambda text, _: [text])
    (found,) = protected(breaking, "{n, plural, one {a file} other {# files}}")
    assert found.flags == ("placeholders",)
    assert len(breaking.calls) == 1


def test_nothing_but_placeholders_is_copied() -> None:
    breaking = Breaking(lambda text, _: ["Katze"])
    found = protected(breaking, "{a}: %d", "cat", "", "<br/>", "12")
    assert [each.text for each in found] == ["{a}: %d", "Katze", "Katze", "<br/>", "12"]
    assert breaking.calls == [(["cat", ""], 1, False)]  # what a blank text becomes, the translator says


def test_failures_stay_failures() -> None:
    (found,) = protected(Breaking(lambda *_: None), "Open {name}")
    assert (found.text, found.flags) == ("", ("failed",))


def test_the_broken_texts_of_a_window_are_mended_together_and_order_is_kept() -> None:
    def answer(text: str, forced: bool) -> list[str]:
        return [text if forced or int(text.split(maxsplit=1)[0]) % 3 else "kaputt"]

    breaking = Breaking(answer)
    texts = [f"{n} cats {{name}}" for n in range(20)]
    found = protected(breaking, *texts)
    assert [each.text for each in found] == texts
    assert [n for n, each in enumerate(found) if each.flags == REPAIRED] == list(range(0, 20, 3))
    assert [len(asked) for asked, *_ in breaking.calls] == [20, 7, 7]


def test_alternatives_are_kept_whole_too() -> None:
    breaking = Breaking(lambda *_: ["{n} a", "b", "{n} c"])
    (found,) = protected(breaking, "a {n}", config=DecodingConfig(n_best=3))
    assert [each.text for each in (found, *found.alternatives)] == ["{n} a", "{n} c"]


def test_a_forced_beginning_is_kept() -> None:
    breaking = Breaking(lambda *_: ["Öffne"])
    (found,) = Protector(breaking.translator, DecodingConfig()).stream([("open {n}", "Öffne")])
    assert (found.text, found.flags) == ("Öffne", ("placeholders",))  # in parts it would be lost


def test_samples_cannot_be_protected() -> None:
    with pytest.raises(InputError, match="while sampling"):
        Protector(tiny_translator(), DecodingConfig(sampling=Sampling()))


def test_a_model_that_knows_nothing_keeps_every_placeholder() -> None:
    texts = ["the {name} cat", "<b>the cat</b> sat", "%s sat on %d mats", "no placeholder here", "{a} and {b} and {c}"]
    translator = tiny_translator()
    config = DecodingConfig(max_length=30)
    plain = [each.text for each in translator.translate(texts, config=config)]
    assert not all(keeps_placeholders(text, each) for text, each in zip(texts, plain, strict=True))
    found = list(Protector(translator, config).stream([(text, "") for text in texts]))
    for text, each in zip(texts, found, strict=True):
        assert keeps_placeholders(text, each.text) or "placeholders" in each.flags
    assert sum("placeholders_repaired" in each.flags for each in found) >= 3


def test_a_missing_term_is_told_of_the_translation_that_was_chosen() -> None:
    glossary = Glossary([Term("cat", "Katze")])
    breaking = Breaking(lambda *_: ["Katze", "{n} Hund"])
    (found,) = Protector(breaking.translator, DecodingConfig(), glossary).stream([("cat {n}", "")])
    assert (found.text, set(found.flags)) == ("{n} Hund", {"placeholders_repaired", "glossary"})
