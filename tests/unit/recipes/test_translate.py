"""The translator: order, blanks, long texts, failures, options — whatever the model has learnt."""

import json
import logging
import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import clearhead
from clearhead.base.errors import BundleError, ConfigError, DataError, InputError
from clearhead.decoding.config import DecodingConfig, Sampling
from clearhead.decoding.search import Hypothesis
from clearhead.models.seq2seq import Seq2Seq
from clearhead.nn.padding import Padded
from clearhead.recipes import searching as module
from clearhead.recipes.pieces import split_text
from clearhead.recipes.translate import as_json, header, load, translate_file
from clearhead.recipes.translator import Translator, decoding_config
from tests.unit.recipes.tiny import save_tiny, tiny_bundle, tiny_tokenizers, tiny_translator

SHORT = {"max_length": 12}
TEXTS = [
    "the cat",
    "",
    "Anna sat on the mat.",
    "   ",
    "Really?",
    "the cat Bert sat on the mat. It did!",
    "\u3000",
    "mat",
]


def texts_of(translations: list[clearhead.Translation]) -> list[str]:
    return [each.text for each in translations]


def test_texts_come_back_in_their_order() -> None:
    translator = tiny_translator()
    together = translator.translate(TEXTS, **SHORT)
    alone = [translator.translate([text], **SHORT)[0] for text in TEXTS]
    assert texts_of(together) == texts_of(alone)
    assert len(set(texts_of(together))) >= 4
    assert [each.score for each in together] == pytest.approx([each.score for each in alone], abs=1e-4)
    small = translator.translate(TEXTS, batch_tokens=1, **SHORT)
    assert texts_of(small) == texts_of(together)
    windows = translator.stream(TEXTS, DecodingConfig(max_length=12), window=3)
    assert [each.text for each in windows] == texts_of(together)


def test_blank_lines_never_reach_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    translator = tiny_translator()
    monkeypatch.setattr(module, "search", lambda *_, **__: pytest.fail("the model was asked"))
    found = translator.translate(["", " ", "\t", "\u3000\u2028", "\u00a0"])
    assert [(each.text, each.flags, each.tokens, each.score) for each in found] == [("", ("blank",), (), 0.0)] * 5


def test_a_translation_says_what_it_is_made_of() -> None:
    translator = tiny_translator()
    best = translator.translate(["the cat"], n_best=3, **SHORT)[0]
    assert [one.score for one in (best, *best.alternatives)] == sorted(
        (one.score for one in (best, *best.alternatives)), reverse=True
    )
    assert len(best.alternatives) == 2
    assert best.log_prob / ((5 + len(best.tokens) + 1) / 6) ** 0.6 == pytest.approx(best.score)


def test_scoring_a_translation_gives_the_score_that_came_with_it() -> None:
    translator = tiny_translator()
    sources = [text for text in TEXTS if text.strip()]
    ids: list[tuple[int, ...]] = []
    found = translator.translate(sources, **SHORT)
    for translation in found:  # the text may be segmented otherwise than it was written: only equal ones can compare
        ids.append(tuple(translator.tokenizers.target.encode(translation.text)))
    same = [n for n, one in enumerate(found) if tuple(translator.tokenizers.target.pieces(ids[n])) == one.tokens]
    scored = translator.score([sources[n] for n in same], [found[n].text for n in same])
    assert [each.score for each in scored] == pytest.approx([found[n].score for n in same], abs=1e-4)
    assert [each.log_prob for each in scored] == pytest.approx([found[n].log_prob for n in same], abs=1e-4)


def test_perplexity_by_hand() -> None:
    scored = tiny_translator().score(["the cat"], ["die Katze"])[0]
    assert sum(scored.token_log_probs) == pytest.approx(scored.log_prob)
    assert scored.perplexity == pytest.approx(math.exp(-scored.log_prob / (len(scored.tokens) + 1)))


# ------------------------------------------------------------------------------------------------------ long texts


