"""What every encoder–decoder must obey, as functions that raise AssertionError when it does not.

Each law takes a model in float64 and evaluation. The truth that most of them hold a model to is `alone`: one sentence
and one prefix read in one pass, without padding, cache or neighbours. Nothing here knows an architecture.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from clearhead.config.strict import structure
from clearhead.models import Seq2Seq, build, presets
from clearhead.models.config import MixedConfig
from clearhead.models.ensemble import ensemble
from clearhead.nn import cores
from clearhead.nn.cores import Core
from clearhead.nn.padding import Padded
from clearhead.nn.windows import LocalPredictiveCore

__all__ = ["ARCHITECTURES", "LAWS", "PAIRS"]

VOCABULARY = 13
SOURCES = [[5, 6, 7, 3], [8, 3], [9, 10, 5, 6, 7, 11, 3], [12, 5, 3]]
PREFIXES = [[2, 5, 6, 9], [2], [2, 7, 8, 9, 10, 4], [2, 10, 9]]

# ------------------------------------------------------------------------------------------------------ architectures


def transformer(seed: int = 1, **overrides: Any) -> Seq2Seq:
    """Small, in float64, with weights far enough from their start that every part matters."""
    small = {
        "d_model": 16,
        "d_ff": 24,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "attention": {"heads": 4},
        "norm": "post",
    }
    return stirred(build(presets.tiny(VOCABULARY, **small | overrides), seed=seed), seed)


def stirred(model: Seq2Seq, seed: int) -> Seq2Seq:
    model = model.double().eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.5).add_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64), alpha=0.1)
    return model


def mixed(encoder: dict[str, Any], decoder: dict[str, Any], seed: int = 1, **more: Any) -> Seq2Seq:
    """An encoder and a decoder chosen separately, small and stirred."""
    table = {"kind": "mixed", "vocab_size": VOCABULARY, "encoder": encoder, "decoder": decoder} | more
    return stirred(build(structure(MixedConfig, table), seed=seed), seed)


ARCHITECTURES: dict[str, Callable[[], Seq2Seq]] = {
    "transformer": transformer,
    "pre-norm": lambda: transformer(norm="pre", activation="gelu", encoder_layers=1),
    "grouped-heads": lambda: transformer(attention={"heads": 4, "kv_heads": 2, "head_dim": 6, "bias": True}),
    "one-kv-head": lambda: transformer(attention={"heads": 4, "kv_heads": 1}, activation="swiglu", decoder_layers=1),
    "no-positions": lambda: transformer(positions={"kind": "none"}),
    "learned-positions": lambda: transformer(
        positions={"kind": "learned", "max_positions": 9}, embeddings="separate", source_vocab_size=VOCABULARY
    ),
    "ensemble": lambda: ensemble([transformer(), transformer(2, d_model=8, norm="pre", embeddings="output")]).eval(),
}

TRANSFORMER = {"kind": "transformer", "d_ff": 12, "layers": 1, "attention": {"heads": 2}}
ENCODERS: dict[str, dict[str, Any]] = {
    "reversed-lstm": {"kind": "recurrent", "embedding": 6, "cell": "lstm", "layers": 2, "width": 8, "reverse": True},
    "two-way-gru": {"kind": "recurrent", "embedding": 6, "cell": "gru-before", "width": 4, "bidirectional": True},
    "two-way-lstm-1997": {
        "kind": "recurrent",
        "embedding": 6,
        "cell": "lstm-1997",
        "layers": 2,
        "width": 4,
        "bidirectional": True,
    },
    "convolutional": {
        "kind": "convolutional",
        "embedding": 8,
        "blocks": [{"width": 6, "kernel": 3}, {"width": 5, "kernel": 1}],
    },
    "dilated": {"kind": "dilated", "width": 4, "dilations": [1, 2]},
    "transformer": {"d_model": 8, **TRANSFORMER},
}
LUONG: dict[str, Any] = {"kind": "luong", "embedding": 7, "layers": 2, "width": 8}
DECODERS: dict[str, dict[str, Any]] = {
    "seq2seq": {"kind": "seq2seq", "embedding": 7, "layers": 2, "width": 8},
    "seq2seq-elman": {"kind": "seq2seq", "embedding": 7, "cell": "elman", "width": 5},
    "encdec": {"kind": "encdec", "embedding": 7, "cell": "gru-before", "width": 8, "readout": 9},
    "bahdanau": {"kind": "bahdanau", "embedding": 7, "width": 8, "attention": 5, "readout": 9},
    "bahdanau-lstm": {"kind": "bahdanau", "cell": "lstm", "embedding": 7, "width": 6, "attention": 5, "readout": 9},
    "luong-general": {**LUONG, "score": "general"},
    "luong-dot-unfed": {**LUONG, "score": "dot", "input_feeding": False},
    "luong-concat-local-m": {**LUONG, "score": "concat", "window": "local-m", "half_width": 1},
    "luong-local-m-unfed": {**LUONG, "cell": "gru-after", "window": "local-m", "half_width": 1, "input_feeding": False},
    "luong-local-p": {**LUONG, "window": "local-p", "half_width": 2},
    "luong-location": {**LUONG, "score": "location", "location_positions": 5, "input_feeding": False},
    "convs2s": {
        "kind": "convs2s",
        "embedding": 7,
        "blocks": [{"width": 6, "kernel": 3}, {"width": 5, "kernel": 2}],
    },
    "convs2s-as-wide": {"kind": "convs2s", "embedding": 8, "blocks": [{"width": 8, "kernel": 3, "times": 2}]},
    "bytenet": {"kind": "bytenet", "width": 5, "dilations": [1, 3], "kernel": 2},
    "transformer": {"d_model": 10, **TRANSFORMER},
}
PAIRS: dict[str, Callable[[], Seq2Seq]] = {
    f"{encoder}-{decoder}": lambda encoder=encoder, decoder=decoder: mixed(ENCODERS[encoder], DECODERS[decoder])  # type: ignore[misc]
    for encoder in ENCODERS
    for decoder in DECODERS
} | {
    "one-embedding": lambda: mixed(
        {"kind": "recurrent", "embedding": 8, "width": 8},
        {**LUONG, "embedding": 8, "layers": 1},
        embeddings="tied",
    ),
    "ensemble": lambda: ensemble(
        [
            mixed(ENCODERS["two-way-gru"], DECODERS["bahdanau"]),
            mixed(ENCODERS["reversed-lstm"], DECODERS["luong-local-p"]),
        ]
    ).eval(),
}
"""Every encoder with every decoder. Memory widths are 8, which dot needs; nothing else has that width by necessity."""

# -------------------------------------------------------------------------------------------------------------- tools


def same(ours: Tensor, truth: Tensor, tolerance: float = 1e-10) -> None:
    """Equal within rounding in float64; a NaN equals nothing."""
    torch.testing.assert_close(ours, truth, rtol=tolerance, atol=tolerance)


def identical(ours: Tensor, truth: Tensor) -> None:
    """Equal to the last bit."""
    assert torch.equal(ours, truth), f"differs by up to {(ours - truth).abs().max():.3g}"


def alone(model: Seq2Seq, source: list[int], prefix: list[int]) -> Tensor:
    """Logits [T, V] of one pair: nothing is padded, cached or shared."""
    return model(Padded.from_lists([source]), Padded.from_lists([prefix]))


def read(model: Seq2Seq, tokens: list[list[int]], state: Any) -> tuple[list[Tensor], Any]:
    """Advance by a list of tokens a row, of any lengths; the logits of each row's tokens, and the state after."""
    padded = Padded.from_lists(tokens)
    hidden, after = model.decoder.advance(padded, state)
    logits = model.decoder.project(hidden)
    return [logits[row, : len(line)] for row, line in enumerate(tokens)], after


