"""A translator on the fast engine gives what it gives on the plain one, and keeps every promise of its own."""

import logging
import pickle
import shutil
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from clearhead.base.errors import BundleError, ConfigError, InputError
from clearhead.decoding.config import DecodingConfig, Sampling
from clearhead.decoding.search import Hypothesis, Model
from clearhead.engine import native as native_engine
from clearhead.engine.choose import Engine, choose_engine
from clearhead.engine.library import library
from clearhead.nn.padding import Padded
from clearhead.recipes import searching
from clearhead.recipes.alignments import Linker
from clearhead.recipes.translate import header, load, translate_file
from clearhead.recipes.translation import Translation
from clearhead.recipes.translator import Translator
from clearhead.text.glossary import Glossary, Term
from tests.unit.recipes.tiny import save_tiny, tiny_bundle, tiny_translator

pytestmark = pytest.mark.skipif(library() is None, reason="no native library")

TEXTS = ["the cat sat", "", "Anna", "the cat Bert sat on the mat. Really!", "  ", "x\u4f60\u597dy", "mat " * 30, "a"]
SHORT: dict[str, Any] = {"max_length": 12}


def translator(engine: str = "fast", precision: str = "fp32", *, consume: bool = False) -> Translator:
    bundle = tiny_bundle()
    chosen = choose_engine(bundle.model, engine, precision, consume=consume)  # type: ignore[arg-type]
    return Translator(chosen, bundle.tokenizers, bundle.languages, max_source_length=20)


def without_native(precision: str = "fp32") -> Translator:
    """The fast engine with its searches in PyTorch."""
    made = translator(precision=precision)
    return Translator(replace(made.engine, native=None), made.tokenizers, made.languages, max_source_length=20)


ROADS: dict[str, Callable[[], Translator]] = {
    "plain": lambda: translator("plain"),
    "native": translator,
    "native int8": lambda: translator(precision="int8", consume=True),
    "fused": without_native,
}


def texts_of(found: Sequence[Translation]) -> list[str]:
    return [each.text for each in found]


def alike(found: Sequence[Translation], expected: Sequence[Translation]) -> None:
    """Equal but for the last digits of scores."""
    assert [(each.text, each.tokens, each.flags) for each in found] == [
        (each.text, each.tokens, each.flags) for each in expected
    ]
    assert [each.score for each in found] == pytest.approx([each.score for each in expected], abs=1e-4)
    for ours, theirs in zip(found, expected, strict=True):
        if theirs.alternatives:
            alike(ours.alternatives, theirs.alternatives)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"beam": 1},
        {"n_best": 3},
        {"penalty": "length", "alpha": 1.3, "min_length": 3},
        {"prefixes": ["die Katze", "", "", "sass", "", "Wirklich!", "", "W"]},
        {"reproducible": True},
    ],
    ids=str,
)
@pytest.mark.parametrize("road", ["native", "fused"])
def test_the_fast_engine_translates_as_the_plain_one(options: dict[str, Any], road: str) -> None:
    expected = translator("plain").translate(TEXTS, **SHORT, **options)
    assert {"split", "blank"} <= {flag for each in expected for flag in each.flags}
    alike(ROADS[road]().translate(TEXTS, **SHORT, **options), expected)


def test_samples_and_glossaries_are_searched_in_pytorch() -> None:
    fast, plain = translator(), translator("plain")
    drawn = {"sampling": Sampling(temperature=1.2), "n_best": 2, "seed": 3, **SHORT}
    assert texts_of(fast.translate(TEXTS, **drawn)) == texts_of(plain.translate(TEXTS, **drawn))
    terms = Glossary([Term("cat", "Katze")])
    found = fast.translate(TEXTS, glossary=terms, **SHORT)
    alike(found, plain.translate(TEXTS, glossary=terms, **SHORT))
    assert "Katze" in found[0].text
    counted = translator()
    counted.translate(["the cat sat", "Anna", "mat"], glossary=terms, **SHORT)
    assert counted.steps.so_far()[1] == 2  # the texts without a term are the native library's


