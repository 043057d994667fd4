"""Every score against numbers worked out by hand (tanh(ln 2) = 3/5, tanh(ln 3) = 4/5) and its formula pair by pair."""

from __future__ import annotations

import math
from typing import get_args

import pytest
import torch
from torch import Tensor, nn

from clearhead.base.errors import ConfigError
from clearhead.nn.scores import Additive, Concat, Dot, General, Location, Score, ScoreKind, make_score

LN2, LN3 = math.log(2), math.log(3)


def tensor(values: object) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def draw(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def set_to(parameter: object, values: object) -> None:
    assert isinstance(parameter, Tensor)
    with torch.no_grad():
        parameter.copy_(tensor(values))


def filled(score: Score, seed: int = 0) -> Score:
    generator = torch.Generator().manual_seed(seed)
    for parameter in score.double().parameters():
        nn.init.normal_(parameter, generator=generator)
    return score


def scored(score: Score, query: object, keys: object) -> Tensor:
    """The scores [T, S] of the queries [T, Q] and keys [S, D] of one row."""
    query, keys = (x if isinstance(x, Tensor) else tensor(x) for x in (query, keys))
    return score(query[None, None], score.remember(keys[None]))[0, 0]


def close(found: Tensor, wanted: object, atol: float = 1e-14) -> None:
    wanted = wanted if isinstance(wanted, Tensor) else tensor(wanted)
    torch.testing.assert_close(found, wanted, rtol=0, atol=atol)


# ---------------------------------------------------------------------------------------------------- by hand


def test_additive_by_hand() -> None:
    """W_a·s = (ln 2, ln 3), U_a·h = (0, 0) or (−ln 2, −2·ln 3), v_a = (10, 5): 6 + 4 and 0 − 4."""
    score = Additive(2, 3, 2).double()
    set_to(score.query.weight, [[LN2, 0.0], [0.0, LN3 / 2]])
    set_to(score.key.weight, [[-LN2, 0.0, 0.0], [0.0, -LN3, 0.0]])
    set_to(score.energy.weight, [[10.0, 5.0]])
    close(scored(score, [[1.0, 2.0]], [[0.0, 0.0, 9.0], [1.0, 2.0, 9.0]]), [[10.0, -4.0]])


def test_dot_by_hand() -> None:
    """Unscaled: 3·4 + 1·2 is 14, not 14/√2."""
    close(scored(Dot(2, 2), [[3.0, 1.0], [0.0, -1.0]], [[4.0, 2.0], [0.0, 5.0]]), [[14.0, 5.0], [-2.0, -5.0]])


def test_general_by_hand() -> None:
    """(1, 2)·[[1, 0, 2], [0, 3, 1]] = (1, 6, 4), times the keys; the transposed matrix would not even fit."""
    score = General(2, 3).double()
    set_to(score.map.weight, [[1.0, 0.0, 2.0], [0.0, 3.0, 1.0]])
    close(scored(score, [[1.0, 2.0]], [[1.0, 1.0, 1.0], [2.0, 0.0, -1.0]]), [[11.0, -2.0]])


def test_concat_by_hand() -> None:
    """W_a·[s; h] = (ln 2·(1 + 0), ln 3·(2 − 1)) = (ln 2, ln 3), then 10·3/5 + 5·4/5; and (−ln 2, 0) for the second."""
    score = Concat(2, 1, 2).double()
    set_to(score.joint.weight, [[LN2, 0.0, LN2], [0.0, LN3, LN3]])
    set_to(score.energy.weight, [[10.0, 5.0]])
    close(scored(score, [[2.0, 2.0]], [[-1.0], [-3.0]]), [[10.0, -6.0 - 4.0]])
    close(scored(score, [[2.0, 3.0]], [[-3.0]]), [[-6.0]])


def test_location_by_hand() -> None:
    """Row s of W_a for position s; the keys do not matter, a short sentence uses the first rows, a long one gets 0."""
    score = Location(2, 3, max_length=3).double()
    set_to(score.places.weight, [[1.0, 2.0], [0.0, 3.0], [5.0, 0.0]])
    query = [[1.0, 10.0]]
    close(scored(score, query, draw(3, 3)), [[21.0, 30.0, 5.0]])
    close(scored(score, query, draw(2, 3)), [[21.0, 30.0]])
    close(scored(score, query, draw(5, 3)), [[21.0, 30.0, 5.0, 0.0, 0.0]])
    assert score.reach == 3


# ---------------------------------------------------------------------------------------------------- pair by pair


def by_pairs(score: Score, query: Tensor, key: Tensor) -> float:
    """The formula of one query [Q] and one key [D], on vectors, the matrices not split."""
    match score:
        case Additive():
            return (score.energy.weight[0] @ (score.query.weight @ query + score.key.weight @ key).tanh()).item()
        case Concat():
            return (score.energy.weight[0] @ (score.joint.weight @ torch.cat([query, key])).tanh()).item()
        case General():
            return (query @ score.map.weight @ key).item()
        case _:
            return (query @ key).item()


@pytest.mark.parametrize("kind", ["additive", "concat", "general", "dot"])
def test_the_formula_for_every_pair(kind: ScoreKind) -> None:
    """Batched with different rows; queries, keys and the inner layer are of three widths where that is possible."""
    keys_width = 4 if kind == "dot" else 3
    score = filled(make_score(kind, 4, keys_width, width=5))
    query, keys = draw(2, 1, 3, 4), draw(2, 6, keys_width, seed=2)
    found = score(query, score.remember(keys))
    assert found.shape == (2, 1, 3, 6)
    for row in range(2):
        for t in range(3):
            for s in range(6):
                assert abs(found[row, 0, t, s].item() - by_pairs(score, query[row, 0, t], keys[row, s])) < 1e-12


def test_the_pairs_notice_a_broadcast_along_the_wrong_axis() -> None:
    """With as many positions as units, W_a·s + U_a·Hᵀ adds without complaint and is wrong (the chapter's listing)."""
    score = filled(Additive(4, 3, 5))
    assert isinstance(score, Additive)
    query, keys = draw(4), draw(5, 3, seed=2)
    wrong = score.energy.weight[0] @ (score.query.weight @ query + score.key.weight @ keys.T).tanh()
    assert not torch.allclose(wrong, scored(score, query[None], keys)[0], atol=0.1)


def test_concat_is_additive_with_its_matrix_in_two() -> None:
    concat, additive = filled(Concat(4, 3, 5)), Additive(4, 3, 5).double()
    assert isinstance(concat, Concat)
    set_to(additive.query.weight, concat.joint.weight[:, :4].tolist())
    set_to(additive.key.weight, concat.joint.weight[:, 4:].tolist())
    set_to(additive.energy.weight, concat.energy.weight.tolist())
    query, keys = draw(2, 4), draw(6, 3, seed=2)
    close(scored(concat, query, keys), scored(additive, query, keys), 1e-13)
    set_to(additive.query.weight, concat.joint.weight[:, 3:].tolist())  # the fault: the blocks in the other order
    set_to(additive.key.weight, concat.joint.weight[:, :3].tolist())
    assert not torch.allclose(scored(concat, query, keys), scored(additive, query, keys), atol=0.1)


def test_the_keys_are_multiplied_once_a_sentence() -> None:
    """`remember` does it: asking does not touch U_a or W_a again, so a spoilt matrix goes unnoticed afterwards."""
    for kind in ("additive", "general"):
        score = filled(make_score(kind, 4, 3, width=5))
        kept, query = score.remember(draw(1, 6, 3)), draw(1, 1, 2, 4)
        before = score(query, kept)
        matrix = score.key.weight if isinstance(score, Additive) else score.map.weight  # type: ignore[union-attr]
        set_to(matrix, torch.full_like(matrix, torch.nan).tolist())  # type: ignore[arg-type]
        assert torch.equal(score(query, kept), before)


@pytest.mark.parametrize("kind", [kind for kind in get_args(ScoreKind) if kind != "dot"])
def test_every_parameter_is_learnt(kind: ScoreKind) -> None:
    score = filled(make_score(kind, 4, 4, max_length=6))
    query, keys = draw(2, 1, 3, 4), draw(2, 6, 4, seed=2)
    score(query, score.remember(keys)).square().sum().backward()
    for name, parameter in score.named_parameters():
        assert parameter.grad is not None and bool(parameter.grad.any()), name


def test_widths_that_do_not_fit() -> None:
    with pytest.raises(ConfigError, match='width 4 with annotations of width 8; make them equal, or take "general"'):
        make_score("dot", 4, 8)
    assert make_score("additive", 4, 8).energy.weight.shape == (1, 4)  # type: ignore[union-attr]