def start(model: Seq2Seq, sources: list[list[int]]) -> Any:
    return model.decoder.start(model.encoder(Padded.from_lists(sources)))


# --------------------------------------------------------------------------------------------------------------- laws


def a_batch_is_its_rows(model: Seq2Seq) -> None:
    """Batch of one == batch, whatever the lengths."""
    logits = model(Padded.from_lists(SOURCES), Padded.from_lists(PREFIXES))
    parts = logits.split([len(prefix) for prefix in PREFIXES])
    for part, source, prefix in zip(parts, SOURCES, PREFIXES):
        same(part, alone(model, source, prefix))


def stepping_is_teacher_forcing(model: Seq2Seq) -> None:
    """One token at a time, all rows at once; a row that is through reads nothing while the others go on."""
    state = start(model, SOURCES)
    steps: list[list[Tensor]] = [[] for _ in SOURCES]
    for t in range(max(map(len, PREFIXES))):
        logits, state = read(model, [prefix[t : t + 1] for prefix in PREFIXES], state)
        for row, part in enumerate(logits):
            steps[row].append(part)
    assert state.positions.tolist() == [len(prefix) for prefix in PREFIXES]
    for row, (source, prefix) in enumerate(zip(SOURCES, PREFIXES)):
        same(torch.cat(steps[row]), alone(model, source, prefix))


