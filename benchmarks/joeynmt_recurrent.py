"""joeynmt 2.3.0's recurrent model with Bahdanau attention, built, trained and searched in this process.

It is the nearest that joeynmt has to RNNsearch: a bidirectional GRU (PyTorch's kernel) reads, a GRU writes, the
energies are Bahdanau's. It differs in that the state *after* the step asks, that tanh(W[s; c]) stands where RNNsearch
has maxout, and that this vector, not the context, goes into the next step (input feeding, without which attention would
not reach the state at all). Its ids for padding and unknown words are the other way round: 1 and 0.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

__all__ = ["make", "searches", "trains"]

PAD, BOS, EOS = 1, 2, 3
Pairs = list[tuple[list[int], list[int]]]


def make(size: dict[str, int], dropout: float, seed: int) -> Any:
    """Its model of `size`: embedding, width (also of the energies' hidden layer), vocab; initialised as it does."""
    import torch
    from joeynmt.model import build_model
    from joeynmt.vocabulary import Vocabulary

    special = {
        "unk_token": "<unk>", "pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>", "sep_token": None,
        "unk_id": 0, "pad_id": PAD, "bos_id": BOS, "eos_id": EOS, "sep_id": None, "lang_tags": [],
    }  # fmt: skip
    vocabulary = Vocabulary([], SimpleNamespace(**special))
    vocabulary._itos.extend(f"t{index}" for index in range(4, size["vocab"]))  # adding them one by one takes minutes

    def half() -> dict[str, Any]:
        return {
            "type": "recurrent",
            "rnn_type": "gru",
            "num_layers": 1,
            "hidden_size": size["width"],
            "dropout": dropout,
            "embeddings": {"embedding_dim": size["embedding"], "dropout": dropout},
        }

    attending = {"attention": "bahdanau", "input_feeding": True, "init_hidden": "bridge", "hidden_dropout": dropout}
    torch.manual_seed(seed)
    return build_model(
        {"encoder": half() | {"bidirectional": True}, "decoder": half() | attending, "tied_embeddings": False},
        vocabulary,
        vocabulary,
    )


def _batch(pairs: Pairs | list[list[int]], train: bool) -> Any:
    """A batch as its data loader makes it, the longest source first."""
    import torch
    from joeynmt.batch import Batch

    def padded(rows: list[list[int]]) -> Any:
        width = max(len(row) for row in rows)
        return torch.tensor([[*row, *[PAD] * (width - len(row))] for row in rows])

    sources = [[*(pair[0] if train else pair), EOS] for pair in pairs]
    batch = Batch(
        src=padded(sources),
        src_length=torch.tensor([len(source) for source in sources]),
        src_prompt_mask=None,
        trg=padded([[BOS, *target, EOS] for _, target in pairs]) if train else None,  # type: ignore[misc]
        trg_prompt_mask=None,
        indices=torch.arange(len(sources)),
        device=torch.device("cpu"),
        pad_index=PAD,
        eos_index=EOS,
        is_train=train,
    )
    batch.sort_by_src_length()
    return batch


def trains(model: Any, batches: list[Pairs]) -> Callable[[], float]:
    """Forward, backward, Adam over all batches, as its trainer does with `normalization: tokens`; the seconds."""
    import torch

    model.loss_function = ("crossentropy", 0.1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, betas=(0.9, 0.98))
    ready = [_batch(batch, train=True) for batch in batches]

    def run() -> float:
        model.train()
        start = time.perf_counter()
        for batch in ready:
            loss, *_ = model(return_type="loss", **vars(batch))
            (loss / batch.ntokens).backward()
            optimizer.step()
            model.zero_grad()
        return time.perf_counter() - start

    return run


def searches(model: Any, batches: list[list[list[int]]], lengths: list[int], beam: int) -> Callable[[], float]:
    """Its beam search over all batches, each to exactly so many tokens; the seconds."""
    import torch
    from joeynmt.search import search

    ready = [_batch(batch, train=False) for batch in batches]

    def run() -> float:
        model.eval()
        start = time.perf_counter()
        with torch.inference_mode():
            for batch, length in zip(ready, lengths, strict=True):
                forced = {"max_output_length": length, "min_output_length": length}
                output, *_ = search(model=model, batch=batch, beam_size=beam, beam_alpha=0.6, n_best=1, **forced)
                if output.shape[1] != length:
                    raise SystemExit(f"joeynmt wrote {output.shape[1]} tokens, not {length}")
        return time.perf_counter() - start

    return run
