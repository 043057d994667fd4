"""What a decoder read of its source: planted attention is found again, in the row that predicts the word."""

import math
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor

from clearhead.base.errors import InputError
from clearhead.config.strict import structure
from clearhead.inspection.alignment import (
    AttentionReader,
    Reading,
    attention_matrix,
    cross_attention,
    cross_attention_paths,
    links,
    over_words,
)
from clearhead.inspection.replay import replay
from clearhead.models import Seq2Seq, build, presets
from clearhead.models.config import MixedConfig
from clearhead.models.ensemble import ensemble
from clearhead.nn.cores import Core
from clearhead.nn.visibility import Visibility
from tests.laws.model_laws import ARCHITECTURES, VOCABULARY

SOURCE, TARGET = [5, 6, 7], [9, 4, 8, 10]
PLANTED = [2, 0, 1, 2, 3]  # what each of the four words and EOS reads; 3 is the EOS of the source


class Planted(Core):
    """Reads, at the step of target position t, the source position `places[t]` and nothing else."""

    def __init__(self, inner: Core, places: Sequence[int]) -> None:
        super().__init__()
        self.inner, self.places, self.at = inner, places, 0

    def remember(self, keys: Tensor) -> Tensor:
        return self.inner.remember(keys)

    def weights(self, query: Tensor, key: Tensor, visibility: Visibility) -> Tensor:
        found = query.new_zeros(*query.shape[:3], key.shape[2])
        for row in range(query.shape[2]):
            found[:, :, row, self.places[(self.at + row) % len(self.places)]] = 1.0
        self.at += query.shape[2]
        return found


def small(kind: str, **more: object) -> Seq2Seq:
    half = {"embedding": 8, "width": 8}
    encoder: dict[str, object] = {"kind": "recurrent", **half}
    if kind == "transformer":
        stack = {"kind": "transformer", "d_model": 8, "d_ff": 8, "layers": 3, "attention": {"heads": 2}}
        decoder: dict[str, object] = {**stack, **more}
    else:
        decoder = {"kind": kind, **half, **more}
    table = {"kind": "mixed", "vocab_size": VOCABULARY, "encoder": encoder, "decoder": decoder}
    return build(structure(MixedConfig, table), seed=1).double().eval()


FAMILIES = {
    "rnnsearch": lambda: small("bahdanau"),
    "luong": lambda: small("luong"),
    "luong-fed-local-m": lambda: small("luong", window="local-m", input_feeding=True),
    "luong-at-once": lambda: small("luong", window="local-p", input_feeding=False),
    "lstm-under-transformer": lambda: small("transformer"),
    "transformer": ARCHITECTURES["transformer"],
}


def plant(model: Seq2Seq, path: str, places: Sequence[int]) -> None:
    owner = model.get_submodule(path.rpartition(".")[0])
    owner.core = Planted(owner.core, places)  # type: ignore[assignment]


@pytest.mark.parametrize("make", FAMILIES.values(), ids=FAMILIES.keys())
def test_planted_attention_is_found_in_the_row_that_predicts_the_word(make) -> None:
    model = make()
    paths = cross_attention_paths(model)
    plant(model, paths[max(0, len(paths) - 2)], PLANTED)
    weights = attention_matrix(model, SOURCE, TARGET, eos=True)
    assert weights.shape == (5, 4)
    assert weights.argmax(1).tolist() == PLANTED
    found = links(attention_matrix(model, SOURCE, TARGET))
    assert found == {(2, 0), (0, 1), (1, 2), (2, 3)}
    # The fault of taking the row that reads the word, one later, gives other links.
    assert links(weights[1:, :-1]) != found


@pytest.mark.parametrize("make", FAMILIES.values(), ids=FAMILIES.keys())
def test_what_is_read_is_what_the_model_computes(make) -> None:
    model = make()
    truth = replay(model, SOURCE, TARGET).recording.attention
    found = cross_attention(model, SOURCE, TARGET)
    assert list(found) == cross_attention_paths(model)
    for path, weights in found.items():
        torch.testing.assert_close(weights, truth[path].weights[0], rtol=1e-10, atol=1e-12)
    before = model.state_dict()
    assert not any("recorder" in type(each).__name__.lower() for each in model.modules())
    assert model.state_dict().keys() == before.keys()