def test_long_text_is_translated_in_pieces_and_nothing_of_it_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = tiny_bundle()
    translator = Translator(bundle.model, bundle.tokenizers, bundle.languages, max_source_length=20)
    seen: list[str] = []
    real = module.search

    def spy(model: Any, source: Padded, *rest: Any, **named: Any) -> list[list[Hypothesis]]:
        seen.extend(bundle.tokenizers.source.decode(row[:-1]) for row in _rows(source))
        return real(model, source, *rest, **named)

    monkeypatch.setattr(module, "search", spy)
    text = "the cat Anna sat on the mat. Really, it did! the cat Bert sat. Carl and Dora sat on the mat. the end"
    neighbours = ["the cat", text, "mat"]
    found = translator.translate(neighbours, **SHORT)
    assert found[1].flags[0] == "split"
    assert "split" not in found[0].flags + found[2].flags
    parts = [each for each, _ in split_text(text, bundle.tokenizers.source, 20)]
    assert len(parts) >= 3
    assert " ".join(parts) == text
    assert sorted(seen) == sorted([*parts, "the cat", "mat"])
    alone = translator.translate(parts, **SHORT)
    assert found[1].text == " ".join(texts_of(alone))
    assert found[1].log_prob == pytest.approx(sum(each.log_prob for each in alone), abs=1e-3)
    assert texts_of([found[0], found[2]]) == texts_of(translator.translate(["the cat", "mat"], **SHORT))


def _rows(source: Padded) -> Iterator[list[int]]:
    for ids, length in zip(source.ids.tolist(), source.lengths.tolist(), strict=True):
        yield ids[:length]


def test_pieces_of_scripts_without_spaces_are_joined_without_one() -> None:
    bundle = tiny_bundle(languages=("en", "zh"))
    translator = Translator(bundle.model, bundle.tokenizers, bundle.languages, max_source_length=8)
    parts = [each for each, _ in split_text("the cat sat. Really, it did!", bundle.tokenizers.source, 8)]
    assert len(parts) > 1
    whole = translator.translate(["the cat sat. Really, it did!"], **SHORT)[0]
    assert whole.text == "".join(texts_of(translator.translate(parts, **SHORT)))


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("the cat sat on the mat. the cat sat on the mat.", ["the cat sat on the mat.", "the cat sat on the mat."]),
        ('"Really?" the cat said "Really."', ['"Really?"', 'the cat said "Really."']),
        ("the cat sat on the mat and the cat sat", ["the cat sat on the", "mat and the cat sat"]),
    ],
)
def test_cuts_are_at_the_ends_of_sentences_else_at_spaces(text: str, pieces: list[str]) -> None:
    tokenizer = tiny_tokenizers().source
    longest = max(len(tokenizer.encode(piece)) for piece in pieces)
    assert len(tokenizer.encode(text)) > longest
    assert [each for each, _ in split_text(text, tokenizer, longest)] == pieces


@pytest.mark.parametrize(
    "text", ["x" * 900, "猫坐在垫子上。" * 80, "🙂" * 200, "a" * 50 + " " + "b" * 700, " x " * 300]
)
def test_pieces_fit_and_hold_every_character(text: str) -> None:
    tokenizer = tiny_tokenizers().source
    pieces = split_text(text, tokenizer, 30)
    assert all(1 <= len(ids) <= 30 for _, ids in pieces)
    assert "".join("".join(piece.split()) for piece, _ in pieces) == "".join(text.split())


def test_six_thousand_tokens_and_their_neighbours() -> None:
    translator = tiny_translator()
    text = "the cat sat. " * 1500
    assert len(translator.tokenizers.source.encode(text)) >= 6000
    found = translator.translate(["mat", text, "", "the cat"], beam=1, max_length=4)
    assert found[1].text
    assert "split" in found[1].flags
    assert texts_of([found[0], found[3]]) == texts_of(translator.translate(["mat", "the cat"], beam=1, max_length=4))


def test_learnt_positions_bound_both_sides() -> None:
    translator = tiny_translator(positions={"kind": "learned", "max_positions": 16})
    assert translator.max_source_length == 15
    text = "the cat Anna sat on the mat. Really, it did! the cat Bert sat on the mat."
    found = translator.translate([text, "the cat"])
    assert "split" in found[0].flags
    assert not {"failed"} & {*found[0].flags, *found[1].flags}
    assert all(len(each.tokens) <= 15 for each in translator.translate(["the cat"], n_best=4)[0].alternatives)


# -------------------------------------------------------------------------------------------------------- failures


class Fussy(torch.nn.Module):
    """An encoder that will not read one token."""

    def __init__(self, inner: torch.nn.Module, token: int) -> None:
        super().__init__()
        self.inner, self.token = inner, token

    def forward(self, source: Padded) -> Any:
        if bool((source.ids == self.token).any()):
            raise RuntimeError("I will not read that")
        return self.inner(source)


