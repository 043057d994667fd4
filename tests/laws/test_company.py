"""What stands beside a sentence in its batch, and in which order, must not matter: how exactly, the arithmetic decides.

Reproducible search: not a bit differs. Float64: no translation differs, and no log-probability by more than 1e-9.
Float32: translations differ only where two continuations are as good as equal.

Each law is followed by faults that it catches.
"""

import random
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from importlib import import_module

import pytest
import torch
from torch import Tensor

from clearhead.decoding import beam as beam_module
from clearhead.decoding import fixed
from clearhead.decoding.beam import Beams
from clearhead.decoding.config import DecodingConfig, Sampling
from clearhead.decoding.hypotheses import Limits
from clearhead.decoding.prefill import Start
from clearhead.decoding.search import Hypothesis, force, search
from clearhead.models import presets
from clearhead.models.build import build
from clearhead.models.protocols import Decoder
from clearhead.models.seq2seq import Seq2Seq
from clearhead.nn.padding import Padded
from clearhead.nn.visibility import Visibility
from clearhead.text.symbols import EOS
from tests.unit.decoding.markov import Markov

search_module = import_module("clearhead.decoding.search")  # the package gives the function of that name

VOCABULARY = 300
COUNT = 160
ENDING = 9.0
"""How much longer the embedding of EOS is than it was: so much that a third of the sentences end before their limit."""
LIMITS = {"max_length_ratio": 0.2, "max_length_extra": 4}
CONFIGS = {
    "beam": DecodingConfig(**LIMITS, n_best=2),
    "greedy": DecodingConfig(**LIMITS, beam=1),
    "sampling": DecodingConfig(**LIMITS, sampling=Sampling(temperature=0.9, top_p=0.95)),
}
Found = dict[int, list[Hypothesis]]


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """The laws are about one machine with one number of threads."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def twins(seed: int = 1) -> Seq2Seq:
    """Random weights, drawn wide; each word has a twin that the model can hardly tell from it (by 1 in 10⁷)."""
    shape = {"d_model": 32, "d_ff": 64, "encoder_layers": 1, "decoder_layers": 1, "attention": {"heads": 2}}
    model = build(presets.tiny(vocab_size=VOCABULARY, **shape), seed=seed).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.7)
        weight = dict(model.named_parameters())["encoder.input.embedding.weight"]
        noise = torch.randn(weight[4::2].shape, generator=torch.Generator().manual_seed(seed), dtype=weight.dtype)
        weight[5::2] = weight[4::2] * (1 + 1e-7 * noise)
        weight[EOS] *= ENDING
    return model.eval()


def sources() -> list[list[int]]:
    """Sentences of 1 to 40 words and one that is longer than a fused kernel's threshold."""
    draw = random.Random(5)
    lengths = [draw.randint(1, 40) for _ in range(COUNT - 1)] + [140]
    return [[*(draw.randrange(4, VOCABULARY) for _ in range(length)), EOS] for length in lengths]


SOURCES = sources()
PREFIXES = [
    source[: number % 3] if number % 4 == 0 and len(source) > 3 else [] for number, source in enumerate(SOURCES)
]


def in_company(model: Seq2Seq, config: DecodingConfig, order: Sequence[int], size: int) -> Found:
    """What `search` finds for the sentences that `order` names, when they come in it, `size` at a time."""
    found: Found = {}
    for first in range(0, len(order), size):
        part = list(order[first : first + size])
        batch = Padded.from_lists([SOURCES[n] for n in part])
        hypotheses = search(model, batch, config, keys=part, prefixes=[PREFIXES[n] for n in part])
        found.update(zip(part, hypotheses, strict=True))
    return found


def forced(model: Seq2Seq, targets: Sequence[Sequence[int]], exact: bool, order: Sequence[int], size: int) -> Found:
    """The same for `force`."""
    found: Found = {}
    for first in range(0, len(order), size):
        part = list(order[first : first + size])
        batch = Padded.from_lists([SOURCES[n] for n in part])
        scored = force(model, batch, [targets[n] for n in part], DecodingConfig(reproducible=exact))
        found.update((n, [each]) for n, each in zip(part, scored, strict=True))
    return found


def companies(count: int = COUNT) -> list[tuple[list[int], int]]:
    """Orders and sizes of batches: all at once; shuffled by 7 and by 64; every eighth sentence alone."""
    draw = random.Random(2)
    shuffled = [(draw.sample(range(count), count), size) for size in (7, 64)]
    return [(list(range(count)), count), *shuffled, (list(range(0, count, 8)), 1)]


def pairs(one: Found, other: Found) -> list[tuple[Hypothesis, Hypothesis]]:
    """The hypotheses of the sentences that both have, side by side."""
    common = sorted(one.keys() & other.keys())
    return [pair for n in common for pair in zip(one[n], other[n], strict=True)]