@pytest.mark.parametrize("make", FAMILIES.values(), ids=FAMILIES.keys())
def test_many_pairs_at_once_are_read_like_each_alone(make) -> None:
    model = make()
    sources, targets = [SOURCE, [8], [5, 9, 10, 11, 6]], [TARGET, [7, 7], []]
    together = AttentionReader(model).read(sources, targets)
    for source, target, weights in zip(sources, targets, together, strict=True):
        assert weights.shape == (len(target) + 1, len(source) + 1)
        alone = attention_matrix(model, source, target, eos=True)
        torch.testing.assert_close(weights, alone, rtol=1e-9, atol=1e-12)


def test_the_layer_and_the_head_are_those_asked_for() -> None:
    model = build(
        presets.tiny(VOCABULARY, d_model=16, d_ff=16, decoder_layers=3, attention={"heads": 4}), seed=3
    ).double()
    layers = list(cross_attention(model, SOURCE, TARGET).values())

    def read(layer: int | None = None, head: int | None = None) -> Tensor:
        return attention_matrix(model, SOURCE, TARGET, reading=Reading(layer, head), eos=True)

    torch.testing.assert_close(read(), layers[1].mean(0))  # the last but one
    torch.testing.assert_close(read(3), layers[2].mean(0))
    torch.testing.assert_close(read(3, 2), layers[2][1])
    torch.testing.assert_close(read(0), torch.stack(layers).mean((0, 1)))
    with pytest.raises(InputError, match="no layer 4: the decoder reads the source in 3"):
        read(4)
    with pytest.raises(InputError, match="no head 5: the layer has 4"):
        AttentionReader(model, Reading(1, 5))


def test_an_ensemble_reads_as_the_mean_of_its_members() -> None:
    members = [small("bahdanau"), small("luong"), small("transformer")]
    mean = torch.stack([attention_matrix(each, SOURCE, TARGET) for each in members]).mean(0)
    torch.testing.assert_close(attention_matrix(ensemble(members), SOURCE, TARGET), mean)


@pytest.mark.parametrize("kind", ["seq2seq", "encdec"])
def test_a_model_without_attention_is_refused_by_name(kind: str) -> None:
    model = small(kind)
    assert cross_attention_paths(model) == []
    assert cross_attention(model, SOURCE, TARGET) == {}
    with pytest.raises(InputError, match="Decoder has no attention to the source"):
        AttentionReader(model)
    with pytest.raises(InputError, match="no attention"):
        AttentionReader(ensemble([small("luong"), model]))


def test_words_out_of_pieces_by_hand() -> None:
    # Source words 0 = pieces 0, 1 and 1 = piece 2; target words 0 = row 0 and 1 = rows 1, 2; row 3 belongs to none.
    weights = torch.tensor([[0.1, 0.2, 0.6], [0.5, 0.1, 0.3], [0.2, 0.0, 0.7], [1.0, 0.0, 0.0]], dtype=torch.float64)
    found = over_words(weights, [0, 0, 1], [0, 1, 1, None])
    truth = torch.tensor([[0.3, 0.6], [0.4, 0.5]], dtype=torch.float64)
    torch.testing.assert_close(found, truth)
    assert over_words(weights[:0, :0], [], []).shape == (0, 0)


def test_links_by_hand() -> None:
    weights = torch.tensor([[0.2, 0.5, 0.3], [0.4, 0.4, 0.1], [0.0, 0.0, 0.0]])
    assert links(weights) == {(1, 0), (0, 1)}
    assert links(weights, 0.3) == {(1, 0), (2, 0), (0, 1), (1, 1)}
    assert links(weights[:, :0]) == set()


def test_the_rows_sum_to_one_with_the_end_and_to_less_without() -> None:
    model = small("bahdanau")
    whole = attention_matrix(model, SOURCE, TARGET, eos=True)
    assert all(math.isclose(total, 1.0, rel_tol=1e-9) for total in whole.sum(1).tolist())
    assert float(attention_matrix(model, SOURCE, TARGET).sum(1).max()) < 1