@pytest.mark.parametrize("road", ROADS)
def test_threads_may_share_a_translator(road: str) -> None:
    shared = ROADS[road]()
    tasks = [[f"{text} {number}" for text in TEXTS] for number in range(4)]
    alone = [ROADS[road]().translate(task, **SHORT) for task in tasks]
    assert len({tuple(texts_of(each)) for each in alone}) == 4
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda task: shared.translate(task, **SHORT), tasks * 2))
    assert found == alone * 2


def test_a_text_is_translated_alike_in_any_company() -> None:
    for precision in ("fp32", "int8"):
        fast = translator(precision=precision)
        together = fast.translate(TEXTS, **SHORT)
        assert fast.translate(TEXTS[::-1], **SHORT)[::-1] == together
        assert [fast.translate([text], **SHORT)[0] for text in TEXTS] == together
        assert list(fast.stream(TEXTS, DecodingConfig(max_length=12), window=3, batch_tokens=1)) == together


def test_batches_in_pytorch_are_shared_out_among_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"{text} {number}" for number in range(4) for text in TEXTS]
    expected = translator("plain").translate(texts, **SHORT)
    used: set[str] = set()
    real = searching.search

    def spied(model: Model, source: Padded, *rest: Any, keys: list[int], **named: Any) -> list[list[Hypothesis]]:
        used.add(threading.current_thread().name)
        if 2 in keys:
            raise RuntimeError("no")
        return real(model, source, *rest, keys=keys, **named)

    monkeypatch.setattr(searching, "search", spied)
    monkeypatch.setattr(searching, "usable_processors", lambda: 2)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        found = without_native().translate(texts, batch_tokens=200, **SHORT)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert threading.current_thread().name not in used
    assert found[2].flags == ("failed",)
    alike(found[:2] + found[3:], expected[:2] + expected[3:])


def test_steps_are_counted() -> None:
    fast = translator()
    assert fast.steps.so_far() == (0, 0)
    fast.translate(["the cat", "Anna", ""], beam=1, max_length=0)
    assert fast.steps.so_far() == (2, 2)  # EOS is all that may be written: a step each
    fast.translate(["the cat"], beam=1, min_length=5, max_length=5)
    assert fast.steps.so_far() == (8, 3)
    plain = translator("plain")
    plain.translate(["the cat"], **SHORT)
    assert plain.steps.so_far() == (0, 0)


def test_a_file_keeps_its_lines_and_tells_the_steps(tmp_path: Path) -> None:
    lines = [*TEXTS, "the cat\u2028sat", "\ttab\x0c", "the cat. " * 200]
    (tmp_path / "in").write_bytes("".join(f"{line}\n" for line in lines).encode())
    config = DecodingConfig(max_length=12)
    outcome = translate_file(translator(), config, tmp_path / "in", tmp_path / "out", window=4)
    plain = translate_file(translator("plain"), config, tmp_path / "in", tmp_path / "plain", window=4)
    assert (tmp_path / "out").read_bytes() == (tmp_path / "plain").read_bytes()
    assert outcome.lines == len(lines) == (tmp_path / "out").read_bytes().count(b"\n")
    assert outcome.flagged == plain.flagged
    assert plain.steps is None
    assert outcome.steps is not None and 1 <= outcome.steps <= 13
    assert outcome.summary().endswith(f"; {outcome.steps:.1f} decoder steps a sentence")


class Failing:
    """The native model, but for some sentences it fails in the way of `fault`."""

    def __init__(self, engine: Engine, fault: Callable[[Sequence[Sequence[int]]], list[int]]) -> None:
        assert engine.native is not None
        self._native, self._fault = engine.native, fault
        self.calls: list[int] = []

    @property
    def steps(self) -> tuple[int, int]:
        return self._native.steps

    def reaches(self, *what: Any) -> bool:
        return self._native.reaches(*what)

    def search(self, sources: Sequence[Sequence[int]], *rest: Any, **named: Any) -> list[list[Hypothesis] | None]:
        self.calls.append(len(sources))
        bad = self._fault(sources)
        found = self._native.search(sources, *rest, **named)
        return [None if place in bad else each for place, each in enumerate(found)]