def test_one_bad_line_takes_no_other_with_it(caplog: pytest.LogCaptureFixture) -> None:
    bundle = tiny_bundle()
    sound = tiny_translator().translate(TEXTS, **SHORT)
    model = Seq2Seq(Fussy(bundle.model.encoder, bundle.tokenizers.source.encode("\u0001")[-1]), bundle.model.decoder)
    translator = Translator(model, bundle.tokenizers, bundle.languages)
    with caplog.at_level(logging.WARNING, logger="clearhead"):
        found = translator.translate([*TEXTS[:3], "bad \u0001 line", *TEXTS[3:]], **SHORT)
    bad = found.pop(3)
    assert (bad.text, bad.flags) == ("", ("failed",))
    assert texts_of(found) == texts_of(sound)
    assert "text 4 failed: RuntimeError: I will not read that" in caplog.text
    scored = translator.score(["the cat", "\u0001"], ["die Katze", "x"])
    assert scored[0].flags == ()
    assert scored[1].flags == ("failed",)
    assert math.isnan(scored[1].log_prob)


def test_a_lone_surrogate_fails_alone(caplog: pytest.LogCaptureFixture) -> None:
    translator = tiny_translator()
    found = translator.translate(["mat", "\ud800", "the cat"], **SHORT)
    assert [each.flags for each in found][1] == ("failed",)
    assert "text 2" in caplog.text
    assert "surrogate" in caplog.text
    assert texts_of([found[0], found[2]]) == texts_of(translator.translate(["mat", "the cat"], **SHORT))


def test_an_interruption_is_no_failure_of_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "search", interrupted)
    with pytest.raises(KeyboardInterrupt):
        tiny_translator().translate(["the cat"])


def test_a_line_break_in_a_translation_becomes_a_space(monkeypatch: pytest.MonkeyPatch) -> None:
    translator = tiny_translator()
    ids = tuple(translator.tokenizers.target.encode("die\nKatze"))
    written = Hypothesis(ids, -1.0, -1.0, (-1.0,) + (0.0,) * len(ids))
    monkeypatch.setattr(module, "search", lambda *_, **__: [[written]])
    found = translator.translate(["the cat"])[0]
    assert (found.text, found.flags) == ("die Katze", ("newline",))


def test_the_length_limit_is_flagged() -> None:
    found = tiny_translator().translate(["the cat", "mat"], max_length=1, min_length=1)
    assert all("max_length" in each.flags and len(each.tokens) == 1 for each in found)


# --------------------------------------------------------------------------------------------------------- options


def test_options_are_checked_before_anything_is_translated() -> None:
    translator = tiny_translator()
    with pytest.raises(ConfigError, match="n_best 5 is more than beam 4"):
        translator.translate(["x"], n_best=5)
    with pytest.raises(ConfigError, match="beam: must be at least 1"):
        translator.translate(["x"], beam=0)
    with pytest.raises(InputError, match="put it in brackets"):
        translator.translate("one text")
    with pytest.raises(InputError, match="as many"):
        translator.translate(["a", "b"], prefixes=["c"])
    with pytest.raises(InputError, match="as many"):
        translator.score(["a"], ["b", "c"])
    with pytest.raises(InputError, match="batch_tokens"):
        translator.translate(["a"], batch_tokens=0)


def test_options_change_a_given_configuration() -> None:
    chosen = decoding_config(DecodingConfig(beam=7, alpha=1.5), beam=2, n_best=None, sampling=Sampling(top_k=3))
    assert chosen == DecodingConfig(beam=2, alpha=1.5, sampling=Sampling(top_k=3))


def test_prefixes_begin_the_translations() -> None:
    translator = tiny_translator()
    found = translator.translate(["the cat", "mat", "Anna"], prefixes=["die Katze", "", "Wirklich"], **SHORT)
    assert found[0].text.startswith("die Katze")
    assert found[2].text.startswith("Wirklich")
    assert found[1].text == translator.translate(["mat"], **SHORT)[0].text


