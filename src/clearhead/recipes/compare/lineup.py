"""Who takes part: the models of the story and their variants, each as wide as the Transformer's parameters allow."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from typing import Any, Literal

from clearhead.base.errors import InputError
from clearhead.models.build import build, count_parameters
from clearhead.recipes.run_config import resolve_model

__all__ = ["FULL", "LINE_UP", "QUICK", "REFERENCE", "Entry", "Size", "choose", "solved"]

Family = Literal["fixed-vector", "attention", "convolution", "transformer"]
Table = dict[str, Any]

REFERENCE = "transformer"
"""The model that the others are as large as, and are tested against."""

TOLERANCE = 0.03
WIDEST = 2048


@dataclass(frozen=True)
class Size:
    """What the models have in common: the reference's figures, the vocabulary, and the dropout of all."""

    d_model: int
    d_ff: int
    layers: int
    vocab_size: int
    max_length: int
    dropout: float


FULL = Size(d_model=128, d_ff=256, layers=2, vocab_size=3000, max_length=127, dropout=0.1)
QUICK = Size(d_model=32, d_ff=64, layers=1, vocab_size=600, max_length=127, dropout=0.1)


@dataclass(frozen=True)
class Entry:
    """One model of the line-up.

    Attributes:
        table: the model's configuration at a width; of the Transformers', which have the reference's, the width is d.
        peak: of the learning rate, the same schedule for all.
        solve: whether the width is chosen so that the parameters are those of the reference.
        quick: whether `--quick` trains it: the story, and one of each group of variants.
    """

    name: str
    label: str
    family: Family
    table: Callable[[Size, int], Table]
    peak: float
    solve: bool = True
    quick: bool = False


def _recurrent(decoder: Table, *, cell: str = "lstm", layers: int = 2, **encoder: Any) -> Callable[[Size, int], Table]:
    """Both parts of one width and with one matrix for all words: what is saved there goes into the width."""

    def table(size: Size, width: int) -> Table:
        common = {"embedding": width, "cell": cell, "width": width, "dropout": size.dropout}
        ours = {**common, **decoder}
        if decoder["kind"] != "bahdanau":  # which has one layer, as printed
            ours["layers"] = layers
        if decoder["kind"] in ("bahdanau", "encdec"):
            ours["readout"] = width
        if decoder["kind"] == "bahdanau":
            ours["attention"] = width
        reads = {"kind": "recurrent", "layers": layers, **common, **encoder}
        return {"kind": "mixed", "embeddings": "tied", "encoder": reads, "decoder": ours}

    return table


def _luong(*, reverse: bool = False, **decoder: Any) -> Callable[[Size, int], Table]:
    """Not reversed, as Luong's best models were (Table 1, §4.2): local-m follows the diagonal as the text runs."""
    return _recurrent({"kind": "luong", "half_width": 10, **decoder}, reverse=reverse)


def _convolutional(size: Size, width: int) -> Table:
    """ConvS2S with a layer more than the Transformer has: three taps a layer see seven words, as three layers must."""
    figures = {
        "embedding": width,
        "blocks": [{"width": width, "kernel": 3, "times": size.layers + 1}],
        "max_positions": size.max_length + 1,
        "dropout": size.dropout,
    }
    encoder, decoder = {"kind": "convolutional", **figures}, {"kind": "convs2s", **figures}
    return {"kind": "mixed", "embeddings": "tied", "encoder": encoder, "decoder": decoder}


def _dilated(size: Size, width: int) -> Table:
    """One set of ByteNet's five dilations, which reach over 63 words; half the width inside, as printed."""
    figures = {"width": width, "dropout": size.dropout}
    encoder, decoder = {"kind": "dilated", **figures}, {"kind": "bytenet", **figures}
    return {"kind": "mixed", "embeddings": "tied", "encoder": encoder, "decoder": decoder}


def _transformer(heads: int = 4, positions: Table | None = None) -> Callable[[Size, int], Table]:
    """`heads` at constant compute: each is d/heads wide (Vaswani et al. 2017, Table 3, row A)."""

    def table(size: Size, width: int) -> Table:
        places = dict(positions or {"kind": "sinusoidal"})
        if places["kind"] == "learned":
            places["max_positions"] = size.max_length + 1
        return {
            "kind": "transformer",
            "embeddings": "tied",
            "d_model": width,
            "d_ff": size.d_ff,
            "encoder_layers": size.layers,
            "decoder_layers": size.layers,
            "attention": {"heads": heads},
            "dropout": size.dropout,
            "norm": "pre",
            "positions": places,
        }

    return table


# Development nll after 250 of the full plan's updates on Multi30k, one thread, seed 1, by the peak of the rate:
# transformer 4.22 at 5e-3, 4.26 at 9e-3; seq2seq 4.51 at 6e-3, 4.33 at 12e-3; luong 4.38 at 6e-3, 4.31 at 12e-3;
# rnnsearch 3.24 at 6e-3, 3.12 at 10e-3; bytenet 4.43 at 3e-3, 4.01 at 6e-3; convs2s (300 updates) 4.23 at 3e-3, 3.63 at
# 6e-3, 3.38 at 12e-3.
_R, _C, _B, _T = 8e-3, 10e-3, 6e-3, 5e-3
"""The peak of the learning rate: of the recurrent models, of ConvS2S, of ByteNet and of the Transformers."""