def failing(fault: Callable[[Sequence[Sequence[int]]], list[int]]) -> tuple[Translator, Failing]:
    made = translator()
    native = Failing(made.engine, fault)
    engine = replace(made.engine, native=native)  # type: ignore[arg-type]
    return Translator(engine, made.tokenizers, made.languages, max_source_length=20), native


def test_a_sentence_of_no_numbers_fails_alone(caplog: pytest.LogCaptureFixture) -> None:
    anna = [*translator().tokenizers.source.encode("Anna"), 3]
    broken, native = failing(lambda sources: [place for place, each in enumerate(sources) if list(each) == anna])
    with caplog.at_level(logging.WARNING, logger="clearhead"):
        found = broken.translate(TEXTS, **SHORT)
    assert len(native.calls) == 1
    assert [each.flags for each in found if "failed" in each.flags] == [("failed",)]
    assert found[2] == Translation("", 0.0, flags=("failed",))
    assert "text 3 failed: the model's output is not a number" in caplog.text
    others = translator().translate(TEXTS, **SHORT)
    assert [*found[:2], *found[3:]] == [*others[:2], *others[3:]]


def test_what_is_too_much_for_memory_is_tried_in_halves() -> None:
    def greedy(sources: Sequence[Sequence[int]]) -> list[int]:
        if len(sources) > 2:
            raise MemoryError("no memory for a search")
        return []

    broken, native = failing(greedy)
    assert broken.translate(TEXTS, **SHORT) == translator().translate(TEXTS, **SHORT)
    assert max(native.calls) > 2 and native.calls[-1] <= 2


def test_an_interruption_passes_through() -> None:
    def interrupted(_: Sequence[Sequence[int]]) -> list[int]:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        failing(interrupted)[0].translate(TEXTS, **SHORT)


def test_progress_grows_to_the_number_of_texts() -> None:
    seen: list[int] = []
    made = translator()
    list(made.stream(TEXTS * 3, DecodingConfig(max_length=12), window=10, progress=seen.append))
    assert seen == sorted(seen)
    assert seen[-1] == len(TEXTS) * 3
    assert max(seen) <= len(TEXTS) * 3


class Bored(Exception):
    """What a caller's own function raises."""


@pytest.mark.parametrize("road", ROADS)
def test_what_progress_raises_is_the_callers(road: str, caplog: pytest.LogCaptureFixture) -> None:
    """It is no failure of a text: nothing is tried again in halves, and the exception arrives as it was raised."""
    calls: list[int] = []
    error = Bored("enough")

    def progress(done: int) -> None:
        calls.append(done)
        raise error

    with caplog.at_level(logging.DEBUG, logger="clearhead"), pytest.raises(Bored) as raised:
        ROADS[road]().translate(TEXTS, **SHORT, progress=progress)
    assert raised.value is error
    assert len(calls) == 1
    assert "failed" not in caplog.text
    assert len(ROADS[road]().translate(TEXTS, **SHORT, progress=lambda _: None)) == len(TEXTS)


def test_what_grows_beyond_the_reach_of_the_library_is_searched_in_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    made, config = translator(), DecodingConfig(max_length_extra=14, penalty="none")
    assert made.engine.native is not None
    whole = translator()
    whole.translate(TEXTS, config=config)
    monkeypatch.setattr(native_engine, "REACH", 20)  # for pieces of up to six tokens
    found = made.translate(TEXTS, config=config)
    assert 0 < made.steps.so_far()[1] < whole.steps.so_far()[1]
    alike(found, translator("plain").translate(TEXTS, config=config))
    with pytest.raises(InputError, match="of 21 tokens: the native library writes up to 20; set max_length"):
        made.engine.native.search([[5, 6, 7, 8, 9, 10, 11, 3]], config, batch_tokens=99, threads=1)
    assert made.engine.native.search([[5, 3]], config, batch_tokens=99, threads=1)[0]