def test_samples_belong_to_the_seed_and_the_number_of_the_text() -> None:
    translator, sampling = tiny_translator(), Sampling(temperature=1.5)
    first = translator.translate(TEXTS, sampling=sampling, n_best=2, **SHORT)
    again = translator.translate(TEXTS, sampling=sampling, n_best=2, batch_tokens=1, **SHORT)
    assert texts_of(first) == texts_of(again)
    windows = translator.stream(TEXTS, DecodingConfig(sampling=sampling, n_best=2, max_length=12), window=3)
    assert [each.text for each in windows] == texts_of(first)
    assert texts_of(translator.translate(TEXTS, sampling=sampling, n_best=2, seed=1, **SHORT)) != texts_of(first)


def test_reproducible_translations_and_scores_are_the_same_alone() -> None:
    translator = tiny_translator()
    texts = [*TEXTS, *(f"the cat {'sat on the mat ' * (n % 5)}{n}" for n in range(12)), "the cat. " * 200]
    options = {"reproducible": True, "max_length": 6}
    together = translator.translate(texts[::-1], **options)[::-1]
    assert [translator.translate([text], **options)[0] for text in texts[:10]] == together[:10]
    windows = translator.stream(texts, DecodingConfig(reproducible=True, max_length=6), window=4)
    assert list(windows) == together
    assert texts_of(together) == texts_of(translator.translate(texts, max_length=6))
    references = [each.text for each in together]
    scored = translator.score(texts, references, reproducible=True)
    alone = [translator.score([text], [other], reproducible=True)[0] for text, other in zip(texts, references)]
    assert alone == scored
    usual = translator.score(texts, references)
    assert [each.log_prob for each in usual] == pytest.approx([each.log_prob for each in scored], abs=1e-3)


def test_reproducible_has_batches_of_its_own_and_is_for_the_cpu() -> None:
    translator = tiny_translator()
    with pytest.raises(InputError, match="batch_tokens"):
        translator.translate(["a"], reproducible=True, batch_tokens=100)
    with pytest.raises(InputError, match="batch_tokens"):
        translator.score(["a"], ["b"], reproducible=True, batch_tokens=100)
    with pytest.raises(InputError, match="batch_tokens: must be at least 1"):
        translator.score(["a"], ["b"], batch_tokens=0)
    engine = replace(translator.engine, device=torch.device("cuda"))
    with pytest.raises(InputError, match="works on a CPU, not on cuda"):
        Translator(engine, translator.tokenizers, translator.languages).translate(["a"], reproducible=True)


def test_progress_ends_at_the_number_of_texts() -> None:
    seen: list[int] = []
    tiny_translator().translate(TEXTS, progress=seen.append, batch_tokens=200, **SHORT)
    assert seen == sorted(seen)
    assert len(seen) > 1
    assert seen[-1] == len(TEXTS)


def test_threads_may_share_a_translator() -> None:
    translator = tiny_translator()
    expected = texts_of(translator.translate(TEXTS, **SHORT))
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: texts_of(translator.translate(TEXTS, **SHORT)), range(8)))
    assert found == [expected] * 8


def test_a_training_model_is_put_into_evaluation_mode() -> None:
    bundle = tiny_bundle(dropout=0.5)
    translator = Translator(bundle.model.train(), bundle.tokenizers, bundle.languages)
    assert texts_of(translator.translate(TEXTS, **SHORT)) == texts_of(translator.translate(TEXTS, **SHORT))


# ----------------------------------------------------------------------------------------------- bundles and files


def test_a_saved_translator_translates_as_before(tmp_path: Path) -> None:
    path = save_tiny(tmp_path / "bundle")
    loaded = clearhead.load(path, device="cpu", engine="plain")
    assert isinstance(loaded, clearhead.Translator)
    assert loaded.translate(TEXTS, **SHORT) == tiny_translator().translate(TEXTS, **SHORT)
    assert loaded.languages == ("en", "de")


def test_an_ensemble_averages_probabilities(tmp_path: Path) -> None:
    paths = [save_tiny(tmp_path / str(seed), seed) for seed in (0, 1)]
    both = load(paths, device="cpu").score(["the cat"], ["die"])[0]
    ones = [load(path, device="cpu").score(["the cat"], ["die"])[0] for path in paths]
    for mean, one, other in zip(both.token_log_probs, *(each.token_log_probs for each in ones), strict=True):
        assert math.exp(mean) == pytest.approx((math.exp(one) + math.exp(other)) / 2, rel=1e-4)
    assert (
        load([paths[0], paths[0]]).translate(TEXTS, **SHORT)[0].text == load(paths[0]).translate(TEXTS, **SHORT)[0].text
    )


