"""A glossary is kept by the translator: whatever the beam, the batch and the neighbours, and what it cannot is told."""

import pytest

import clearhead
from clearhead.base.errors import InputError
from clearhead.decoding.config import Sampling
from clearhead.models.ensemble import ensemble
from clearhead.recipes.phrases import Phrases
from clearhead.recipes.translator import Translator
from clearhead.text.glossary import Glossary, Term, missing_terms
from tests.unit.recipes.tiny import tiny_bundle, tiny_tokenizers, tiny_translator

GLOSSARY = Glossary([Term("cat", "Katze"), Term("mat", "Matte sass"), Term("Emil", "Emil Frida")])
TEXTS = ["the cat", "Anna sat", "", "the mat and the cat and the cat", "Really?", "Emil did", "the end"]
TARGETS = [[target for _, target in GLOSSARY.matches(text)] for text in TEXTS]


def texts_of(translations: list[clearhead.Translation]) -> list[str]:
    return [each.text for each in translations]


@pytest.mark.parametrize("options", [{}, {"beam": 1}, {"batch_tokens": 1}, {"beam": 12}, {"reproducible": True}])
def test_terms_stand_in_the_translation_and_other_texts_are_left_alone(options: dict[str, int]) -> None:
    translator = tiny_translator()
    plain = translator.translate(TEXTS, max_length=25, **options)  # type: ignore[arg-type]
    found = translator.translate(TEXTS, max_length=25, glossary=GLOSSARY, **options)  # type: ignore[arg-type]
    for targets, before, after in zip(TARGETS, plain, found, strict=True):
        assert missing_terms(after.text, targets) == []
        assert "glossary" not in after.flags
        if not targets:
            assert (after.text, after.flags) == (before.text, before.flags)
    assert any(missing_terms(before.text, targets) for targets, before in zip(TARGETS, plain, strict=True))
    assert len(TARGETS[3]) == 3  # twice is twice


def test_neighbours_change_nothing() -> None:
    translator = tiny_translator()
    together = translator.translate(TEXTS, max_length=25, glossary=GLOSSARY)
    alone = [translator.translate([text], max_length=25, glossary=GLOSSARY)[0] for text in TEXTS]
    assert texts_of(together) == texts_of(alone)


def test_an_ensemble_keeps_a_glossary() -> None:
    bundles = [tiny_bundle(seed) for seed in (0, 1)]
    translator = Translator(ensemble([each.model for each in bundles]), tiny_tokenizers(), ("en", "de"))
    found = translator.translate(TEXTS, max_length=25, glossary=GLOSSARY)
    assert all(missing_terms(each.text, targets) == [] for each, targets in zip(found, TARGETS, strict=True))


def test_each_piece_of_a_long_text_holds_its_own_terms() -> None:
    bundle = tiny_bundle()
    translator = Translator(bundle.model, bundle.tokenizers, bundle.languages, max_source_length=12)
    text = "the cat sat on it. Anna did sit. the mat sat. the cat did."
    (found,) = translator.translate([text], max_length=20, glossary=GLOSSARY)
    assert "split" in found.flags
    assert (found.text.count("Katze"), found.text.count("Matte sass")) >= (2, 1)
    assert "glossary" not in found.flags


def test_what_there_is_no_room_for_is_flagged() -> None:
    found = tiny_translator().translate(["the mat", "the end"], max_length=1, glossary=GLOSSARY)
    assert ["glossary" in each.flags for each in found] == [True, False]


def test_a_term_that_cannot_be_spelt_is_left_out_and_flagged(monkeypatch: pytest.MonkeyPatch) -> None:
    from clearhead.base.errors import DataError
    from clearhead.recipes import phrases

    real = phrases.phrase_tokens

    def cannot(tokenizer: object, term: str, script: str) -> list[int]:
        if term == "Katze":
            raise DataError("no such characters")
        return real(tokenizer, term, script)  # type: ignore[arg-type]

    monkeypatch.setattr(phrases, "phrase_tokens", cannot)
    found = tiny_translator().translate(["the cat on the mat", "Emil"], max_length=25, glossary=GLOSSARY)
    assert "Matte sass" in found[0].text
    assert [("glossary" in each.flags) == ("Katze" not in each.text) for each in found][0]
    assert "failed" not in found[0].flags + found[1].flags


def test_sampling_is_refused() -> None:
    with pytest.raises(InputError, match="while sampling"):
        tiny_translator().translate(["the cat"], sampling=Sampling(), glossary=GLOSSARY)


def test_placeholders_are_phrases_as_often_as_they_stand() -> None:
    assert Phrases(GLOSSARY, placeholders=True).of("the cat {n} {n}") == ["Katze", "{n}", "{n}"]
    assert Phrases(None).of("the cat {n}") == []