def ragged_chunks_are_one_pass(model: Seq2Seq) -> None:
    """A prefill of unequal lengths, another, then single steps."""
    texts = [[2, 5, 6, 9, 8], [2, 7, 4, 4, 5], [2, 7, 8, 9, 10], [2, 10, 9, 11, 6]]
    cuts = [[3, 4], [0, 2], [1, 4], [2, 2]]  # row 1 reads nothing at first, row 3 nothing in the second chunk
    state = start(model, SOURCES)
    parts: list[list[Tensor]] = [[] for _ in texts]
    first = [text[:a] for text, (a, _) in zip(texts, cuts)]
    second = [text[a:b] for text, (a, b) in zip(texts, cuts)]
    rest = [[[*text[b:], 5, 5, 5][step] for text, (_, b) in zip(texts, cuts)] for step in range(3)]
    for chunk in [first, second, *([[token] for token in step] for step in rest)]:
        logits, state = read(model, chunk, state)
        for row, part in enumerate(logits):
            parts[row].append(part)
    for row, (source, text) in enumerate(zip(SOURCES, texts)):
        same(torch.cat(parts[row])[: len(text)], alone(model, source, text))


def rows_commutes_with_advance(model: Seq2Seq) -> None:
    """Expand, diverge, reorder within sentences, prune, move and evict sentences: each row keeps its own history."""
    history = [(sentence, list(prefix)) for sentence, prefix in enumerate(PREFIXES)]
    _, state = read(model, PREFIXES, start(model, SOURCES))
    moves = [
        [[0, 0, 0], [1, 1, 1], [2, 2, 2], [3, 3, 3]],  # expand
        [[2, 0, 0], [3, 5, 4], [8, 8, 8], [10, 9, 11]],  # reorder and duplicate
        [[11, 9], [3, 4], [2, 0]],  # prune, evict sentence 2, move the others
        [[1, 0], [4, 5], [3, 3]],
        [[2]],  # one hypothesis of one sentence is left
    ]
    for step, move in enumerate(moves):
        state = state.rows(torch.tensor(move))
        history = [history[row] for line in move for row in line]
        tokens = [[4 + (3 * row + step) % (VOCABULARY - 4)] for row in range(len(history))]
        logits, state = read(model, tokens, state)
        history = [(sentence, prefix + line) for (sentence, prefix), line in zip(history, tokens)]
        assert state.positions.tolist() == [len(prefix) for _, prefix in history]
        for part, (sentence, prefix) in zip(logits, history):
            same(part, alone(model, SOURCES[sentence], prefix)[-1:])


def join_keeps_every_row(model: Seq2Seq) -> None:
    """Sentences that come later join those under way, in either order, and both go on as if alone."""
    for order in ([0, 1], [1, 0]):
        groups = [(SOURCES[:2], [[2, 5, 6, 9], [2, 4]]), (SOURCES[2:], [[2], [2, 7]])]
        states, history = [], []
        for sources, prefixes in (groups[i] for i in order):
            _, state = read(model, prefixes, start(model, sources))
            states.append(state.rows(torch.tensor([[0, 0], [1, 1]])))
            history += [(source, list(prefix)) for source, prefix in zip(sources, prefixes) for _ in range(2)]
        joined = states[0].join(states[1])
        for step in range(3):
            tokens = [[4 + (row + step) % 9] for row in range(len(history))]
            logits, joined = read(model, tokens, joined)
            history = [(source, prefix + line) for (source, prefix), line in zip(history, tokens)]
            for part, (source, prefix) in zip(logits, history):
                same(part, alone(model, source, prefix)[-1:])


def fan_out_is_copying(model: Seq2Seq) -> None:
    """K hypotheses that share a source read what K copies of the sentence would read, several tokens at once."""
    memory = model.encoder(Padded.from_lists(SOURCES))
    copies = torch.arange(4).repeat_interleave(3)
    shared = model.decoder.start(memory).rows(copies.view(4, 3))
    tokens = [[2, 4 + row % 9, 4 + row % 5][: 1 + row % 3] for row in range(12)]
    ours, _ = read(model, tokens, shared)
    truth, _ = read(model, tokens, model.decoder.start(memory.rows(copies)))
    for part, copied in zip(ours, truth):
        same(part, copied)


def padding_cannot_be_seen(model: Seq2Seq) -> None:
    """Other ids in the padding change no bit of logits and gradients; more padding changes rounding at most."""

    def run(source_fill: int, prefix_fill: int, longer: int) -> tuple[Tensor, list[Tensor]]:
        def fill(lines: list[list[int]], token: int) -> Padded:
            padded = Padded.from_lists(lines)
            ids = torch.nn.functional.pad(padded.ids.masked_fill(~padded.mask, token), (0, longer), value=token)
            return Padded(ids, padded.lengths)

        model.zero_grad()
        logits = model(fill(SOURCES, source_fill), fill(PREFIXES, prefix_fill))
        logits.pow(2).sum().backward()
        return logits.detach(), [p.grad.clone() for p in model.parameters() if p.grad is not None]

    logits, gradients = run(0, 0, 0)
    for source_fill, prefix_fill in [(9, 0), (0, 9), (3, 2)]:
        others, theirs = run(source_fill, prefix_fill, 0)
        identical(others, logits)
        for mine, other in zip(gradients, theirs):
            same(other, mine)
    longer, theirs = run(7, 8, 5)
    same(longer, logits, 1e-12)
    for mine, other in zip(gradients, theirs):
        same(other, mine)


