"""Attention over the source and over windows of it: hand-worked numbers, edges of sentences, gradients, faults."""

from __future__ import annotations

import math
from typing import get_args

import pytest
import torch
from torch import Tensor, nn

from clearhead.base.errors import ConfigError
from clearhead.inspection.recorders import recording_twin
from clearhead.nn.cores import Core
from clearhead.nn.scores import Dot, Location, Score, ScoreKind, make_score
from clearhead.nn.visibility import Visibility
from clearhead.nn.windows import GlobalCore, LocalMonotonicCore, LocalPredictiveCore

LN2, LN3 = math.log(2), math.log(3)
LENGTHS = torch.tensor([7, 4, 1, 0])


def tensor(values: object) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def draw(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def filled(core: GlobalCore, seed: int = 0) -> GlobalCore:
    generator = torch.Generator().manual_seed(seed)
    for parameter in core.double().parameters():
        nn.init.normal_(parameter, generator=generator)
    return core


def seen(lengths: Tensor, width: int, positions: Tensor | None = None) -> Visibility:
    """The first `lengths` of `width` keys, asked from `positions` [R, T]."""
    return Visibility((torch.arange(width) < lengths[:, None])[:, None, None, :], positions)


def close(found: Tensor, wanted: object, atol: float = 1e-14) -> None:
    wanted = wanted if isinstance(wanted, Tensor) else tensor(wanted)
    torch.testing.assert_close(found, wanted, rtol=0, atol=atol)


class Fixed(Score):
    """Scores that stand in the keys themselves: key s scores keys[s, 0], whoever asks."""

    def __init__(self) -> None:
        super().__init__(1, 1)

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        return key[..., 0][:, :, None].expand(-1, -1, query.shape[2], -1)


def over(core: GlobalCore, scores: list[float], length: int, queries: Tensor, positions: list[int] | None) -> Tensor:
    """The weights [T, S] of one row whose keys score `scores`, `length` of them real."""
    keys = tensor(scores)[None, :, None]
    where = None if positions is None else torch.tensor([positions])
    visibility = seen(torch.tensor([length]), len(scores), where)
    return core.weights(queries[None, None], core.remember(keys), visibility)[0, 0]


# ---------------------------------------------------------------------------------------------------- by hand


def test_global_by_hand() -> None:
    """Scores 0, ln 3, ln 4 are weights 1, 3, 4 of 8; of the first two alone, 1 and 3 of 4."""
    core, scores, query = GlobalCore(Fixed()), [0.0, LN3, math.log(4)], torch.zeros(1, 1, dtype=torch.float64)
    close(over(core, scores, 3, query, None), [[1 / 8, 3 / 8, 4 / 8]])
    close(over(core, scores, 2, query, None), [[1 / 4, 3 / 4, 0.0]])
    close(over(core, scores, 0, query, None), [[0.0, 0.0, 0.0]])


ONE_TO_SIX = [math.log(weight) for weight in (1, 2, 3, 4, 5, 6)]


def test_local_m_by_hand() -> None:
    """Keys that weigh 1 … 6, D = 1, five of them real: the window at t = 0, 2, 4, and beyond the source."""
    core, queries = LocalMonotonicCore(Fixed(), window=1), torch.zeros(5, 1, dtype=torch.float64)
    wanted = [
        [1 / 3, 2 / 3, 0, 0, 0, 0],  # t = 0: cut by the beginning
        [0, 2 / 9, 3 / 9, 4 / 9, 0, 0],
        [0, 0, 0, 4 / 9, 5 / 9, 0],  # t = 4: cut by the end, not by the padding
        [0, 0, 0, 4 / 9, 5 / 9, 0],  # t = 5 and 99: the window stays at the last word
        [0, 0, 0, 4 / 9, 5 / 9, 0],
    ]
    close(over(core, ONE_TO_SIX, 5, queries, [0, 2, 4, 5, 99]), wanted)


def predictive(window: int, share: float, score: Score | None = None) -> LocalPredictiveCore:
    """local-p whose p_t is S·σ(share) for the query (ln 2 → tanh 3/5) through W_p = 1 and v_p = share·5/3."""
    core = LocalPredictiveCore(score or Fixed(), window).double()
    with torch.no_grad():
        core.hidden.weight.fill_(1.0)
        core.position.weight.fill_(share * 5 / 3)
    return core


QUERY = tensor([[LN2]])


def test_local_p_by_hand() -> None:
    """S = 4 of 6 keys, σ(ln 3) = 3/4, p = 3: window of D = 2 is 1 … 3, softmax 2, 3, 4 of 9, Gaussian with σ = 1."""
    core = predictive(2, LN3)
    close(core.centre(QUERY[None, None], seen(torch.tensor([4]), 6)), [[[3.0]]])
    gauss = [math.exp(-((s - 3) ** 2) / 2) for s in range(4)]
    close(over(core, ONE_TO_SIX, 4, QUERY, None), [[0, 2 / 9 * gauss[1], 3 / 9 * gauss[2], 4 / 9 * gauss[3], 0, 0]])


def test_local_p_between_two_words() -> None:
    """S = 5, p = 5/2: with D = 1 the words 2 and 3 are in, each half a word away; exp(−2·¼) = exp(−½)."""
    found = over(predictive(1, 0.0), ONE_TO_SIX, 5, QUERY, None)
    close(found, [[0, 0, 3 / 7 * math.exp(-0.5), 4 / 7 * math.exp(-0.5), 0, 0]])
    close(found.sum(), math.exp(-0.5))  # not renormalised


@pytest.mark.parametrize(("share", "kept"), [(-50.0, [0, 1]), (50.0, [3, 4])])
def test_local_p_at_the_ends_of_the_source(share: float, kept: list[int]) -> None:
    """p → 0 sees the first words; p → S = 5 the last, where word 5 would be padding."""
    found = over(predictive(2, share), ONE_TO_SIX, 5, QUERY, None)[0]
    assert (found[kept] > 0).all()
    p = 0.0 if share < 0 else 5.0
    inside = [s for s in range(5) if abs(s - p) <= 2]
    total = sum(s + 1 for s in inside)
    wanted = [(s + 1) / total * math.exp(-((s - p) ** 2) / 2) if s in inside else 0.0 for s in range(6)]
    close(found, wanted, 1e-12)


def test_both_edges_of_a_window_belong_to_it() -> None:
    """p = 3 exactly and D = 1: words 2, 3 and 4."""
    found = over(predictive(1, 0.0), [0.0] * 6, 6, QUERY, None)
    assert (found[0] > 0).tolist() == [False, False, True, True, True, False]


# ---------------------------------------------------------------------------------------------------- by the formula


def by_the_formula(core: GlobalCore, query: Tensor, keys: Tensor, length: int, t: int) -> list[float]:
    """The weights of one query over the keys [S, D] of one row, in plain numbers from the paper's definitions."""
    width = keys.shape[0]
    scores = core.score(query[None, None, None], core.score.remember(keys[None]))[0, 0, 0].tolist()
    reach = width if core.score.reach is None else core.score.reach
    p: float | None = None
    if isinstance(core, LocalMonotonicCore):
        p = min(t, length - 1)
    elif isinstance(core, LocalPredictiveCore):
        inner = core.position.weight[0] @ (core.hidden.weight @ query).tanh()
        p = length / (1 + math.exp(-inner.item()))
    inside = [
        s
        for s in range(min(length, reach))
        if p is None or p - core.window <= s <= p + core.window  # type: ignore[attr-defined]
    ]
    total = sum(math.exp(scores[s]) for s in inside)
    weights = [math.exp(scores[s]) / total if s in inside else 0.0 for s in range(width)]
    if isinstance(core, LocalPredictiveCore):
        assert p is not None
        weights = [w * math.exp(-((s - p) ** 2) / (2 * (core.window / 2) ** 2)) for s, w in enumerate(weights)]
    return weights


def cores(kind: ScoreKind) -> list[GlobalCore]:
    """Each kind of core over that score, at widths 4 (queries, keys), with a window of ± 2 and a reach of 5."""
    score = [make_score(kind, 4, 4, width=3, max_length=5) for _ in range(3)]
    return [
        filled(core)
        for core in (GlobalCore(score[0]), LocalMonotonicCore(score[1], 2), LocalPredictiveCore(score[2], 2, width=3))
    ]


POSITIONS = torch.tensor([[0, 3, 6, 9]] * 4)


@pytest.mark.parametrize("kind", get_args(ScoreKind))
def test_weights_by_the_formula(kind: ScoreKind) -> None:
    for core in cores(kind):
        query, keys = draw(4, 1, 4, 4), draw(4, 7, 4, seed=2)
        found = core.weights(query, core.remember(keys), seen(LENGTHS, 7, POSITIONS))
        assert found.shape == (4, 1, 4, 7)
        for row, length in enumerate(LENGTHS.tolist()):
            for step, t in enumerate(POSITIONS[0].tolist()):
                wanted = by_the_formula(core, query[row, 0, step], keys[row], length, t)
                close(found[row, 0, step], wanted, 1e-12)


@pytest.mark.parametrize("kind", get_args(ScoreKind))
def test_the_context_is_weights_times_values(kind: ScoreKind) -> None:
    """The law of every `Core`; values may be of another width than what is scored."""
    for core in cores(kind):
        query, keys, values = draw(4, 1, 4, 4), draw(4, 7, 4, seed=2), draw(4, 1, 7, 6, seed=3)
        kept, visibility = core.remember(keys), seen(LENGTHS, 7, POSITIONS)
        close(core(query, kept, values, visibility), core.weights(query, kept, visibility) @ values)


@pytest.mark.parametrize("kind", get_args(ScoreKind))
def test_padding_cannot_be_seen(kind: ScoreKind) -> None:
    """Neither its content nor its amount: S is the true length, also for p_t."""
    for core in cores(kind):
        query, keys = draw(4, 1, 4, 4), draw(4, 7, 4, seed=2)
        plain = core.weights(query, core.remember(keys), seen(LENGTHS, 7, POSITIONS))
        padding = (torch.arange(7) >= LENGTHS[:, None])[:, :, None]
        other = torch.cat([torch.where(padding, 1e3, keys), draw(4, 3, 4, seed=5)], 1)
        wider = core.weights(query, core.remember(other), seen(LENGTHS, 10, POSITIONS))
        close(wider[..., :7], plain)
        assert not wider[..., 7:].any()


def test_folded_hypotheses_ask_as_if_each_had_its_own_row() -> None:
    """Two hypotheses of a sentence as queries of one row, each at its own position."""
    for core in cores("general"):
        query, keys, lengths = draw(2, 1, 6, 4), draw(2, 7, 4, seed=2), torch.tensor([7, 4])
        positions = torch.tensor([[0, 1, 2, 5, 6, 7], [2, 2, 2, 3, 3, 3]])
        folded = core.weights(query, core.remember(keys), seen(lengths, 7, positions))
        for column in range(6):
            one = core.weights(query[:, :, [column]], core.remember(keys), seen(lengths, 7, positions[:, [column]]))
            close(folded[:, :, [column]], one)


# ---------------------------------------------------------------------------------------------------- blanks, types


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.float64])
@pytest.mark.parametrize("kind", get_args(ScoreKind))
def test_a_query_that_may_read_nothing(kind: ScoreKind, dtype: torch.dtype) -> None:
    """Weights and context exactly zero, gradients finite, in every precision; and what can be read sums to one."""
    for core in cores(kind):
        core.to(dtype)
        query, keys = draw(4, 1, 4, 4).to(dtype).requires_grad_(), draw(4, 7, 4, seed=2).to(dtype).requires_grad_()
        visibility = seen(LENGTHS, 7, POSITIONS)
        weights = core.weights(query, core.remember(keys), visibility)
        context = core(query, core.remember(keys), keys[:, None], visibility)
        assert weights.dtype is context.dtype is dtype
        assert not weights[3].any() and not context[3].any()
        sums = weights.sum(-1)[:3].double()
        reaching = sums > 0  # a window beyond the reach of the location score is blank
        if isinstance(core, LocalPredictiveCore):
            assert (sums < 1).all()
        else:
            torch.testing.assert_close(sums[reaching], torch.ones_like(sums[reaching]), rtol=0, atol=5e-3)
        assert bool(reaching.all()) or kind == "location"
        (context.double().square().sum() + weights.double().square().sum()).backward()
        for part in (query, keys):
            assert part.grad is not None and bool(torch.isfinite(part.grad).all())
            assert not part.grad[3].any()


