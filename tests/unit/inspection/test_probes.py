"""Probes find what was planted and nothing else; the split is by sentence; labels are what they say."""

import pytest
import torch
from torch import Tensor

from clearhead.base.errors import InputError
from clearhead.inspection import probes
from clearhead.inspection.layer_states import layer_states
from clearhead.inspection.probe_labels import Labels, token_labels
from clearhead.inspection.probes import ProbeSettings, probe, probe_states, sentence_split
from clearhead.inspection.records import Probe, Token
from clearhead.inspection.replay import replay
from clearhead.models import Seq2Seq
from clearhead.nn.padding import Padded
from clearhead.text.symbols import BOS, EOS
from tests.laws.model_laws import ARCHITECTURES, PAIRS, stirred, transformer

QUICK = ProbeSettings(steps=60, hidden=16)


def sample(sentences: int = 40, length: int = 10, seed: int = 1, kinds: int = 9) -> list[list[int]]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(4, 4 + kinds, (sentences, length), generator=generator).tolist()


def labels_of(values: Tensor, classes: int, length: int = 10) -> Labels:
    lines = values.view(-1, length).tolist()
    return Labels("planted", tuple(map(str, range(classes))), tuple(map(tuple, lines)))


def by_kind(found: list[Probe]) -> dict[str, Probe]:
    return {each.kind: each for each in found}


def test_a_planted_feature_is_found_and_its_control_is_not() -> None:
    """The states hold the label and not the type of the token, so labels by type can only be guessed."""
    generator = torch.Generator().manual_seed(2)
    values = torch.randint(0, 2, (400,), generator=generator)
    states = torch.randn(400, 12, generator=generator)
    states[:, 3] = 5 * values + 100 + 0.1 * states[:, 3]  # far from zero: standardising must cope
    states[:, 4] = 7.0  # and with what is constant
    found = by_kind(probe_states(states, sample(), labels_of(values, 2), "encoder", 1, settings=QUICK))
    for each in found.values():
        assert each.accuracy == 1
        assert each.control < 0.7 and each.selectivity > 0.3
        assert (each.classes, each.examples, each.untrained) == (2, 400, None)
    again = by_kind(probe_states(states, sample(), labels_of(values, 2), "encoder", 1, settings=QUICK))
    assert again == found


def test_what_only_the_hidden_layer_can_see() -> None:
    """Exclusive or of two signs: a linear probe is at chance, the other is not."""
    generator = torch.Generator().manual_seed(3)
    signs = torch.randint(0, 2, (600, 2), generator=generator)
    states = 2.0 * signs - 1 + 0.1 * torch.randn(600, 2, generator=generator)
    found = by_kind(
        probe_states(states, sample(60), labels_of(signs[:, 0] ^ signs[:, 1], 2), "decoder", 0, settings=QUICK)
    )
    assert found["linear"].accuracy < 0.7
    assert found["mlp"].accuracy > 0.97


def test_noise_gives_no_more_than_the_commonest_label() -> None:
    generator = torch.Generator().manual_seed(4)
    values = (torch.rand(800, generator=generator) < 0.25).long()
    states = torch.randn(800, 6, generator=generator)
    for each in probe_states(states, sample(80, kinds=100), labels_of(values, 2), "encoder", 1, settings=QUICK):
        assert 0.65 < each.majority < 0.85
        assert each.accuracy < each.majority + 0.05
        assert abs(each.selectivity) < 0.15


def test_states_that_name_the_type_learn_any_label_by_heart() -> None:
    """A label that follows from the type, on one-hot states: accuracy 1, control 1, so selectivity 0."""
    sentences = sample()
    types = torch.tensor(sentences).flatten() - 4
    for each in probe_states(torch.eye(9)[types], sentences, labels_of(types % 3, 3), "encoder", 0, settings=QUICK):
        assert each.accuracy == each.control == 1
        assert each.selectivity == 0