def test_a_limit_out_of_all_measure_costs_no_table() -> None:
    made = translator()
    assert made.engine.native is not None
    found = made.translate(["the cat"], config=DecodingConfig(max_length_extra=10**12, max_length=9))
    alike(found, translator("plain").translate(["the cat"], max_length=9))
    with pytest.raises(InputError, match="translations of 1,000,000,000,001 tokens"):
        made.engine.native.search([[5, 3]], DecodingConfig(max_length_extra=10**12), batch_tokens=99, threads=1)
    assert sum(len(table) for table in made.engine.native._tables.values()) <= 4 * native_engine.REACH


@pytest.mark.parametrize("odd", [{"batch_tokens": 2**80}, {"batch_tokens": 1}])
def test_numbers_that_the_library_cannot_hold_are_bounded(odd: dict[str, int]) -> None:
    assert translator().translate(TEXTS, **SHORT, **odd) == translator().translate(TEXTS, **SHORT)


@pytest.mark.parametrize("usable", [1, 2])
def test_no_more_threads_than_processors(usable: int, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    made, before = translator(), torch.get_num_threads()
    assert made.engine.native is not None
    real = made.engine.native.search

    def spied(*rest: Any, threads: int, **named: Any) -> Any:
        asked.append(threads)
        return real(*rest, threads=threads, **named)

    monkeypatch.setattr(made.engine.native, "search", spied)
    monkeypatch.setattr(searching, "usable_processors", lambda: usable)
    try:
        torch.set_num_threads(2)
        made.translate(["the cat"], **SHORT)
    finally:
        torch.set_num_threads(before)
    assert asked == [usable]


def test_odd_arguments_are_refused_in_words() -> None:
    with pytest.raises(InputError, match=r"batch_tokens: must be a whole number, got 5\.5"):
        translator().translate(["a"], batch_tokens=5.5)  # type: ignore[arg-type]
    for many in ({"beam": 100_001}, {"n_best": 100_001, "beam": 100_000}):
        with pytest.raises(ConfigError, match=f"{next(iter(many))}.*100000"):
            translator().translate(["a"], **many)  # type: ignore[arg-type]


def test_a_damaged_model_fails_line_by_line() -> None:
    bundle = tiny_bundle()
    with torch.no_grad():
        bundle.model.decoder.output.weight.mul_(1e38)  # type: ignore[union-attr,operator]
    engine = choose_engine(bundle.model, "fast", "fp32")
    found = Translator(engine, bundle.tokenizers, bundle.languages).translate(["the cat", "", "mat"], **SHORT)
    assert [each.flags for each in found] == [("failed",), ("blank",), ("failed",)]


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny(tmp_path_factory.mktemp("bundles") / "tiny")


def test_loading_chooses_the_engine(saved: Path) -> None:
    fast, plain = load(saved, "cpu"), load(saved, "cpu", engine="plain")
    assert (fast.engine.name, plain.engine.name) == ("fast", "plain")
    alike(fast.translate(TEXTS, **SHORT), plain.translate(TEXTS, **SHORT))
    config = DecodingConfig(reproducible=True)
    assert "fast engine, fp32, " in header(fast, config, "x") and header(fast, config, "x").endswith("reproducible")
    assert "; plain engine; " in header(plain, config, "x")
    int8 = load(saved, "cpu", precision="int8")
    assert f"fast engine, int8, native library ({library().level}); " in header(int8, config, "x")  # type: ignore[union-attr]
    assert header(int8, config, "x").split(" parameters")[0] == header(plain, config, "x").split(" parameters")[0]


def test_the_weights_as_trained_are_read_again_when_asked_for(saved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fast, trained = load(saved, "cpu"), tiny_bundle().model
    assert (fast.engine.name, fast.engine.plain) == ("fast", None)
    monkeypatch.chdir(saved.parent)
    with ThreadPoolExecutor(4) as pool:
        models = list(pool.map(lambda _: fast.model, range(8)))
    assert len({id(each) for each in models}) == 1
    assert not models[0].training
    for ours, theirs in zip(models[0].parameters(), trained.parameters(), strict=True):
        assert torch.equal(ours, theirs)
    assert fast.tagged(None).model is fast.model
    assert load(saved, "cpu", engine="plain").engine.plain is not None


def test_a_bundle_that_is_gone_or_another_is_not_read_again(tmp_path: Path) -> None:
    path = save_tiny(tmp_path / "tiny")
    one, other = load(path, "cpu"), load(path, "cpu")
    shutil.rmtree(path)
    with pytest.raises(BundleError, match="tiny"):
        one.model  # noqa: B018 (reading it is what is tested)
    with pytest.raises(BundleError, match="tiny"):
        one.score(["a"], ["b"])
    save_tiny(path, seed=5)
    with pytest.raises(BundleError, match="was written anew after it was loaded; load it again"):
        other.model  # noqa: B018
    assert texts_of(one.translate(TEXTS, **SHORT)) == texts_of(tiny_translator().translate(TEXTS, **SHORT))


def test_a_model_in_the_library_stays_in_its_process(saved: Path) -> None:
    with pytest.raises(TypeError, match="load the bundle in the other process"):
        pickle.dumps(load(saved, "cpu"))


def test_the_header_counts_threads(saved: Path) -> None:
    before, made = torch.get_num_threads(), load(saved, "cpu")
    try:
        for count, words in ((1, "; cpu, 1 thread; fast"), (2, "; cpu, 2 threads; fast")):
            torch.set_num_threads(count)
            assert words in header(made, DecodingConfig(), "x")
    finally:
        torch.set_num_threads(before)


def test_what_needs_the_weights_as_trained_is_refused_without_them(saved: Path) -> None:
    int8 = load(saved, "cpu", precision="int8")
    for needs in (lambda: int8.model, int8.writing_unknown, lambda: Linker(int8)):
        with pytest.raises(InputError, match="precision int8 keeps them packed alone"):
            needs()
    with pytest.raises(InputError, match="reproducible in precision int8"):
        int8.translate(["a"], reproducible=True, sampling=Sampling())
    with pytest.raises(InputError, match="reproducible in precision int8"):
        int8.score(["a"], ["b"], reproducible=True)
    assert load(saved, "cpu").writing_unknown().translate(["the cat"], **SHORT)[0].text


def test_scores_are_those_of_the_engine(saved: Path) -> None:
    int8, fp32 = load(saved, "cpu", precision="int8"), load(saved, "cpu")
    texts = [text for text in TEXTS[:4] if text]
    for loaded in (int8, fp32):
        found = loaded.translate(texts, beam=1, **SHORT)
        whole = [(text, each) for text, each in zip(texts, found, strict=True) if not each.flags]
        scored = loaded.score([text for text, _ in whole], [each.text for _, each in whole])
        again = [loaded.tokenizers.target.encode(each.text) for _, each in whole]
        for (_, each), ids, given in zip(whole, again, scored, strict=True):
            if loaded.tokenizers.target.pieces(ids) == list(each.tokens):
                assert given.log_prob == pytest.approx(each.log_prob, abs=0.05 if loaded is int8 else 1e-3)
    assert fp32.score(["a"], ["b"]) == tiny_translator().score(["a"], ["b"])
    assert int8.score(["a"], ["b"]) != fp32.score(["a"], ["b"])


def test_a_tagged_translator_shares_the_engine() -> None:
    made = translator()
    assert made.tagged(None).engine is made.engine