def test_a_window_beyond_the_reach_of_the_location_score_reads_nothing() -> None:
    """Position 6 and its neighbours have no row in W_a: not a uniform row over what has no score."""
    core = filled(LocalMonotonicCore(Location(4, 4, max_length=3), window=2))
    found = core.weights(draw(1, 1, 1, 4), draw(1, 1, 7, 4), seen(torch.tensor([7]), 7, torch.tensor([[6]])))
    assert not found.any()


# ---------------------------------------------------------------------------------------------------- gradients, faults


def local_p() -> LocalPredictiveCore:
    core = filled(LocalPredictiveCore(make_score("general", 4, 4), 2))
    assert isinstance(core, LocalPredictiveCore)
    return core


def moves(core: Core) -> bool:
    """Whether a loss on the context reaches W_p and v_p."""
    query, keys = draw(2, 1, 3, 4), draw(2, 7, 4, seed=2)
    kept = core.remember(keys)
    core(query, kept, keys[:, None], seen(torch.tensor([7, 4]), 7)).square().sum().backward()
    learnt = [core.get_submodule(name).weight.grad for name in ("hidden", "position")]
    return all(grad is not None and bool(grad.any()) for grad in learnt)


def test_the_position_learns_through_the_gaussian() -> None:
    assert moves(local_p())


