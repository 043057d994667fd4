"""The plain rival: `torch.nn.Transformer` with what it leaves to its user, as its documentation would have it.

Shared embedding × √d_model, sinusoidal positions, tied projection, post-norm, `F.cross_entropy` with label
smoothing. Nothing here is tuned beyond what a careful user of PyTorch writes; nothing comes from clearhead.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

__all__ = ["PAD", "TorchTransformer", "greedy", "pad", "step"]

PAD, BOS, EOS = 0, 2, 3


class TorchTransformer(nn.Module):
    """An encoder–decoder around `nn.Transformer`.

    Shapes: `source` int64 [B, S], `prefix` int64 [B, T], both padded with PAD; logits [B, T, V].
    """

    def __init__(self, vocab_size: int, d_model: int, d_ff: int, heads: int, layers: int, dropout: float = 0.1) -> None:
        super().__init__()
        self.d_model = d_model
        self.embedding = nn.Embedding(vocab_size, d_model)
        self.transformer = nn.Transformer(
            d_model, heads, layers, layers, d_ff, dropout, batch_first=True, norm_first=False
        )
        self.transformer.encoder.use_nested_tensor = False  # a prototype that warns; training does not use it
        self.dropout = nn.Dropout(dropout)
        position = torch.arange(1024)[:, None]
        rate = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        table = torch.stack([torch.sin(position * rate), torch.cos(position * rate)], dim=-1).flatten(1)
        self.register_buffer("table", table, persistent=False)
        self.table: Tensor
        for parameter in self.transformer.parameters():
            if parameter.dim() > 1:
                nn.init.xavier_uniform_(parameter)
        nn.init.normal_(self.embedding.weight, std=d_model**-0.5)

    def embed(self, ids: Tensor) -> Tensor:
        return self.dropout(self.embedding(ids) * math.sqrt(self.d_model) + self.table[: ids.shape[1]])

    def encode(self, source: Tensor) -> Tensor:
        memory: Tensor = self.transformer.encoder(self.embed(source), src_key_padding_mask=source == PAD)
        return memory

    def decode(self, prefix: Tensor, memory: Tensor, source: Tensor) -> Tensor:
        causal = nn.Transformer.generate_square_subsequent_mask(prefix.shape[1], dtype=torch.bool)
        hidden: Tensor = self.transformer.decoder(
            self.embed(prefix),
            memory,
            tgt_mask=causal,
            tgt_is_causal=True,
            tgt_key_padding_mask=prefix == PAD,
            memory_key_padding_mask=source == PAD,
        )
        return hidden

    def forward(self, source: Tensor, prefix: Tensor) -> Tensor:
        return F.linear(self.decode(prefix, self.encode(source), source), self.embedding.weight)


def pad(rows: Sequence[Sequence[int]]) -> Tensor:
    """Rows of ids as one int64 rectangle, PAD on the right."""
    ids = torch.full((len(rows), max(len(row) for row in rows)), PAD, dtype=torch.int64)
    for index, row in enumerate(rows):
        ids[index, : len(row)] = torch.tensor(row, dtype=torch.int64)
    return ids


def step(
    model: TorchTransformer,
    optimizer: torch.optim.Optimizer,
    source: Tensor,
    prefix: Tensor,
    gold: Tensor,
    *,
    bf16: bool,
    smoothing: float = 0.1,
) -> Tensor:
    """One update: forward, backward, Adam. Returns the smoothed loss a token."""
    optimizer.zero_grad(set_to_none=True)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bf16):
        logits = model(source, prefix)
        loss = F.cross_entropy(logits.flatten(0, 1), gold.flatten(), ignore_index=PAD, label_smoothing=smoothing)
    loss.backward()
    optimizer.step()
    return loss.detach()


@torch.no_grad()
def greedy(
    model: TorchTransformer, sources: Sequence[Sequence[int]], *, batch: int = 64, extra: int = 50
) -> list[list[int]]:
    """Greedy translations of `sources` (ids with EOS), in their order; the prefix is read anew at each step."""
    model.eval()
    outputs: list[list[int]] = [[] for _ in sources]
    order = sorted(range(len(sources)), key=lambda index: len(sources[index]))
    for start in range(0, len(order), batch):
        chosen = order[start : start + batch]
        source = pad([sources[index] for index in chosen])
        memory = model.encode(source)
        prefix = torch.full((len(chosen), 1), BOS, dtype=torch.int64)
        done = torch.zeros(len(chosen), dtype=torch.bool)
        for _ in range(source.shape[1] + extra):
            hidden = model.decode(prefix, memory, source)[:, -1]
            logits = F.linear(hidden, model.embedding.weight)
            logits[:, [PAD, BOS]] = -torch.inf
            token = logits.argmax(-1).masked_fill(done, EOS)
            prefix = torch.cat([prefix, token[:, None]], dim=1)
            done |= token == EOS
            if bool(done.all()):
                break
        for row, index in enumerate(chosen):
            ids = prefix[row, 1:].tolist()
            outputs[index] = ids[: ids.index(EOS)] if EOS in ids else ids
    return outputs