_SEQ2SEQ: Table = {"kind": "seq2seq"}

LINE_UP: tuple[Entry, ...] = (
    Entry("transformer", "Transformer", "transformer", _transformer(), _T, solve=False, quick=True),
    Entry("seq2seq", "Seq2Seq", "fixed-vector", _recurrent(_SEQ2SEQ), _R, quick=True),
    Entry(
        "seq2seq-reversed", "Seq2Seq, source reversed", "fixed-vector", _recurrent(_SEQ2SEQ, reverse=True), _R,
        quick=True,
    ),
    Entry(
        "encdec", "RNN encoder–decoder", "fixed-vector",
        _recurrent({"kind": "encdec"}, cell="gru-before", layers=1), _R, quick=True,
    ),
    Entry(
        "rnnsearch", "RNNsearch", "attention",
        _recurrent({"kind": "bahdanau"}, cell="gru-before", layers=1, bidirectional=True), _R, quick=True,
    ),
    Entry("luong", "Luong, general, global", "attention", _luong(score="general"), _R, quick=True),
    Entry("luong-dot", "Luong, dot", "attention", _luong(score="dot"), _R),
    Entry("luong-concat", "Luong, concat", "attention", _luong(score="concat"), _R),
    Entry("luong-no-feeding", "Luong, no input feeding", "attention", _luong(input_feeding=False), _R, quick=True),
    Entry("luong-local-m", "Luong, local-m", "attention", _luong(window="local-m"), _R),
    Entry("luong-local-p", "Luong, local-p", "attention", _luong(window="local-p"), _R, quick=True),
    Entry("convs2s", "ConvS2S", "convolution", _convolutional, _C, quick=True),
    Entry("bytenet", "ByteNet", "convolution", _dilated, _B, quick=True),
    Entry("seq2seq-linear", "linear cell", "fixed-vector", _recurrent(_SEQ2SEQ, cell="linear", layers=1), _R),
    Entry("seq2seq-elman", "Elman cell", "fixed-vector", _recurrent(_SEQ2SEQ, cell="elman", layers=1), _R, quick=True),
    Entry("seq2seq-gru", "GRU cell", "fixed-vector", _recurrent(_SEQ2SEQ, cell="gru-before", layers=1), _R),
    *(
        Entry(
            f"transformer-{heads}-head{'s' * (heads > 1)}", f"Transformer, {heads} head{'s' * (heads > 1)}",
            "transformer", _transformer(heads), _T, solve=False, quick=heads == 1,
        )
        for heads in (1, 2, 8, 16)
    ),
    Entry(
        "transformer-learned", "Transformer, learned positions", "transformer",
        _transformer(positions={"kind": "learned"}), _T, solve=False, quick=True,
    ),
    Entry(
        "transformer-no-positions", "Transformer, no positions", "transformer",
        _transformer(positions={"kind": "none"}), _T, solve=False, quick=True,
    ),
)  # fmt: skip


def choose(only: Sequence[str], *, quick: bool) -> list[Entry]:
    """The entries to train, in the line-up's order; those named in `only`, if any. Raises InputError for others."""
    names = [entry.name for entry in LINE_UP]
    for name in only:
        if name not in names:
            close = get_close_matches(name, names, 1)
            hint = f" (did you mean {close[0]!r}?)" if close else ""
            raise InputError(f"--only {name}: no model of the line-up{hint}; there are {', '.join(names)}")
    return [entry for entry in LINE_UP if (entry.name in only if only else entry.quick or not quick)]


@cache
def _parameters(name: str, size: Size, width: int) -> int:
    entry = next(each for each in LINE_UP if each.name == name)
    return count(entry.table(size, width), size.vocab_size)


def count(table: Mapping[str, Any], vocab_size: int) -> int:
    """Distinct parameters of the model that `table` describes; nothing is allocated."""
    return count_parameters(build(resolve_model(table, vocab_size, vocab_size, joint=True), device="meta"))


def solved(entry: Entry, size: Size) -> Table:
    """The model's table at the width whose parameters come nearest to the reference's.

    Parameters grow with the width, so the width is found by halving. Raises InputError where no width comes within 3 %,
    which is a fault of the line-up.
    """
    if not entry.solve:
        return entry.table(size, size.d_model)
    goal = _parameters(REFERENCE, size, size.d_model)
    low, high = 4, WIDEST
    while low < high:
        middle = (low + high) // 2
        if _parameters(entry.name, size, middle) < goal:
            low = middle + 1
        else:
            high = middle
    width = min((low - 1, low), key=lambda each: abs(_parameters(entry.name, size, each) - goal))
    found = _parameters(entry.name, size, width)
    if abs(found - goal) > TOLERANCE * goal:
        raise InputError(f"{entry.name}: no width comes within 3 % of {goal:,} parameters; nearest is {found:,}")
    return entry.table(size, width)