def equal(one: Found, other: Found) -> bool:
    """Whether texts, scores and the log-probability of every token are the same to the last bit."""

    def figures(each: Hypothesis) -> Tensor:
        return torch.tensor([each.score, each.log_prob, *each.token_log_probs], dtype=torch.float64)

    return all(h.tokens == g.tokens and torch.equal(figures(h), figures(g)) for h, g in pairs(one, other))


# ------------------------------------------------------------------------------------------------ reproducible search


def reproducible(model: Seq2Seq, config: DecodingConfig, count: int = COUNT) -> bool:
    first, *others = [in_company(model, config, *each) for each in companies(count)]
    assert len({each[0].tokens for each in first.values()}) > count // 4  # or there would be little to confuse
    return all(equal(first, other) for other in others)


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS.keys())
def test_reproducible_translation_does_not_depend_on_company(config: DecodingConfig) -> None:
    assert reproducible(twins().float(), config.model_copy(update={"reproducible": True}))


def ancestor(preset: str) -> Seq2Seq:
    """A small one with weights drawn wide, in float32."""
    model = build(presets.named(preset, VOCABULARY), seed=1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.7)
    return model.eval()


ANCESTORS = ("seq2seq-tiny", "rnnsearch-tiny", "luong-local-p-tiny", "convs2s-tiny", "bytenet-tiny")


@pytest.mark.parametrize("preset", ANCESTORS)
def test_nor_do_those_of_an_ancestor(preset: str) -> None:
    model, config = ancestor(preset), CONFIGS["beam"].model_copy(update={"reproducible": True})
    first, *others = [in_company(model, config, *each) for each in companies(24)]
    assert all(equal(first, other) for other in others)
    targets = [source[:-1][: 1 + number % 20] for number, source in enumerate(SOURCES)]
    first, *others = [forced(model, targets, True, *each) for each in companies(24)]
    assert all(equal(first, other) for other in others)


def test_the_law_sees_a_kernel_that_packs_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fixed, "rows_apart", nullcontext)
    with pytest.raises(AssertionError):
        test_nor_do_those_of_an_ancestor("seq2seq-tiny")


def test_without_it_the_last_bits_do() -> None:
    assert not reproducible(twins().float(), CONFIGS["beam"], 40)


def test_reproducible_scores_do_not_depend_on_company() -> None:
    model = twins().float()
    targets = [source[:-1][: 1 + number % 20] for number, source in enumerate(SOURCES)]
    first, *others = [forced(model, targets, True, *each) for each in companies()]
    assert all(equal(first, other) for other in others)
    assert not equal(first, forced(model, targets, False, *companies()[0]))


def test_reproducible_search_finds_what_the_usual_one_finds() -> None:
    model = twins()
    for config in CONFIGS.values():
        usual = in_company(model, config, *companies(40)[0])
        exact = in_company(model, config.model_copy(update={"reproducible": True}), *companies(40)[0])
        assert close(usual, exact)


def test_the_law_sees_rows_that_are_not_filled(monkeypatch: pytest.MonkeyPatch) -> None:
    def unfilled(shapes: Sequence[tuple[int, int]], call: Callable[..., Sequence[object]]) -> list[object]:
        found: dict[int, object] = {}
        for shape in dict.fromkeys(shapes):
            places = [place for place, each in enumerate(shapes) if each == shape]
            found.update(zip(places, call(shape, places), strict=True))
        return [found[place] for place in range(len(shapes))]

    monkeypatch.setattr(search_module, "by_shape", unfilled)
    assert not reproducible(twins().float(), CONFIGS["beam"].model_copy(update={"reproducible": True}), 40)


def test_the_law_sees_lengths_that_are_not_rounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_module, "rounded", lambda length: 48 if length <= 48 else length)
    monkeypatch.setattr(search_module, "take", lambda source, places, width: source.rows(torch.tensor(places)))
    assert not reproducible(twins().float(), CONFIGS["beam"].model_copy(update={"reproducible": True}), 40)


def test_the_law_sees_finished_sentences_that_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    def leaving(decoder: Decoder, start: Start, limits: list[Limits], config: DecodingConfig) -> list[list[Hypothesis]]:
        return beam_module.beam_search(decoder, start, limits, config.model_copy(update={"reproducible": False}))

    monkeypatch.setattr(search_module, "beam_search", leaving)
    assert not reproducible(twins().float(), CONFIGS["greedy"].model_copy(update={"reproducible": True}))


def gathers_no_endings() -> bool:
    """Whether a sentence that is done stays as it is while its company goes on, as in the usual search."""
    usual = DecodingConfig(beam=1, max_length=12, penalty="length", alpha=1.0)
    batch = Padded.from_lists([[4, 5, EOS], [5, EOS], [6, 4, 4, EOS], [EOS], [4, 6, EOS]])
    models = [Markov(seed=seed, spread=0.7) for seed in range(12)]
    exact = usual.model_copy(update={"reproducible": True})
    return all(search(model, batch, usual) == search(model, batch, exact) for model in models)


