"""A model that may write UNK: the same probabilities under another name, in every way of asking."""

import torch

from clearhead.decoding.config import DecodingConfig
from clearhead.decoding.search import force, search
from clearhead.decoding.unknown import with_unknown, written
from clearhead.nn.padding import Padded
from clearhead.text.symbols import UNK
from tests.laws.model_laws import ARCHITECTURES, SOURCES, VOCABULARY


def test_the_extra_token_is_unk_and_nothing_else_changes() -> None:
    model = ARCHITECTURES["transformer"]()
    shown = with_unknown(model, VOCABULARY)
    source = Padded.from_lists(SOURCES)
    prefix = Padded.from_lists([[2, 5, UNK]] * len(SOURCES))
    named = Padded.from_lists([[2, 5, VOCABULARY]] * len(SOURCES))
    with torch.no_grad():
        hidden, _ = model.decoder.advance(prefix, model.decoder.start(model.encoder(source)))
        other, _ = shown.decoder.advance(named, shown.decoder.start(shown.encoder(source)))
        assert torch.equal(hidden, other)
        truth, found = (each.log_softmax(-1) for each in (model.decoder.project(hidden), shown.decoder.project(other)))
        torch.testing.assert_close(found[..., VOCABULARY], truth[..., UNK])
        assert bool((found[..., UNK] == -torch.inf).all())
        kept = [token for token in range(VOCABULARY) if token != UNK]
        torch.testing.assert_close(found[..., kept], truth[..., kept])
        some = torch.tensor([4, VOCABULARY, 7])
        torch.testing.assert_close(
            shown.decoder.project(other, some), model.decoder.project(hidden, torch.tensor([4, UNK, 7]))
        )


def test_a_search_finds_what_forced_scoring_says_of_it() -> None:
    model = ARCHITECTURES["transformer"]()
    config = DecodingConfig(beam=4, n_best=4, min_length=2, max_length=4)
    source = Padded.from_lists(SOURCES)
    likely = search(model, source, config)[0][0].tokens[0]
    with torch.no_grad():
        weight = model.decoder.output.weight
        weight[UNK] = 1.2 * weight[likely]  # so that it is likely, too
    shown = with_unknown(model, VOCABULARY)
    seen = 0
    for row, hypotheses in enumerate(search(shown, source, config)):
        for each in written(hypotheses, VOCABULARY):
            seen += UNK in each.tokens
            again = force(model, Padded.from_lists([SOURCES[row]]), [each.tokens], config)[0]
            torch.testing.assert_close(torch.tensor(each.log_prob), torch.tensor(again.log_prob))
    assert seen  # else nothing was tried
    assert not any(UNK in each.tokens for found in search(model, source, config) for each in found)
