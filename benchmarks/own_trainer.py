"""Our whole trainer and our bare step on the same batches: what the trainer's care costs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any, Literal

__all__ = ["bare_and_whole", "bare_step"]

Pairs = list[tuple[list[int], list[int]]]
Precision = Literal["fp32", "bf16"]


def bare_step(model: Any, batches: list[Pairs], precision: Precision, optimizer: Any = None) -> Callable[[], float]:
    """Forward, backward, Adam over ready batches, nothing else; the seconds of one pass."""
    import torch

    from clearhead.data.collate import collate
    from clearhead.objectives import CrossEntropy
    from clearhead.training.config import Adam
    from clearhead.training.device import Compute
    from clearhead.training.optim import build_optimizer

    model.train()
    objective = CrossEntropy(label_smoothing=0.1)
    optimizer = optimizer or build_optimizer(model, Adam())
    compute = Compute(torch.device("cpu"), precision, torch.get_num_threads())
    for group in optimizer.param_groups:
        group["lr"] = 1e-4
    ready = [collate(batch) for batch in batches]

    def run() -> float:
        start = time.perf_counter()
        for batch in ready:
            optimizer.zero_grad(set_to_none=True)
            with compute.autocast():
                loss = objective(model, batch)
            (loss.sum / loss.count).backward()
            optimizer.step()
        return time.perf_counter() - start

    return run


def bare_and_whole(
    make: Callable[[], Any], batches: list[Pairs], precision: Precision, folder: Path
) -> tuple[Callable[[], float], Callable[[], float]]:
    """The bare step and a whole run (collation, schedule, clipping, metrics file, display) on one model."""
    import torch

    from clearhead.data.batches import Cursor
    from clearhead.data.collate import collate
    from clearhead.objectives import CrossEntropy
    from clearhead.training.config import Adam, TrainingConfig
    from clearhead.training.device import Compute
    from clearhead.training.display import Display
    from clearhead.training.events import MetricsFile
    from clearhead.training.optim import build_optimizer
    from clearhead.training.progress import Drawn
    from clearhead.training.trainer import Trainer

    model = make()
    optimizer = build_optimizer(model, Adam())
    config = TrainingConfig(updates=len(batches), clip_norm=1.0, precision=precision, log_every=2)
    compute = Compute(torch.device("cpu"), precision, torch.get_num_threads())
    runs = count()

    def stream(cursor: Cursor) -> Iterator[Drawn[Any]]:
        pairs = 0
        for index, batch in enumerate(batches):
            ready = collate(batch)
            numbers = range(pairs, pairs + len(batch))
            pairs += len(batch)
            yield Drawn(ready, numbers, ready.tokens, ready.source_tokens, Cursor(0, index + 1, pairs))

    def whole() -> float:
        start = time.perf_counter()
        handlers = [MetricsFile(folder / f"metrics-{next(runs)}.jsonl", config.log_every), Display(config.log_every)]
        trainer = Trainer(
            model=model,
            objective=CrossEntropy(label_smoothing=0.1),
            stream=stream,
            optimizer=optimizer,
            schedule=lambda number: 1e-4,
            config=config,
            compute=compute,
            handlers=handlers,
        )
        trainer.run()
        return time.perf_counter() - start

    return bare_step(model, batches, precision, optimizer), whole
