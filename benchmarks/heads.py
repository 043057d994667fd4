"""What the heads of trained models do: roles, closing, pruning, permuted and adversarial weights, how methods agree.

Over the first pairs of a test set whose targets are given. Each model is named as NAME=BUNDLE; each number is of that
model alone, trained once, and says nothing about another; NAME=BUNDLE,BUNDLE,… names the same model trained from other
seeds, too, and tells how far their maps lie apart. `--links` are word links of the pairs (of a statistical
aligner, or of people) for the aligned heads. Draws the pruning curves beside the record.
"""

from __future__ import annotations

import math
from itertools import combinations
from pathlib import Path
from typing import Any

from harness import common_arguments, header, print_header, record, table

SIDES = ("permutation", "uniform", "adversarial")
NUMBER = {"permutation": "median_tvd", "uniform": "mean_tvd", "adversarial": "max_jsd"}
TOKEN_METHODS = (
    "attention", "value-norms", "rollout", "gradient-input", "gradient-norm", "integrated-gradients", "occlusion",
)  # fmt: skip


def looked_at(paths: list[str], arguments: Any) -> dict[str, Any]:
    """Everything about the first model; the others are its siblings of other seeds."""
    import torch

    from clearhead.inspection.agreement import spearman
    from clearhead.recipes.inspect.bundles import model_name
    from clearhead.recipes.inspect.sample import SampleSize, inspect_sample
    from clearhead.recipes.inspect.sample_pairs import read_sample
    from clearhead.recipes.translate import load

    path, *siblings = paths
    translator = load(path, device="cpu")
    sample = read_sample(translator, arguments.source, arguments.target, arguments.pairs, arguments.links)
    size = SampleSize(
        pairs=arguments.pairs,
        translated=arguments.translated,
        shuffled=arguments.shuffled,
        shuffles=arguments.shuffles,
        attacked=arguments.attacked,
    )
    evidence = inspect_sample(
        translator,
        sample,
        name=model_name(path),
        size=size,
        seed=arguments.seed,
        stage=lambda name, steps: print(f"  {name}"),
    )
    found: dict[str, dict[str, Any]] = {}
    for each in evidence.findings:
        unit = " ".join(str(part) for part in (each.unit.stack, each.unit.layer, each.unit.head) if part is not None)
        found.setdefault(unit, {})[each.method] = each.values | each.words
    heads = [each for each in found.values() if "importance" in each]
    importance = torch.tensor([each["importance"]["importance"] for each in heads])[None]
    costs = {
        fill: torch.tensor([each[f"ablation-{fill}"]["delta_nll"] for each in heads])[None] for fill in ("zero", "mean")
    }
    return {
        "family": evidence.provenance.family,
        "pairs": evidence.pairs,
        "tokens": evidence.tokens,
        "settings": evidence.settings,
        "units": found,
        "roles": roles(found),
        "importance_and_ablation": {fill: defined(spearman(importance, cost)[0]) for fill, cost in costs.items()},
        "curves": [
            {"method": each.method, "name": each.name, "x_name": each.x_name, "x": each.x, "series": each.series}
            for each in evidence.curves
        ],
        "probes": [vars(each) | {"selectivity": each.selectivity} for each in evidence.probes],
        "agreement": agreements(translator, sample, arguments.explained),
        "seeds": between_seeds(
            translator, [load(each, device="cpu") for each in siblings], sample, arguments.explained
        ),
    }


def defined(value: Any) -> float | None:
    """None for what is not defined, as a correlation of one head: JSON has no NaN."""
    return None if math.isnan(value) else float(value)


def roles(found: dict[str, dict[str, Any]]) -> dict[str, dict[str, int]]:
    """How many heads of each stack have each role."""
    counted: dict[str, dict[str, int]] = {}
    for unit, findings in found.items():
        if "role" in findings:
            of_stack = counted.setdefault(unit.split()[0], {})
            of_stack[findings["role"]["role"]] = of_stack.get(findings["role"]["role"], 0) + 1
    return counted