def test_the_control_follows_the_type_and_the_distribution_of_the_labels() -> None:
    types = [token for token in range(2000) for _ in range(2)]
    drawn = probes._control(types, [0] * 70 + [1] * 30, seed=5)
    assert torch.equal(drawn[::2], drawn[1::2])
    assert float(drawn.double().mean()) == pytest.approx(0.3, abs=0.05)  # five standard deviations
    assert not torch.equal(drawn, probes._control(types, [0] * 70 + [1] * 30, seed=6))


def test_no_sentence_is_on_both_sides(monkeypatch) -> None:
    """A label at random for each sentence, and states that name the sentence: it cannot be told for another one.

    The fault of splitting by token is caught: there it can.
    """
    lengths = [10] * 40
    is_test = sentence_split(lengths, 0.25, seed=1)
    lines = is_test.view(40, 10)
    assert bool((lines.all(1) | ~lines.any(1)).all()) and int(is_test.sum()) == 100
    generator = torch.Generator().manual_seed(6)
    of_sentence = torch.randint(0, 2, (40,), generator=generator).repeat_interleave(10)
    states = torch.randn(40, 30, generator=generator).repeat_interleave(10, 0)
    settings = ProbeSettings(kinds=("linear",), steps=40)

    def accuracy() -> float:
        (found,) = probe_states(states, sample(), labels_of(of_sentence, 2), "encoder", 1, settings=settings)
        return found.accuracy

    assert accuracy() < 0.75
    by_token = torch.rand(400, generator=generator) < 0.25
    monkeypatch.setattr(probes, "sentence_split", lambda *_: by_token)
    assert accuracy() > 0.95


FAMILIES = {
    "post-norm": (ARCHITECTURES["transformer"], [0, 1, 2], [0, 1, 2]),
    "pre-norm": (ARCHITECTURES["pre-norm"], [0, 1], [0, 1, 2]),
    "luong": (PAIRS["reversed-lstm-luong-general"], [0, 2], [0, 2]),
    "rnnsearch": (PAIRS["two-way-gru-bahdanau"], [0, 1], [0, 1]),
    "convs2s": (PAIRS["convolutional-convs2s"], [0, 1, 2], [0, 1, 2]),
    "bytenet": (PAIRS["dilated-bytenet"], [0, 1, 2], [0, 2]),
}


@pytest.mark.parametrize(("make", "encoder", "decoder"), FAMILIES.values(), ids=FAMILIES.keys())
def test_states_are_those_of_each_sentence_alone(make, encoder, decoder) -> None:
    """In every family: one row a token, in the order of the text, whatever else is in the batch."""
    model: Seq2Seq = make()
    sources, targets = [[5, 6, 7, 8], [9], [10, 11, 4]], [[4, 5], [6, 7, 8, 9, 10], [11]]
    together = layer_states(model, sources, targets)
    assert [layer for place, layer in together if place == "encoder"] == encoder
    assert [layer for place, layer in together if place == "decoder"] == decoder
    alone = [layer_states(model, [source], [target]) for source, target in zip(sources, targets, strict=True)]
    for key, states in together.items():
        assert len(states) == 8
        torch.testing.assert_close(states, torch.cat([each[key] for each in alone]), rtol=1e-9, atol=1e-10)
    # At layer 0 a token is its vector: without positions equal tokens are equal, where they stand in the text.
    for place in ("encoder", "decoder"):
        first, second, other = layer_states(model, [[5, 5, 6]], [[5, 5, 6]])[place, 0]
        assert (second - other).abs().max() > 1e-3
        assert torch.equal(first, second) == (not hasattr(getattr(model, place).input, "positions"))


