"""Calibration: how right every method of inspection is on tasks whose answer is known.

Small models (Transformers with both places of the norm, RNNsearch, Luong, ConvS2S) learn to copy, to reverse, to sort,
and a made-up language; those that have solved their task are looked into by every method, and what it finds is compared
with the links that are known. `--record` writes the scores to `src/clearhead/inspection/calibration.json`, from where
reports show them beside each method's name, and the table to `benchmarks/results`.

No goal: a low score is a finding. A method without a score is not shown at all.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from harness import ROOT, common_arguments, header, print_header, record, table

if TYPE_CHECKING:
    from clearhead.inspection.calibrated import Calibration, Score

RECORDED = ROOT / "src" / "clearhead" / "inspection" / "calibration.json"


def measured(arguments: argparse.Namespace) -> Calibration:
    """Train what is not trained yet, and score."""
    from clearhead.recipes.inspect.calibration import calibrate
    from clearhead.recipes.inspect.calibration_methods import Effort
    from clearhead.recipes.inspect.calibration_tasks import MODELS, TASKS

    tasks, models, effort = TASKS, MODELS, Effort()
    if arguments.quick:
        tasks = tuple(replace(task, train=1500, held_out=20, words=8, lengths=(4, 6)) for task in TASKS[1:2])
        small = {"peak": 2e-2, "updates": 160, "width": 32, "d_ff": 32, "layers": 1, "dropout": 0.0}
        models = tuple(replace(model, **small, batch_tokens=256) for model in MODELS if model.name == "rnnsearch")
        effort = Effort(maps=4, integrated=2, untrained=2, heads=4, shuffled=2, shuffles=5, searched=1, steps=5)
    models = tuple(replace(model, seed=arguments.seed) for model in models)
    return calibrate(
        arguments.work, tasks=tasks, models=models, effort=effort, progress=lambda said: print(f"# {said}")
    )


def report(found: Calibration) -> str:
    """Tables: what the models learnt, the methods of tokens, and the methods of heads."""
    tasks = list(dict.fromkeys(each.task for each in found.models))
    accuracies = {(each.task, each.model): f"{each.accuracy:.4f}" for each in found.models}
    names = list(dict.fromkeys(each.model for each in found.models))
    planted = [each for each in found.scores if each.task == "planted" and each.value is not None]
    sections = {
        "Held-out target words that the models get right": table(
            ["model", *tasks], [[name, *(accuracies.get((task, name), "") for task in tasks)] for name in names]
        ),
        "Target words that are linked to the right word (if EOS may be largest, too; by the untrained model)": table(
            ["method", "model", "reads", *tasks], token_rows(found, names, tasks)
        ),
        "Cross-attention heads: rank correlation of a method's number with the head's share of right links (area under "
        "the curve in brackets)": table(["method", "model", *tasks], head_rows(found, names, tasks)),
        "Heads that are called aligned: precision, recall (named rightly in brackets)": table(
            ["model", *tasks], role_rows(found, names, tasks)
        ),
        "Heads made by hand that get their name": ", ".join(f"{each.part}: {each.value:.2f}" for each in planted),
    }
    return "\n\n".join(f"{title}\n\n{text.rstrip()}" for title, text in sections.items())


def token_rows(found: Calibration, names: list[str], tasks: list[str]) -> list[list[str]]:
    """A row for each method, model and part; the baselines first."""
    baselines = {(each.name, each.task): each.value for each in found.baselines}
    rows = [
        [name, "", "", *(f"{baselines[name, task]:.2f}" for task in tasks)]
        for name in dict.fromkeys(each.name for each in found.baselines)
    ]
    links = [each for each in found.scores if each.measure == "links"]
    for method, name, part in sorted({(each.method, names.index(each.model), each.part) for each in links}):
        key = found.scores, method, names[name], part
        cells = [[value(*key, task, each) for each in ("links", "links-with-end", "links-untrained")] for task in tasks]
        rows.append([method, names[name], part, *(pair(first, "; ".join(others)) for first, *others in cells)])
    return rows


def head_rows(found: Calibration, names: list[str], tasks: list[str]) -> list[list[str]]:
    """A row for each method and model."""
    ranked = [each for each in found.scores if each.measure == "rank-correlation"]
    rows = []
    for method, name in sorted({(each.method, names.index(each.model)) for each in ranked}):
        key = found.scores, method, names[name], ""
        cells = [pair(value(*key, task, "rank-correlation"), value(*key, task, "area")) for task in tasks]
        rows.append([method, names[name], *cells])
    return rows


def role_rows(found: Calibration, names: list[str], tasks: list[str]) -> list[list[str]]:
    """A row for each model whose heads were named."""
    rows = []
    for name in names:
        key = found.scores, "role", name, ""
        cells = [[value(*key, task, measure) for measure in ("precision", "recall", "named")] for task in tasks]
        if any(any(cell) for cell in cells):
            rows.append([name, *(pair(f"{first or '–'}, {second or '–'}", named) for first, second, named in cells)])
    return rows


def pair(first: str, second: str) -> str:
    """`0.93 (0.21)`; a dash for what is not there."""
    return f"{first} ({second or '–'})" if first else "–"


def value(scores: tuple[Score, ...], method: str, model: str, part: str, task: str, measure: str) -> str:
    """The score with two decimals; empty where there is none."""
    for each in scores:
        if (each.method, each.model, each.part, each.task, each.measure) == (method, model, part, task, measure):
            return "" if each.value is None else f"{each.value:.2f}"
    return ""


def main() -> None:
    parser = common_arguments(__doc__.split("\n", 1)[0], threads=1)
    parser.add_argument("--work", type=Path, default=ROOT / "runs" / "calibration", help="where the models are trained")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.work = arguments.work.with_name(f"{arguments.work.name}-quick")
    import torch

    torch.set_num_threads(arguments.threads)
    facts = header(arguments.threads)
    print_header("Calibration of the methods of inspection", facts)
    found = measured(arguments)
    text = report(found)
    print(text)
    if arguments.record and not arguments.quick:
        from clearhead.base.files import atomic_write

        atomic_write(RECORDED, found.to_json())
        record("calibration", facts, {"scores": found.table()}, text)


if __name__ == "__main__":
    main()
