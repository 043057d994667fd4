"""The steps of a walk-through that show layers: from tokens to the encoder's memory, and through the decoder."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from clearhead.explorer import words
from clearhead.explorer.content import (
    Both,
    Fold,
    Group,
    Item,
    Look,
    Matrix,
    Note,
    Operator,
    Step,
    Tokens,
    Variant,
    Window,
)
from clearhead.explorer.words import CAPTIONS, TITLES
from clearhead.nn.positions import NoPositions
from clearhead.recipes.walk import Walk

__all__ = ["Stages"]

TIMES, PLUS, ARROW = Operator("×"), Operator("+"), Operator("→")
PLAIN = Both("", "")


@dataclass(frozen=True)
class Stages:
    """Makes the groups of steps of one walk."""

    walk: Walk
    window: Window

    def source(self) -> Group:
        """Tokens and what enters the encoder."""
        pieces = self.walk.source_pieces
        unknown = self.walk.source_unknown
        tokens = Tokens(TITLES["tokens"], pieces, self.walk.replay.source, unknown)
        return Group(
            TITLES["source"],
            (
                Step("tokens", TITLES["tokens"], words.tokens_words(), (Variant(PLAIN, (tokens, *_noted(unknown))),)),
                self._embedding("encoder", pieces),
            ),
        )

    def encoder(self) -> list[Group]:
        """A group a layer, the memory behind the last."""
        pieces = self.walk.source_pieces
        groups = []
        for number in range(self._layers("encoder")):
            at = f"encoder.layers.{number}"
            steps = [*self._attention(at, "attention", pieces, pieces), self._feedforward(at, pieces)]
            groups.append(Group(words.layer("encoder", number + 1), tuple(steps)))
        memory = self._matrix("memory", "Z", "memory", self.walk.replay.memory.keys[0], rows=pieces)
        step = Step("memory", TITLES["memory"], words.memory_words(), (Variant(PLAIN, (memory,)),))
        last = groups.pop()
        return [*groups, Group(last.title, (*last.steps, step))]

    def decoder(self) -> list[Group]:
        """What the decoder reads, and a group a layer."""
        pieces = self.walk.prefix_pieces
        unknown = self.walk.target_unknown
        tokens = Tokens(TITLES["shifted"], pieces, self.walk.replay.prefix, unknown)
        view = Variant(PLAIN, (tokens, *_noted(unknown)))
        shifted = Step("shifted", TITLES["shifted"], words.shifted_words(self.walk.asked), (view,))
        groups = [Group(TITLES["shifted"], (shifted, self._embedding("decoder", pieces)))]
        for number in range(self._layers("decoder")):
            at = f"decoder.layers.{number}"
            own = self._attention(at, "self_attention", pieces, pieces)
            crossing = self._attention(at, "cross_attention", pieces, self.walk.source_pieces)
            groups += [
                Group(words.sublayer(number + 1, "self_attention"), tuple(own)),
                Group(words.sublayer(number + 1, "cross_attention"), tuple(crossing)),
                Group(words.layer("decoder", number + 1), (self._feedforward(at, pieces),)),
            ]
        return groups

    # ---------------------------------------------------------------------------------------------------- the steps

    def _embedding(self, stack: str, pieces: Sequence[str]) -> Step:
        at = f"{stack}.input"
        scaled = self._left(f"{at}.embedding")
        width = scaled.shape[1]
        positions = self._left(f"{at}.positions")
        items: tuple[Item, ...] = (
            self._matrix(f"{at}.rows", "E", "rows", scaled / math.sqrt(width), rows=pieces),
            Operator(f"× √{width}"),
            self._matrix(f"{at}.scaled", "√d·E", "scaled", scaled, rows=pieces),
            PLUS,
            self._matrix(f"{at}.positions", "PE", "positions", positions, rows=pieces),
            Operator("="),
            self._matrix(f"{at}.sum", "X", "sum", scaled + positions, rows=pieces),
        )
        name = f"{stack}-embedding"
        module = self.walk.model.get_submodule(f"{at}.positions")
        words_here = words.embedding_words(width, not isinstance(module, NoPositions))
        return Step(name, TITLES["embedding"], words_here, (Variant(PLAIN, items),), "X = √d·E + PE")

    def _attention(self, at: str, kind: str, queries: Sequence[str], keys: Sequence[str]) -> list[Step]:
        """The three steps of one attention sub-layer, of `at`'s attention called `kind`."""
        module: Any = self.walk.model.get_submodule(f"{at}.{kind}")
        name = _name(at, kind)
        heads = range(module.heads)
        projections = tuple(Variant(words.head(h + 1), self._projections(at, kind, h, queries, keys)) for h in heads)
        weighing = tuple(Variant(words.head(h + 1), self._weighing(at, kind, h, queries, keys)) for h in heads)
        bias = module.query.bias is not None
        told = words.projection_words(kind, module.head_dim, module.heads, module.kv_heads, bias)
        placement = self._placement(at, kind)
        root = f"√{module.head_dim}"
        return [
            Step(
                f"{name}-projections",
                TITLES["projections"],
                told,
                projections,
                _projected(kind, bias),
                self._read(at, kind, queries, keys),
            ),
            Step(
                f"{name}",
                TITLES["attention"],
                words.attention_words(kind),
                weighing,
                f"A = softmax(Q·Kᵀ / {root} + mask)   O = A·V",
            ),
            Step(
                f"{name}-join",
                TITLES["join"],
                words.join_words(placement),
                (Variant(PLAIN, self._join(at, kind, queries)),),
                "Y = LayerNorm(X + [O₁ … Oₕ]·W_O)" if placement == "post" else "Y = X + [O₁ … Oₕ]·W_O",
            ),
        ]

    def _read(self, at: str, kind: str, queries: Sequence[str], keys: Sequence[str]) -> tuple[Item, ...]:
        """What all heads of an attention make their queries, keys and values of."""
        prefix = f"{at}.{kind}"
        caption = "normed" if self._placement(at, kind) == "pre" else "x"
        own = self._matrix(f"{prefix}.x", "X", caption, self._entered(f"{prefix}.query"), rows=queries)
        if kind != "cross_attention":
            return (own,)
        return (own, self._matrix(f"{prefix}.z", "Z", "memory", self._entered(f"{prefix}.key"), rows=keys))

    def _projections(
        self, at: str, kind: str, head: int, queries: Sequence[str], keys: Sequence[str]
    ) -> tuple[Item, ...]:
        module: Any = self.walk.model.get_submodule(f"{at}.{kind}")
        record = self.walk.replay.recording.attention[f"{at}.{kind}.core"]
        shared = head // (module.heads // module.kv_heads)
        prefix = f"{at}.{kind}.head-{head + 1}"
        found: list[Item] = []
        folds: list[Item] = []
        for letter, part, own, values, names in (
            ("Q", "query", head, record.query[0, head], queries),
            ("K", "key", shared, record.key[0, shared], keys),
            ("V", "value", shared, record.value[0, shared], keys),
        ):
            rows = slice(own * module.head_dim, (own + 1) * module.head_dim)
            learnt = self._matrix(
                f"{prefix}.w_{part}", f"W_{letter}", "weight", getattr(module, part).weight.detach()[rows].T
            )
            caption = {"query": "queries", "key": "keys", "value": "values"}[part]
            found.append(self._matrix(f"{prefix}.{part}", letter, caption, values, rows=names))
            folds.append(Fold(CAPTIONS["matrix"], f"W_{letter}", (learnt,)))
        return (*found, *folds) if self.window.full else tuple(found)

    def _weighing(self, at: str, kind: str, head: int, queries: Sequence[str], keys: Sequence[str]) -> tuple[Item, ...]:
        record = self.walk.replay.recording.attention[f"{at}.{kind}.core"]
        prefix = f"{at}.{kind}.head-{head + 1}"
        shared = head // (record.query.shape[1] // record.key.shape[1])
        visible = record.visible[0, head]
        items: list[Item] = []
        if record.scores is not None:
            scores = record.scores[0, head]
            symbol = f"Q·Kᵀ/√{record.query.shape[-1]}"
            named = Look(self.window, tuple(queries), tuple(keys))
            masked = not bool(visible.all())
            if masked and not self.window.full:  # one picture for two, in the page of a large model
                items.append(Matrix.of(f"{prefix}.scores", f"{symbol} + M", CAPTIONS["scores"], scores, named, visible))
            else:
                items.append(Matrix.of(f"{prefix}.scores", symbol, CAPTIONS["scores"], scores, named))
            if masked and self.window.full:
                mask = Look(self.window, tuple(queries), tuple(keys), "mask")
                nothing = torch.zeros_like(scores)
                items += [PLUS, Matrix.of(f"{prefix}.mask", "M", CAPTIONS["mask"], nothing, mask, visible)]
            items.append(Operator("→", Both("softmax", "softmax")))
        shares = Look(self.window, tuple(queries), tuple(keys), "share")
        weights = Matrix.of(f"{prefix}.weights", "A", CAPTIONS["weights"], record.weights[0, head], shares, visible)
        items += [
            weights,
            TIMES,
            self._matrix(f"{prefix}.values", "V", "values", record.value[0, shared], rows=keys),
            Operator("="),
            self._matrix(f"{prefix}.mixed", "O", "mixed", record.mixed[0, head], rows=queries),
        ]
        return tuple(items)

    def _join(self, at: str, kind: str, pieces: Sequence[str]) -> tuple[Item, ...]:
        module: Any = self.walk.model.get_submodule(f"{at}.{kind}")
        prefix = f"{at}.{kind}"
        learnt = self._matrix(f"{prefix}.w_output", "W_O", "weight", module.output.weight.detach().T)
        return (
            self._matrix(f"{prefix}.concat", "[O₁ … Oₕ]", "concat", self._entered(f"{prefix}.output"), rows=pieces),
            Operator("·W_O →"),
            self._matrix(f"{prefix}.output", "·W_O", "output", self._left(f"{prefix}.output"), rows=pieces),
            *self._added(at, kind, f"{prefix}.output", pieces),
            *([Fold(CAPTIONS["matrix"], "W_O", (learnt,))] if self.window.full else []),
        )

    def _feedforward(self, at: str, pieces: Sequence[str]) -> Step:
        module: Any = self.walk.model.get_submodule(f"{at}.feedforward")
        prefix = f"{at}.feedforward"
        inner = self._left(f"{prefix}.inner")
        placement = self._placement(at, "feedforward")
        signs = {"relu": "max(0, ·)", "gelu": "GELU", "silu": "SiLU", "swiglu": "SiLU(X·W_g) ⊙"}
        items: tuple[Item, ...] = (
            self._matrix(
                f"{prefix}.x",
                "X",
                "x" if placement == "post" else "normed",
                self._entered(f"{prefix}.inner"),
                rows=pieces,
            ),
            Operator("→", Both("W₁", "W₁")),
            self._matrix(f"{prefix}.inner", "X·W₁ + b₁", "inner", inner, rows=pieces),
            Operator("→", Both(signs[module.activation], signs[module.activation])),
            self._matrix(f"{prefix}.active", "H", "active", self._entered(f"{prefix}.outer"), rows=pieces),
            Operator("→", Both("W₂", "W₂")),
            self._matrix(f"{prefix}.outer", "H·W₂ + b₂", "output", self._left(f"{prefix}.outer"), rows=pieces),
            *self._added(at, "feedforward", f"{prefix}.outer", pieces),
        )
        told = words.feedforward_words(module.activation, inner.shape[1], placement)
        name = f"{_name(at, '')}feedforward"
        return Step(name, TITLES["feedforward"], told, (Variant(PLAIN, items),), _formula(module.activation, placement))

    def _added(self, at: str, kind: str, left: str, pieces: Sequence[str]) -> list[Item]:
        """The residual connection behind a sub-layer."""
        norm, prefix = f"{at}.{kind}_residual.norm", f"{at}.{kind}"
        if self._placement(at, kind) == "pre":
            total = self._entered(norm) + self._left(left)
            return [Operator("+ X →"), self._matrix(f"{prefix}.result", "Y", "residual", total, rows=pieces)]
        return [
            Operator("+ X →"),
            self._matrix(f"{prefix}.residual", "X + …", "residual", self._entered(norm), rows=pieces),
            Operator("→", Both("norm", "归一化")),
            self._matrix(f"{prefix}.result", "Y", "norm", self._left(norm), rows=pieces),
        ]

    # ------------------------------------------------------------------------------------------------------- the tools

    def _layers(self, stack: str) -> int:
        layers: Any = self.walk.model.get_submodule(f"{stack}.layers")
        return len(layers)

    def _placement(self, at: str, kind: str) -> str:
        residual: Any = self.walk.model.get_submodule(f"{at}.{kind}_residual")
        return str(residual.placement)

    def _entered(self, path: str) -> Tensor:
        return self.walk.replay.recording.entered(path)[0]

    def _left(self, path: str) -> Tensor:
        return self.walk.replay.recording.left(path)[0]

    def _matrix(
        self, name: str, symbol: str, caption: str, values: Tensor, *, rows: Sequence[str] | None = None
    ) -> Matrix:
        return Matrix.of(name, symbol, CAPTIONS[caption], values, Look(self.window, tuple(rows or ())))


def _noted(unknown: Sequence[str]) -> list[Item]:
    """A remark on tokens that the vocabulary does not have, if there are any."""
    return [Note(words.unknown_words(len(unknown)))] if unknown else []


def _name(at: str, kind: str) -> str:
    """`encoder-1-attention` for the first layer's attention: what a link into the page names."""
    stack, _, number = at.split(".")
    return f"{stack}-{int(number) + 1}-{kind.replace('_', '-')}"


def _projected(kind: str, bias: bool) -> str:
    source = "Z" if kind == "cross_attention" else "X"
    extra = " + b" if bias else ""
    return f"Q = X·W_Q{extra}   K = {source}·W_K{extra}   V = {source}·W_V{extra}"


def _formula(activation: str, placement: str) -> str:
    inner = {
        "relu": "max(0, X·W₁ + b₁)·W₂ + b₂",
        "gelu": "GELU(X·W₁ + b₁)·W₂ + b₂",
        "silu": "SiLU(X·W₁ + b₁)·W₂ + b₂",
        "swiglu": "(SiLU(X·W_g + b_g) ⊙ (X·W₁ + b₁))·W₂ + b₂",
    }[activation]
    return f"Y = LayerNorm(X + {inner})" if placement == "post" else f"Y = X + {inner}"