def test_a_sentence_that_is_done_gathers_no_endings(monkeypatch: pytest.MonkeyPatch) -> None:
    assert gathers_no_endings()
    monkeypatch.setattr(Beams, "close", lambda self, rows: self)
    assert not gathers_no_endings()


# ----------------------------------------------------------------------------------------------------------- float64


def close(one: Found, other: Found, tolerance: float = 1e-9) -> bool:
    """Whether all texts are the same and no log-probability differs by more than `tolerance`."""
    return all(
        h.tokens == g.tokens
        and h.finished == g.finished
        and max(abs(p - q) for p, q in zip(h.token_log_probs, g.token_log_probs, strict=True)) <= tolerance
        for h, g in pairs(one, other)
    )


def exact_in_float64(config: DecodingConfig, count: int = COUNT) -> bool:
    first, *others = [in_company(twins(), config, *each) for each in companies(count)]
    return all(close(first, other) for other in others)


@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS.keys())
def test_in_float64_no_translation_changes(config: DecodingConfig) -> None:
    assert exact_in_float64(config)


def see_padding(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault: a source's padding can be read."""
    monkeypatch.setattr(Visibility, "of_keys", classmethod(lambda cls, mask: cls(torch.ones_like(mask)[:, None, None])))


def test_float64_sees_padding_that_can_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    see_padding(monkeypatch)
    assert not exact_in_float64(CONFIGS["greedy"], 40)


# ----------------------------------------------------------------------------------------------------------- float32

NOISE = 1e-4
"""What float32 may do to the log-probability of one token; measured 6e-6 on trained models."""


def changes(one: Found, other: Found) -> tuple[int, int]:
    """How many texts differ, and how many of those without a near-tie to excuse them (or beyond `NOISE`).

    A near-tie: in float64 the two tokens in which they first differ are no further apart than 4 × `NOISE`.
    """
    model, changed, wrong = twins(), 0, 0
    for number in sorted(one.keys() & other.keys()):
        a, b = one[number][0], other[number][0]
        ours, theirs = (*a.tokens, EOS), (*b.tokens, EOS)
        same = next((n for n, (x, y) in enumerate(zip(ours, theirs, strict=False)) if x != y), len(ours))
        noisy = any(abs(p - q) > NOISE for p, q in zip(a.token_log_probs[:same], b.token_log_probs[:same], strict=True))
        changed += ours != theirs
        wrong += noisy or (ours != theirs and _gap(model, number, ours[: same + 1], theirs[: same + 1]) > 4 * NOISE)
    return changed, wrong


def _gap(model: Seq2Seq, number: int, one: Sequence[int], other: Sequence[int]) -> float:
    """How far apart the log-probabilities of the last tokens are, which may be EOS."""
    texts = [list(each[:-1] if each[-1] == EOS else each) for each in (one, other)]
    found = force(model, Padded.from_lists([SOURCES[number]] * 2), texts)
    first, second = (each.token_log_probs[len(one) - 1] for each in found)
    return abs(first - second)


def test_in_float32_translations_change_at_near_ties_only() -> None:
    first, *others = [in_company(twins().float(), CONFIGS["greedy"], *each) for each in companies()]
    found = [changes(first, other) for other in others]
    assert sum(changed for changed, _ in found) > 0  # the twins see to it, or nothing would be judged
    assert sum(wrong for _, wrong in found) == 0


def test_float32_law_sees_padding_that_can_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    see_padding(monkeypatch)
    first, other = [in_company(twins().float(), CONFIGS["greedy"], *each) for each in companies(40)[:2]]
    monkeypatch.undo()
    assert changes(first, other)[1] > 0


def test_float32_law_sees_the_second_best_token_taken_in_company(monkeypatch: pytest.MonkeyPatch) -> None:
    """No log-probability is wrong then; only the choice is."""
    top = beam_module.top_tokens

    def fickle(logits: Tensor, count: int, *rest: Tensor | None) -> Iterable[Tensor]:
        values, tokens = top(logits, count + 1, *rest)
        choice = (values.amin(dim=1) > -torch.inf)[:, None] & (
            len(logits) > 20
        )  # none at the limit, where EOS must come
        return (torch.where(choice, each[:, 1:], each[:, :count]) for each in (values, tokens))

    monkeypatch.setattr(beam_module, "top_tokens", fickle)
    first, other = [in_company(twins().float(), CONFIGS["greedy"], *each) for each in companies(40)[:2]]
    monkeypatch.undo()
    assert changes(first, other)[1] > 0