def test_bundles_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    one, other = save_tiny(tmp_path / "one"), save_tiny(tmp_path / "other", languages=("en", "fr"))
    with pytest.raises(BundleError, match=r"other: translates en→fr, but .*one en→de"):
        load([one, other])
    with pytest.raises(BundleError, match="no such bundle"):
        load(tmp_path / "absent")
    with pytest.raises(BundleError, match="at least one"):
        load([])
    with pytest.raises(ConfigError, match="device 'gpu': there is no such device"):
        load(one, device="gpu")


def test_a_file_gives_as_many_lines_as_it_has(tmp_path: Path) -> None:
    translator, source, output = tiny_translator(), tmp_path / "in.txt", tmp_path / "out.txt"
    lines = ["the cat", "", "mat\u2028 cat", "a\x85b", "form\x0cfeed", "lone\rreturn", "   ", "the end"]
    source.write_bytes(b"\xef\xbb\xbf" + "\r\n".join(lines).encode())  # no final newline
    outcome = translate_file(translator, DecodingConfig(max_length=5), source, output, window=3)
    written = output.read_bytes().decode().split("\n")
    assert outcome.lines == len(lines) == len(written) - 1
    assert outcome.flagged["blank"] == [2, 7]
    assert written[:-1] == texts_of(translator.translate(lines, max_length=5))


def test_json_lines_and_prefixes(tmp_path: Path) -> None:
    translator, source, output = tiny_translator(), tmp_path / "in.txt", tmp_path / "out.jsonl"
    source.write_text("the cat\n\nmat\n")
    (tmp_path / "begin.txt").write_text("die\n\n\n")
    config = DecodingConfig(max_length=5, n_best=2)
    translate_file(translator, config, source, output, prefixes=tmp_path / "begin.txt", json_lines=True)
    tables = [json.loads(line) for line in output.read_text().splitlines()]
    assert [set(table) for table in tables][0] == {"text", "score", "tokens", "flags", "log_prob", "alternatives"}
    assert tables[0]["text"].startswith("die")
    assert tables[1] == json.loads(as_json(clearhead.Translation("", 0.0, flags=("blank",))))
    (tmp_path / "begin.txt").write_text("die\n")
    with pytest.raises(DataError, match="3 lines but .* has 1"):
        translate_file(translator, config, source, output, prefixes=tmp_path / "begin.txt")


def test_a_named_output_is_whole_or_absent(tmp_path: Path) -> None:
    source = tmp_path / "in.txt"
    source.write_bytes(b"the cat\nmat\n\xff\xfe\n")
    with pytest.raises(DataError, match=r"in.txt, line 3"):
        translate_file(tiny_translator(), DecodingConfig(max_length=3), source, tmp_path / "out.txt", window=1)
    assert not (tmp_path / "out.txt").exists()


def test_memory_is_bounded_by_the_window() -> None:
    translator, read = tiny_translator(), 0

    def endless() -> Iterator[str]:
        nonlocal read
        while True:
            read += 1
            yield "the cat"

    stream = translator.stream(endless(), DecodingConfig(beam=1, max_length=2), window=5)
    for _ in range(11):
        next(stream)
    assert read == 15


def test_the_header_names_the_formula() -> None:
    line = header(tiny_translator(), DecodingConfig(), "demo")
    assert "demo: en→de" in line
    assert "beam 4" in line
    assert "((5 + |Y|) / 6)^0.6" in line
    assert "source × 1 + 50" in line
    assert "greedy" in header(tiny_translator(), DecodingConfig(beam=1), "demo")
    assert "reproducible" not in line
    assert "reproducible" in header(tiny_translator(), DecodingConfig(reproducible=True), "demo")
    learnt = tiny_translator(positions={"kind": "learned", "max_positions": 16})
    assert "at most 15" in header(learnt, DecodingConfig(), "demo")
    assert "at most 9" in header(learnt, DecodingConfig(max_length=9), "demo")


def test_space_around_a_long_text_does_not_hide_where_to_cut() -> None:
    tokenizer = tiny_tokenizers().source
    words = "the cat sat on the mat and the cat sat"
    for text in (words + " " * 3000, " " * 3000 + words):
        assert split_text(text, tokenizer, 8) == split_text(words, tokenizer, 8)
    apart = split_text("the cat" + " " * 3000 + "the mat", tokenizer, 8)
    assert [each for each, _ in apart] == ["the cat", "the mat"]