def agreements(translator: Any, sample: Any, most: int) -> dict[str, dict[str, float]]:
    """Kendall's τ-b between the source rows of every two methods, the mean over predictions and pairs.

    Of the methods that read a layer, the last layer that reads the source. `same first`: the share of predictions for
    which both find the same token the largest.
    """
    import torch

    from clearhead.inspection.agreement import kendall
    from clearhead.inspection.capture import provenance_of
    from clearhead.recipes.inspect.pair import capture_pair
    from clearhead.recipes.inspect.token_methods import token_scores

    provenance = provenance_of(translator.model, "", "")
    gathered: dict[str, list[tuple[float, float]]] = {}
    for pair in sample.chosen[:most]:
        shown = capture_pair(translator, pair, provenance)
        rows: dict[str, Any] = {}
        for each in token_scores(translator.model, pair, shown, gradients=True):
            if each.source is not None:  # a later layer takes the place of an earlier one
                rows[each.method] = each.source.abs().double()
        for one, other in combinations(sorted(rows), 2):
            tau = kendall(rows[one], rows[other])
            alike = (rows[one].argmax(-1) == rows[other].argmax(-1)).double()
            for value, same in zip(tau.tolist(), alike.tolist(), strict=True):
                if not math.isnan(value):  # as where all of a row is equal
                    gathered.setdefault(f"{one} · {other}", []).append((value, same))
    means = {names: torch.tensor(values).mean(0).tolist() for names, values in gathered.items()}
    return {names: {"tau": tau, "same_first": same} for names, (tau, same) in means.items()}


def between_seeds(translator: Any, siblings: list[Any], sample: Any, most: int) -> dict[str, dict[str, float]]:
    """JSD between the maps of models of other seeds, by layer, the mean over pairs; empty without siblings."""
    if not siblings:
        return {}
    from clearhead.inspection.capture import provenance_of
    from clearhead.inspection.seed_null import seed_null
    from clearhead.recipes.inspect.pair import capture_pair

    provenance = provenance_of(translator.model, "", "")
    gathered: dict[str, list[dict[str, float]]] = {}
    for pair in sample.chosen[:most]:
        models = [each.model for each in (translator, *siblings)]
        for each in seed_null([capture_pair(translator, pair, provenance, model) for model in models]):
            gathered.setdefault(f"{each.unit.stack} {each.unit.layer}", []).append(each.values)
    return {
        layer: {key: sum(each[key] for each in values) / len(values) for key in values[0]}
        for layer, values in gathered.items()
    }


def pruning_table(models: dict[str, Any]) -> str:
    """BLEU and loss at every number of heads that are left, by stack."""
    rows = []
    for name, result in models.items():
        curves = [curve for curve in result["curves"] if curve["method"] == "pruning"]
        if len(result["roles"]) == 1:
            curves = curves[:1]  # "all" is the same once more
        for curve in curves:
            scores = curve["series"].get("score") or [None] * len(curve["x"])
            for left, lost, score in zip(curve["x"], curve["series"]["delta_nll"], scores, strict=True):
                there = f"{left:g} of {max(curve['x']):g}"
                rows.append([name, curve["name"], there, f"{lost:+.3f}", "" if score is None else f"{score:.1f}"])
    return table(["model", "stack", "heads left", "Δ nats a token", "BLEU, greedy"], rows)


def tests_table(models: dict[str, Any]) -> str:
    """What permuted, equal and adversarial weights do, by stack, and the range over single heads."""
    rows = []
    for name, result in models.items():
        for stack in ("encoder", "decoder", "cross"):
            whole = result["units"].get(stack)
            if whole is None:
                continue
            heads = [each for unit, each in result["units"].items() if unit.startswith(stack) and unit.count(" ") == 2]
            for method in SIDES:
                if method in whole:
                    single = [each[method][NUMBER[method]] for each in heads if method in each]
                    among = f"{min(single):.2f} … {max(single):.2f}" if single else ""
                    rows.append([name, stack, method, f"{whole[method][NUMBER[method]]:.2f}", among])
    return table(["model", "stack", "test", "whole stack", "single heads"], rows)


def agreement_table(models: dict[str, Any]) -> str:
    """Every two methods, by how well they agree."""
    rows = [
        [name, names, f"{each['tau']:.2f}", f"{each['same_first']:.0%}"]
        for name, result in models.items()
        for names, each in sorted(result["agreement"].items(), key=lambda item: -item[1]["tau"])
    ]
    return table(["model", "methods", "Kendall's τ-b", "same first"], rows)


