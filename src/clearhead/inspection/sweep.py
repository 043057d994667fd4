"""Many heads closed, each in turn, without running the whole model for each.

What lies below a closed head does not change, so it is worked out once: what enters every layer, and what its heads
find. From there a twin runs on for many closed heads at once, as rows of one batch that grows on its way up: the heads
of a layer join where they act.

| the closed head is in | recalled | worked out anew for each head |
| --- | --- | --- |
| encoder layer l | what its heads find, and all below; self-attention of decoder layer 1 | the rest |
| decoder layer l | what its heads find, and all below; the source's keys and values | the rest |
| a decoder of another kind | the encoder | the decoder |

The modules that work are the model's own. Nothing but the mean negative log likelihood of the gold tokens leaves the
sweep.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor, nn

from clearhead.base.errors import InputError
from clearhead.inspection.interventions import Change, Interventions
from clearhead.inspection.losses import BATCH_TOKENS, NO_PAIRS, batches, mean_losses, taken, unchanged_losses
from clearhead.inspection.sites import Site, attention_sites
from clearhead.inspection.teaching import Pairs
from clearhead.inspection.twin import twin
from clearhead.models.protocols import Memory
from clearhead.models.seq2seq import Seq2Seq
from clearhead.models.transformer import TransformerDecoder, TransformerEncoder
from clearhead.nn.padding import Padded
from clearhead.nn.residual import Residual

__all__ = ["gated_losses"]


@torch.no_grad()
def gated_losses(
    model: Seq2Seq,
    pairs: Pairs,
    gates: Mapping[Site, Tensor],
    fills: Mapping[Site, Tensor] | None = None,
    *,
    batch_tokens: int = BATCH_TOKENS,
) -> tuple[Float[Tensor, " R"], dict[Site, Float[Tensor, "R V"]]]:
    """Mean negative log likelihood of the gold tokens of each pair: as the model is, and under each line of gates.

    `gates` gives for some of the model's attention sites V lines of one factor a head, [V, H]: line v multiplies the
    contexts of the heads of that one layer, everything else stays as it is. `fills` [H, E] takes the place of what is
    closed (see `interventions.Change`). Nats a token. Raises InputError for an ensemble, and if there are no pairs.
    """
    like, fills = next(model.parameters()), fills or {}
    lines = {site: each.to(like) for site, each in gates.items()}
    inside = {site: each for site, each in lines.items() if site.attention is not None}
    others = {site: each for site, each in lines.items() if site.attention is None}
    found: dict[Site, Tensor] = {}
    if others:
        found |= _by_whole_decoders(model, pairs, others, fills, batch_tokens)
    if not inside:
        return unchanged_losses(model, pairs, batch_tokens=batch_tokens), found
    if not len(pairs):
        raise InputError(NO_PAIRS)
    sweep = _Sweep(model, batch_tokens)
    each = [sweep.over(taken(pairs, [row])[1], inside, fills) for row in range(len(pairs))]
    found |= {site: torch.stack([losses[site] for _, losses in each]) for site in inside}
    return torch.cat([unchanged for unchanged, _ in each]), {site: found[site] for site in lines}


def _by_whole_decoders(
    model: Seq2Seq, pairs: Pairs, gates: Mapping[Site, Tensor], fills: Mapping[Site, Tensor], batch_tokens: int
) -> dict[Site, Float[Tensor, "R V"]]:
    """For decoders whose layers cannot be entered half-way: all of it for every line, the encoder once."""
    plain = Interventions(model)
    rows: list[Tensor] = []
    losses: dict[Site, list[Tensor]] = {site: [] for site in gates}
    for index, batch in batches(pairs, batch_tokens):
        rows.append(index)
        memory = plain.model.encoder(batch.source)
        for site, lines in gates.items():
            losses[site].append(_whole_decoder(plain, memory, batch, site, lines, fills.get(site), batch_tokens))
    if not rows:
        raise InputError(NO_PAIRS)
    back = torch.cat(rows).argsort()
    return {site: torch.cat(parts)[back] for site, parts in losses.items()}


def _whole_decoder(
    plain: Interventions,
    memory: Memory,
    pairs: Pairs,
    site: Site,
    gates: Tensor,
    fill: Tensor | None,
    batch_tokens: int,
) -> Float[Tensor, "R V"]:
    rows = torch.arange(len(pairs), device=pairs.source.ids.device)
    parts = []
    together = max(1, batch_tokens // (pairs.source.ids.numel() + pairs.prefix.ids.numel()))
    for some in torch.split(gates, together):
        times = len(some)
        with plain.using({site.path: Change(gates=some.repeat(len(pairs), 1), fill=fill)}) as model:
            state = model.decoder.start(memory).rows(rows[:, None].expand(-1, times))
            hidden, _ = model.decoder.advance(pairs.prefix.rows(rows.repeat_interleave(times)), state)
        parts.append(mean_losses(plain.model.decoder, hidden, pairs.gold).view(len(pairs), times))
    return torch.cat(parts, 1)


class _Notes:
    """What passed through the twin while `taking`: by the path of a residual, its input; of a W_O, its input."""

    def __init__(self) -> None:
        self.taking = False
        self.entered: dict[str, Tensor] = {}


class _Sublayer(nn.Module):
    """Stands for a residual. It notes what enters; later it lets rows join, or lets pass what comes.

    `joining` [V, T, D] is what the sublayer finds for rows that begin here, their input what was noted, the same for
    all. `first`: nothing of worth comes from below, so these rows are all there are.
    """

    def __init__(self, residual: Residual, path: str, notes: _Notes) -> None:
        super().__init__()
        self.residual = residual
        self.joining: Tensor | None = None
        self.first = False
        self._path = path
        self._notes = notes

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        if self._notes.taking:
            self._notes.entered[self._path] = x
        joining = self.joining
        if joining is None:
            return x if self.first else self._run(x, sublayer)
        joined = self._run(self._notes.entered[self._path], lambda _: joining)
        return joined if self.first else torch.cat([self._run(x, sublayer), joined])

    def _run(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        found: Tensor = self.residual(x, sublayer)
        return found


class _Noted(nn.Module):
    """Stands for the output projection of an attention: notes the contexts that enter it, [R, T, H·E]."""

    def __init__(self, linear: nn.Module, path: str, notes: _Notes) -> None:
        super().__init__()
        self.linear = linear
        self._path = path
        self._notes = notes

    def forward(self, x: Tensor) -> Tensor:
        if self._notes.taking:
            self._notes.entered[self._path] = x
        output: Tensor = self.linear(x)
        return output


class _Given(nn.Module):
    """Stands for what leads into a stack, and hands out what was found there before."""

    def __init__(self, states: Tensor) -> None:
        super().__init__()
        self.states = states

    def forward(self, *_: Tensor) -> Tensor:
        return self.states


class _Sweep:
    """A twin of a model with Transformer stacks that notes what one pair gives, and recalls it."""

    def __init__(self, model: Seq2Seq, batch_tokens: int) -> None:
        self._batch_tokens = batch_tokens
        self._notes = _Notes()
        self._sublayers: dict[str, _Sublayer] = {}
        self._outputs: dict[str, _Noted] = {}
        wanted = {f"{site.attention}.output" for site in attention_sites(model) if site.attention is not None}

        def swap(path: str, module: nn.Module) -> nn.Module | None:
            if isinstance(module, Residual):
                self._sublayers[path] = _Sublayer(module, path, self._notes)
                return self._sublayers[path]
            if path in wanted:
                self._outputs[path] = _Noted(module, path, self._notes)
                return self._outputs[path]
            return None

        self._model = twin(model, swap).eval()

    def over(
        self, pair: Pairs, gates: Mapping[Site, Tensor], fills: Mapping[Site, Tensor]
    ) -> tuple[Float[Tensor, " R"], dict[Site, Float[Tensor, " V"]]]:
        """The losses of one pair (R = 1): unchanged, and under each line of gates."""
        decoder = self._model.decoder
        self._notes.entered.clear()
        self._notes.taking = True
        memory = self._model.encoder(pair.source)
        hidden, _ = decoder.advance(pair.prefix, decoder.start(memory))
        self._notes.taking = False
        unchanged = mean_losses(decoder, hidden, pair.gold)
        together = max(1, self._batch_tokens // (pair.source.ids.shape[1] + pair.prefix.ids.shape[1]))
        losses: dict[Site, list[Tensor]] = {site: [] for site in gates}
        for low in (True, False):
            lines = [
                (site, line) for site in _upwards(gates) if (site.stack == "encoder") == low for line in gates[site]
            ]
            for start in range(0, len(lines), together):
                some = _grouped(lines[start : start + together])
                joining = [(site, self._attended(site, each, fills.get(site))) for site, each in some]
                hidden = self._above_encoder(pair, joining) if low else self._above_decoder(pair, memory, joining)
                parts = torch.split(mean_losses(decoder, hidden, pair.gold), [len(each) for _, each in some])
                for (site, _), part in zip(some, parts, strict=True):
                    losses[site].append(part)
        return unchanged, {site: torch.cat(parts) for site, parts in losses.items()}

    def _attended(self, site: Site, gates: Float[Tensor, "V H"], fill: Tensor | None) -> Float[Tensor, "V T D"]:
        """What the attention at `site` finds with each line of gates: its own W_O over the gated contexts."""
        path = f"{site.attention}.output"
        context = self._notes.entered[path]  # [1, T, H·E]
        opened = gates[:, None, :, None]
        kept = context.view(1, context.shape[1], site.heads, -1) * opened
        if fill is not None:
            kept = kept + (1 - opened) * fill.to(context)
        found: Tensor = self._outputs[path].linear(kept.flatten(2))
        return found

    def _above_encoder(self, pair: Pairs, joining: Sequence[tuple[Site, Tensor]]) -> Float[Tensor, "V T D"]:
        encoder, decoder = self._model.encoder, self._model.decoder
        assert isinstance(encoder, TransformerEncoder)
        with self._rising(encoder, joining):
            memory: Memory = encoder(pair.source)
        rows = memory.keys.shape[0]
        memory = replace(memory, mask=memory.mask.expand(rows, -1))
        prefix = Padded(pair.prefix.ids.expand(rows, -1), pair.prefix.lengths.expand(rows))
        if not isinstance(decoder, TransformerDecoder):
            return decoder.advance(prefix, decoder.start(memory))[0]
        reads_itself, reads_source = (f"decoder.layers.0.{each}_attention_residual" for each in ("self", "cross"))
        states = self._notes.entered[reads_source].expand(rows, -1, -1)
        with _entered(decoder, 0, states), self._first(reads_itself):
            return decoder.advance(prefix, decoder.start(memory))[0]

    def _above_decoder(
        self, pair: Pairs, memory: Memory, joining: Sequence[tuple[Site, Tensor]]
    ) -> Float[Tensor, "V T D"]:
        decoder = self._model.decoder
        assert isinstance(decoder, TransformerDecoder)
        with self._rising(decoder, joining):
            return decoder.advance(pair.prefix, decoder.start(memory))[0]

    @contextmanager
    def _rising(
        self, stack: TransformerEncoder | TransformerDecoder, joining: Sequence[tuple[Site, Tensor]]
    ) -> Iterator[None]:
        """With `stack` beginning where the first rows of `joining` join, the others joining on the way up."""
        lowest = joining[0][0]
        begins = [self._sublayers[f"{lowest.attention}_residual"]]
        if lowest.stack == "cross":
            begins.append(self._sublayers[f"decoder.layers.{_layer(lowest)}.self_attention_residual"])
        try:
            for site, attended in joining:
                self._sublayers[f"{site.attention}_residual"].joining = attended
            for each in begins:
                each.first = True
            with _entered(stack, _layer(lowest), self._notes.entered[f"{lowest.attention}_residual"]):
                yield
        finally:
            for sublayer in self._sublayers.values():
                sublayer.joining, sublayer.first = None, False

    @contextmanager
    def _first(self, path: str) -> Iterator[None]:
        """With the residual at `path` letting pass what comes."""
        self._sublayers[path].first = True
        try:
            yield
        finally:
            self._sublayers[path].first = False


@contextmanager
def _entered(stack: TransformerEncoder | TransformerDecoder, layer: int, states: Tensor) -> Iterator[None]:
    """With `stack`, of a twin, beginning at `layer`, from 0, with `states`."""
    below, layers = stack.input, stack.layers
    try:
        stack.input, stack.layers = _Given(states), nn.ModuleList(list(layers)[layer:])  # type: ignore[assignment]
        yield
    finally:
        stack.input, stack.layers = below, layers


def _layer(site: Site) -> int:
    """The place of its layer in the stack, from 0; not `site.layer` − 1 where a layer below has lost its attention."""
    return int(str(site.attention).split(".")[2])


def _upwards(sites: Mapping[Site, Tensor]) -> list[Site]:
    """In the order in which a pass comes by: a layer of the decoder reads itself before it reads the source."""
    return sorted(sites, key=lambda site: (site.stack != "encoder", _layer(site), site.stack == "cross"))


def _grouped(lines: Sequence[tuple[Site, Tensor]]) -> list[tuple[Site, Tensor]]:
    """Neighbouring lines of a site together, [V, H]."""
    found: dict[Site, list[Tensor]] = {}
    for site, line in lines:
        found.setdefault(site, []).append(line)
    return [(site, torch.stack(each)) for site, each in found.items()]