def test_gradients_of_local_p_by_finite_differences() -> None:
    core, query, keys = local_p(), draw(1, 1, 2, 4), draw(1, 7, 4, seed=2)
    visibility = seen(torch.tensor([7]), 7)

    def context(hidden: Tensor, position: Tensor, query: Tensor, keys: Tensor) -> Tensor:
        weights = {"hidden.weight": hidden, "position.weight": position}
        result: Tensor = torch.func.functional_call(
            core, weights, (query, core.remember(keys), keys[:, None], visibility)
        )
        return result

    inputs = (core.hidden.weight, core.position.weight, query.requires_grad_(), keys.requires_grad_())
    assert torch.autograd.gradcheck(context, inputs)


def test_a_rounded_position_would_not_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fault that the test of the gradient must catch."""
    exact = LocalPredictiveCore.centre
    monkeypatch.setattr(LocalPredictiveCore, "centre", lambda *given: exact(*given).round())
    assert not moves(local_p())


def test_the_numbers_notice_a_gaussian_within_the_softmax() -> None:
    """The fault of renormalising (the chapter's formula): rows that sum to one."""
    exact = over(predictive(2, LN3), ONE_TO_SIX, 4, QUERY, None)
    assert exact.sum() < 0.9
    assert not torch.allclose(exact, exact / exact.sum(), atol=0.05)


def test_a_wide_window_is_global_attention() -> None:
    """local-m with D ≥ S is the global core; local-p is it times a Gaussian that is nearly flat."""
    score = make_score("general", 4, 4)
    whole, abreast, around = GlobalCore(score), LocalMonotonicCore(score, 99), LocalPredictiveCore(score, 10**9)
    filled(around)
    query, keys, visibility = draw(4, 1, 4, 4), draw(4, 7, 4, seed=2), seen(LENGTHS, 7, POSITIONS)
    kept = score.remember(keys)
    wanted = whole.weights(query, kept, visibility)
    close(abreast.weights(query, kept, visibility), wanted)
    close(around.weights(query, kept, visibility), wanted, 1e-12)


def test_what_cannot_be() -> None:
    with pytest.raises(ConfigError, match="at least one word on each side, not 0"):
        LocalMonotonicCore(Dot(4, 4), window=0)
    core = LocalMonotonicCore(Dot(4, 4))
    with pytest.raises(ValueError, match="give visibility its query_positions"):
        core.weights(draw(1, 1, 1, 4), draw(1, 1, 7, 4), seen(torch.tensor([7]), 7))


def test_a_recorder_can_stand_for_each_core() -> None:
    """What decoders call of a core (`remember`, the core itself) a recording twin offers too, to the last bit."""
    for core in cores("additive"):
        query, keys, visibility = draw(4, 1, 4, 4), draw(4, 7, 4, seed=2), seen(LENGTHS, 7, POSITIONS)
        looked_at, recording = recording_twin(nn.ModuleDict({"core": core}))
        recorder = looked_at["core"]
        assert isinstance(recorder, Core) and type(recorder) is not type(core)
        context = recorder(query, recorder.remember(keys), keys[:, None], visibility)
        assert torch.equal(context, core(query, core.remember(keys), keys[:, None], visibility))
        assert torch.equal(recording.attention["core"].weights, core.weights(query, core.remember(keys), visibility))


def test_a_position_is_finer_than_eight_bits() -> None:
    """S = 301 and σ(0) = ½: p = 150.5, which bfloat16 has not."""
    core = local_p().bfloat16()
    found = core.centre(torch.zeros(1, 1, 1, 4, dtype=torch.bfloat16), seen(torch.tensor([301]), 301))
    assert found.dtype is torch.float32 and found.item() == 150.5