def test_the_states_are_the_models_own() -> None:
    """The last layer of a post-norm stack is what the decoder attends to, and what it projects."""
    model = transformer()
    source, target = [5, 6, 7, 8], [9, 4, 8]
    states = layer_states(model, [source], [target])
    truth = replay(model, source, target)
    torch.testing.assert_close(states["encoder", 2], truth.memory.keys[0, :-1], rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(states["decoder", 2], truth.hidden[1:], rtol=1e-10, atol=1e-12)
    entered = model.encoder.input(Padded.from_lists([[*source, EOS]]).ids, torch.arange(5)[None])
    torch.testing.assert_close(states["encoder", 0], entered[0, :-1], rtol=1e-10, atol=1e-12)
    assert BOS not in target


def test_a_whole_run_and_the_untrained_model() -> None:
    model, before = transformer(), stirred(transformer(3), 3)
    sources, targets = sample(24, 6, 7), sample(24, 5, 8)
    tokens = [[Token(f"▁w{each}", each, "piece", place) for place, each in enumerate(line)] for line in sources]
    positions = next(each for each in token_labels(tokens) if each.name == "position")
    of_target = Labels("parity", ("even", "odd"), tuple(tuple(each % 2 for each in line) for line in targets))
    settings = ProbeSettings(kinds=("linear",), steps=40)
    found = probe(model, sources, targets, [positions], [of_target], settings=settings, untrained=before)
    assert [(each.label, each.place, each.layer) for each in found] == [
        *(("position", "encoder", layer) for layer in range(3)),
        *(("parity", "decoder", layer) for layer in range(3)),
    ]
    assert all(each.untrained is not None for each in found)
    assert found[3].accuracy == 1  # the embedding names the type
    assert all(parameter.grad is None for parameter in model.parameters())
    fewer = probe(
        model, sources, targets, [positions], [], settings=ProbeSettings(("linear",), most_tokens=132, steps=5)
    )
    assert fewer[0].examples == 132
    assert probe(model, sources, targets, [positions], [], settings=ProbeSettings(most_tokens=100)) == []  # 24 tested
    with pytest.raises(InputError, match="too few"):
        probe(model, sources[:3], targets[:3], [positions], [])
    with pytest.raises(InputError, match="a value for each token"):
        probe(model, targets, targets, [positions], [])


def tokens_of(*pieces: str) -> list[Token]:
    """A word begins with each ▁."""
    word, made = -1, []
    for number, piece in enumerate(pieces):
        word += piece.startswith("▁") or word < 0
        made.append(Token(piece, number, "byte" if piece.startswith("<0x") else "piece", word))
    return made


def test_labels_by_hand() -> None:
    one = tokens_of("▁The", "▁cat", "s", "▁saw", "▁NA", "SA", ".")
    other = tokens_of("▁Open", "▁{", "name", "}", "▁", "%", "s", ",", "▁cats", "<0xE2>", "▁7", "▁i", "Pad")
    labels = {each.name: each for each in token_labels([one, other], most_words=2)}

    def read(name: str, sentence: int) -> list[str | None]:
        label = labels[name]
        return [None if value is None else label.classes[value] for value in label.values[sentence]]

    assert read("position", 1) == ["1", "2", "3-4", "3-4", *["5-8"] * 4, *["9-16"] * 5]
    assert read("word-shape", 0) == ["capitalised", *["lower"] * 3, "upper", "upper", "punctuation"]
    assert read("word-shape", 1)[:4] == ["capitalised", "punctuation", "lower", "punctuation"]
    assert read("word-shape", 1)[8:] == ["lower", "punctuation", "digit", "other", "other"]
    assert read("placeholder", 0) == ["no"] * 7
    assert read("placeholder", 1) == ["no", *["yes"] * 3, "no", "yes", "yes", *["no"] * 6]
    assert labels["word"].classes == ("cats", "7")  # twice; of the words that stand once the first by its letters
    assert read("word", 0) == [None, "cats", "cats", *[None] * 4]
    assert read("sentence-length", 0) == ["under 13"] * 7 and read("sentence-length", 1) == ["13-"] * 13


def test_a_label_of_one_class_is_not_offered() -> None:
    names = {each.name for each in token_labels([tokens_of("▁a", "▁b"), tokens_of("▁b", "▁a")])}
    assert names == {"position", "word"}
    assert token_labels([]) == []
    special = [Token("</s>", 3, "special", None), *tokens_of("▁a", "▁B")]
    shapes = next(each for each in token_labels([special]) if each.name == "word-shape")
    assert shapes.values[0][0] is None