def seeds_table(models: dict[str, Any]) -> str:
    """How far the maps of other seeds lie apart."""
    rows = [
        [name, layer, *(f"{each[key]:.3f}" for key in ("matched", "any_heads", "mean_maps"))]
        for name, result in models.items()
        for layer, each in result["seeds"].items()
    ]
    return table(["model", "layer", "JSD, heads matched", "any two heads", "mean maps"], rows) if rows else ""


def roles_table(models: dict[str, Any]) -> str:
    """How many heads have which role."""
    rows = [
        [
            name,
            stack,
            ", ".join(f"{count} {role}" for role, count in sorted(counted.items(), key=lambda each: -each[1])),
        ]
        for name, result in models.items()
        for stack, counted in result["roles"].items()
    ]
    return table(["model", "stack", "heads"], rows)


def draw(models: dict[str, Any], folder: Path, stem: str) -> None:
    """The pruning curves as a picture beside the record."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    colours = {"encoder": "#0b69a3", "decoder": "#15803d", "cross": "#c2410c", "all": "#475569"}
    marks = {"encoder": "o", "decoder": "s", "cross": "^", "all": "D"}
    models = {name: result for name, result in models.items() if len(result["roles"]) > 1}  # one head is no curve
    if not models:
        return
    figure = Figure(figsize=(5.2 * len(models), 3.8), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, len(models), squeeze=False)[0]
    for panel, (name, result) in zip(panels, models.items(), strict=True):
        for curve in result["curves"]:
            if curve["method"] == "pruning" and "score" in curve["series"]:
                gone = [1 - each / max(curve["x"]) for each in curve["x"]]
                stack = curve["name"].split("/")[-1]
                panel.plot(gone, curve["series"]["score"], color=colours[stack], marker=marks[stack], label=stack, ms=4)
        panel.set(
            title=name, xlabel="share of the stack's heads that are closed", ylabel="BLEU, greedy", ylim=(0, None)
        )
        panel.grid(color="#d5dbe1", linewidth=0.6)
        panel.legend(title="heads of")
    figure.savefig(folder / f"{stem}.png", dpi=150)
    print(f"drawn in {folder / stem}.png", flush=True)


def main() -> None:
    """Look at every model, print the tables, record."""
    parser = common_arguments(__doc__ or "")
    parser.add_argument("models", nargs="*", metavar="NAME=BUNDLE[,BUNDLE…]", help="trained models")
    parser.add_argument("--source", help="the source side of the test set")
    parser.add_argument("--target", help="its target side")
    parser.add_argument("--links", help="links of its words in Pharaoh format")
    parser.add_argument("--pairs", type=int, default=300, help="pairs for roles, closing and pruning")
    parser.add_argument("--translated", type=int, default=200, help="of these, translated at each point of a curve")
    parser.add_argument("--shuffled", type=int, default=30, help="of these, with permuted weights")
    parser.add_argument("--shuffles", type=int, default=50, help="permutations of each")
    parser.add_argument("--attacked", type=int, default=5, help="of these, with adversarial weights")
    parser.add_argument("--explained", type=int, default=20, help="of these, for the agreement of methods")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.pairs = arguments.translated = 12
        arguments.shuffled = arguments.attacked = arguments.explained = 1
        arguments.shuffles = 5
    if not arguments.models or not arguments.source or not arguments.target:
        raise SystemExit("name at least one model as NAME=BUNDLE, and the test set by --source and --target")
    import torch

    torch.set_num_threads(arguments.threads)
    facts = header(arguments.threads)
    print_header("heads", facts)
    models = {}
    for each in arguments.models:
        name, _, paths = each.partition("=")
        print(f"{name}:", flush=True)
        models[name] = looked_at(paths.split(","), arguments)
    tables = (roles_table, pruning_table, tests_table, agreement_table, seeds_table)
    text = "\n\n".join(filter(None, (made(models) for made in tables)))
    print(f"\n{text}", flush=True)
    if arguments.record:
        path = record("heads", facts, {"models": models}, text)
        draw(models, path.parent, path.stem)


if __name__ == "__main__":
    main()
