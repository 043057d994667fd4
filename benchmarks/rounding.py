"""What rounding to few bits changes in a trained model's translations, whatever kernel does it: a simulation.

A float64 twin of the model rounds nothing but what a row of the table says: weights (one scale an output), activations
(one scale a row), or both, symmetrically, ties to even; or all of them to bf16. So the share of texts that stay as they
were is a matter of the format, and of no kernel. Beam 4, free stopping, scores log P / |Y|^0.6, as in
`translate_speed.py`'s table `trained`.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import common_arguments, header, print_header, record, table

TOGETHER = 100
"""Sentences searched at once, those of similar length together."""


@dataclass(frozen=True)
class Rounding:
    """How the numbers of a row are rounded: to integers of `bits` with a scale for each `group` of them (0: for all).

    `bits` 0 rounds nothing; 16 is bf16, which needs no scale.
    """

    bits: int = 0
    group: int = 0

    def __call__(self, rows: Any) -> Any:
        """`rows` [..., N] as the format holds them, in their own type.

        >>> import torch
        >>> Rounding(3)(torch.tensor([[3.0, 1.4, -0.6, 0.0]])).tolist()
        [[3.0, 1.0, -1.0, 0.0]]
        """
        import torch

        if not self.bits:
            return rows
        if self.bits == 16:
            return rows.to(torch.bfloat16).to(rows.dtype)
        size = self.group or rows.shape[-1]
        groups = rows.unflatten(-1, (-1, size))
        scale = groups.abs().amax(-1, keepdim=True) / (2 ** (self.bits - 1) - 1)
        scale = scale.where(scale > 0, torch.ones_like(scale))
        return ((groups / scale).round() * scale).flatten(-2)


NONE, BYTE, GROUPS, TEN, BF16 = Rounding(), Rounding(8), Rounding(8, 32), Rounding(10), Rounding(16)
ROWS: dict[str, tuple[Rounding, Rounding]] = {
    "nothing": (NONE, NONE),
    "weights, 8 bits": (BYTE, NONE),
    "activations, 8 bits": (NONE, BYTE),
    "both, 8 bits": (BYTE, BYTE),
    "both, 8 bits, a scale for 32 numbers": (GROUPS, GROUPS),
    "both, 10 bits": (TEN, TEN),
    "both, bf16": (BF16, BF16),
}
"""What is rounded: weights, activations. The first is what the others are compared with."""


class Rounded:
    """A product of a model, its weight rounded once and what it reads each time."""

    def __init__(self, exact: Any, weight: Rounding, activation: Rounding) -> None:
        self.exact = dataclasses.replace(exact, weight=weight(exact.weight))
        self.inputs, self.outputs = exact.inputs, exact.outputs
        self.description = "rounded products"
        self.rows = self.exact.rows
        self.activation = activation

    def __call__(self, x: Any) -> Any:
        return self.exact(self.activation(x))


def rounded(part: Any, change: Callable[[Any], Any]) -> Any:
    """`part` of `engine.weights.Weights` with `change` made to every product in it."""
    from clearhead.engine.products import PlainProduct

    if isinstance(part, PlainProduct):
        return change(part)
    if isinstance(part, tuple):
        return tuple(rounded(each, change) for each in part)
    if dataclasses.is_dataclass(part) and not isinstance(part, type):
        fields = {field.name: getattr(part, field.name) for field in dataclasses.fields(part)}
        return dataclasses.replace(part, **{name: rounded(each, change) for name, each in fields.items()})
    return part


def translated(model: Any, sources: Sequence[Sequence[int]], beam: int) -> list[tuple[int, ...]]:
    """The best translation of each of `sources` (without EOS), by the search of `clearhead.decoding`."""
    import torch
    from translate_corpus import EOS

    from clearhead.decoding import DecodingConfig, search
    from clearhead.nn.padding import Padded

    config = DecodingConfig(beam=beam, penalty="length", alpha=0.6)
    order = sorted(range(len(sources)), key=lambda place: len(sources[place]))
    found: dict[int, tuple[int, ...]] = {}
    for first in range(0, len(order), TOGETHER):
        places = order[first : first + TOGETHER]
        with torch.inference_mode():
            best = search(model, Padded.from_lists([[*sources[place], EOS] for place in places]), config)
        found |= {place: tuple(each[0].tokens) for place, each in zip(places, best, strict=True)}
    return [found[place] for place in range(len(sources))]


def measure(bundle: Path, text: Any, beam: int) -> dict[str, Any]:
    """For each of `ROWS` the share of texts that are those of the first, and BLEU."""
    from clearhead.bundle.bundle import load_bundle
    from clearhead.engine.fused import FusedModel
    from clearhead.engine.weights import fuse
    from clearhead.metrics.scores import score_corpus

    whole = load_bundle(bundle)
    exact = fuse(whole.model.double().eval(), "fp32")
    sources = [whole.tokenizers.source.encode(line) for line in text.sources]
    result: dict[str, Any] = {"sentences": len(sources), "beam": beam, "rounded": {}}
    first: list[str] = []
    for row, (weight, activation) in ROWS.items():
        model = FusedModel(rounded(exact, lambda part, w=weight, a=activation: Rounded(part, w, a)))
        texts = [whole.tokenizers.target.decode(each) for each in translated(model, sources, beam)]
        first = first or texts
        note: dict[str, Any] = {"same text": sum(map(str.__eq__, texts, first)) / len(texts)}
        if text.references:
            note["bleu"] = score_corpus(texts, text.references, target_language=whole.languages[1]).bleu.value
        result["rounded"][row] = note
        print(f"  {row}: {100 * note['same text']:.1f} %", file=sys.stderr, flush=True)
    return result


def main() -> None:
    parser = common_arguments(__doc__.split("\n", 1)[0])
    parser.add_argument("--bundle", type=Path, default=None, help="the trained model (Multi30k's run or the demo's)")
    parser.add_argument("--source", type=Path, default=None, help="text for it (the test set of that run)")
    parser.add_argument("--target", type=Path, default=None, help="its translation, for BLEU")
    parser.add_argument("--beam", type=int, default=4)
    parser.add_argument("--lines", type=int, default=1000, help="how many of the text's lines")
    arguments = parser.parse_args()
    import torch
    from translate_trained import Text, where

    torch.set_num_threads(arguments.threads)
    facts = header(arguments.threads)
    print_header("What rounding changes", facts)
    found = where(arguments)
    if isinstance(found, str):
        print(found)
        return
    bundle, text = found
    lines = 10 if arguments.quick else arguments.lines
    text = Text(text.sources[:lines], text.references and text.references[:lines])
    result = measure(bundle, text, arguments.beam)
    rows = [
        [row, f"{100 * note['same text']:.1f} %", f"{note['bleu']:.2f}" if "bleu" in note else "–"]
        for row, note in result["rounded"].items()
    ]
    shown = table(["rounded", "same text", "BLEU"], rows)
    print(f"\n{shown}")
    if arguments.record:
        record("rounding", facts, result, shown)


if __name__ == "__main__":
    sys.exit(main())