def the_future_cannot_be_seen(model: Seq2Seq) -> None:
    """Changing token t + 1 leaves hidden states and logits up to t equal to the bit, and changes those after it."""
    sources = Padded.from_lists(SOURCES)
    state = start(model, SOURCES)
    ids = torch.tensor([[2, 5, 6, 9, 10, 4]] * 4)
    hidden, _ = model.decoder.advance(Padded.full(ids), state)
    for t in range(5):
        changed = ids.clone()
        changed[:, t + 1 :] = torch.tensor([11, 8, 7, 12, 5])[t:]
        other, _ = model.decoder.advance(Padded.full(changed), model.decoder.start(model.encoder(sources)))
        identical(other[:, : t + 1], hidden[:, : t + 1])
        identical(model.decoder.project(other[:, : t + 1]), model.decoder.project(hidden[:, : t + 1]))
        assert (other[:, t + 1] - hidden[:, t + 1]).abs().amax(-1).min() > 1e-6


def an_empty_row_harms_nobody(model: Seq2Seq) -> None:
    """A source without a single token, and a prefix without one: everything stays finite, the others as if alone."""
    sources, prefixes = [SOURCES[0], [], SOURCES[2]], [PREFIXES[0], [2, 5], []]
    for parameter in model.parameters():
        parameter.grad = None
    memory = model.encoder(Padded.from_lists(sources))
    hidden, _ = model.decoder.advance(Padded.from_lists(prefixes), model.decoder.start(memory))
    assert all(bool(torch.isfinite(part).all()) for part in (memory.keys, memory.summary, hidden))
    logits = model.decoder.project(hidden)
    (logits.sum() + logits.pow(2).sum()).backward()
    for parameter in model.parameters():
        assert parameter.grad is None or bool(torch.isfinite(parameter.grad).all())
    same(logits[0], alone(model, sources[0], prefixes[0]))


def a_core_mixes_by_its_weights(model: Seq2Seq) -> None:
    """forward == weights @ v in every attention of the model; weights sum to one, or to zero where all is hidden.

    Those of local-p are not normalised again after the Gaussian (Luong et al. 2015, equation 10): at most one.
    """
    seen: set[int] = set()

    def check(core: Core, inputs: tuple[Any, ...], context: Tensor) -> None:
        query, key, value, visibility = inputs
        weights = core.weights(query, key, visibility)
        same(context, weights @ cores.spread(value, query.shape[1]))
        readable = visibility.mask.any(-1).expand(weights.shape[:-1])
        if isinstance(core, LocalPredictiveCore):
            assert bool((weights.sum(-1) <= 1 + 1e-12).all())
            identical(weights.sum(-1) > 0, readable)
        else:
            same(weights.sum(-1), readable.to(weights.dtype))
        assert bool((weights >= 0).all())
        identical(weights.masked_fill(visibility.mask, 0.0), torch.zeros_like(weights))
        seen.add(id(core))

    hooks = [m.register_forward_hook(check) for m in model.modules() if isinstance(m, Core)]
    try:
        model(Padded.from_lists([*SOURCES, []]), Padded.from_lists([*PREFIXES, [2, 5]]))
    finally:
        for hook in hooks:
            hook.remove()
    assert len(seen) == len(hooks)


def a_chosen_vocabulary_is_a_part(model: Seq2Seq) -> None:
    """project(h, ids) == project(h)[..., ids]."""
    hidden, _ = model.decoder.advance(Padded.from_lists(PREFIXES), start(model, SOURCES))
    ids = torch.tensor([12, 3, 5])
    same(model.decoder.project(hidden, ids), model.decoder.project(hidden)[..., ids])


LAWS: dict[str, Callable[[Seq2Seq], None]] = {
    law.__name__: law
    for law in [
        a_batch_is_its_rows,
        stepping_is_teacher_forcing,
        ragged_chunks_are_one_pass,
        rows_commutes_with_advance,
        join_keeps_every_row,
        fan_out_is_copying,
        padding_cannot_be_seen,
        the_future_cannot_be_seen,
        an_empty_row_harms_nobody,
        a_core_mixes_by_its_weights,
        a_chosen_vocabulary_is_a_part,
    ]
}
