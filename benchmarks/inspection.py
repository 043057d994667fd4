"""Looking inside a model: closing each head beside a full pass each, and the report beside maps as JSON numbers.

Closing heads. The plain way is what one would write: for each head the model with that head's gate at 0, by the same
interventions, one sentence, one forward pass to the gold tokens' probabilities. Ours recalls what lies below the closed
head and runs the rest for many heads at once (`clearhead.inspection.sweep`). Both end with the same numbers; the
largest difference is printed. Random weights: the time does not depend on them.

Goals: ≥ 3 × at the base model's size (6 + 6 layers of 8 heads, width 512, 37,000 pieces), ≥ 5 × at the demo's.

The report (`inspection_report.py`). At the base model's size with 128 tokens on each side, reading alone; at the demo's
with 24 and the evidence that `clearhead inspect` gathers by default. Goals at the base size: below 2 MB, and drawn
within a second of its opening from a file, without a network.

Not called `inspect.py`, which in this folder would stand for Python's own module of that name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harness import Side, alternate, common_arguments, header, print_header, ratios, record, table, timed
from inspection_report import QUICK as QUICK_REPORT
from inspection_report import SIZES as REPORTS
from inspection_report import report_cost, report_table

SIZES: dict[str, dict[str, Any]] = {
    "base": {"preset": "base", "vocab": 37000},
    "demo": {"preset": "tiny", "vocab": 4000},
}
"""The paper's base model with its vocabulary, and `make demo`'s."""

QUICK = {"quick": {"preset": "tiny", "vocab": 500}}


def a_pair(length: int, vocab: int, seed: int) -> Any:
    """One pair of that many random tokens on each side, EOS and BOS beside them."""
    import random

    from clearhead.inspection.teaching import Pairs

    draw = random.Random(seed)
    source, target = ([draw.randrange(8, vocab) for _ in range(length)] for _ in range(2))
    return Pairs.of([source], [target])


def plainly(model: Any, pairs: Any) -> dict[Any, float]:
    """The change of the mean negative log likelihood with each head closed, by a full forward pass each."""
    import torch

    from clearhead.inspection.interventions import Change, Interventions
    from clearhead.inspection.sites import Head
    from clearhead.inspection.teaching import gold_log_probs

    changed = Interventions(model)
    found = {}
    with torch.no_grad():
        unchanged = -gold_log_probs(changed.model, pairs).mean()
        for site in changed.sites:
            for head in range(site.heads):
                gates = torch.ones(site.heads)
                gates[head] = 0
                with changed.using({site.path: Change(gates=gates)}) as twin:
                    loss = -gold_log_probs(twin, pairs).mean()
                found[Head(site.stack, site.layer, head + 1)] = float(loss - unchanged)
    return found


def swept(model: Any, pairs: Any) -> dict[Any, float]:
    """The same by the sweep."""
    from clearhead.inspection.ablation import head_ablation

    return {head: float(change[0]) for head, change in head_ablation(model, pairs).items()}


def ablation(name: str, size: dict[str, Any], arguments: Any) -> tuple[dict[str, Any], list[str]]:
    """Both ways at one size: the result, and a row of the table."""
    from clearhead.models import build, presets

    model = build(presets.named(size["preset"], size["vocab"]), seed=arguments.seed).eval()
    pairs = a_pair(arguments.length, size["vocab"], arguments.seed)
    ours, plain = swept(model, pairs), plainly(model, pairs)
    apart = max(abs(ours[head] - plain[head]) for head in plain)
    print(f"{name} {size}: {len(plain)} heads, results at most {apart:.1e} nats apart", flush=True)

    def many(run: Callable[[], object]) -> Callable[[], float]:
        return lambda: timed(run)

    sides = [
        Side("swept", many(lambda: swept(model, pairs)), len(plain), "heads/s"),
        Side("one pass a head", many(lambda: plainly(model, pairs)), len(plain), "heads/s"),
    ]
    alternate(sides, arguments.rounds)
    ratio = ratios(*sides)
    result = {side.name: {"seconds": side.seconds, "rate": side.rate} for side in sides}
    milliseconds = [f"{1000 * side.median:.0f}" for side in sides]
    row = [name, str(len(plain)), *milliseconds, f"{ratio['median']:.2f} ({ratio['low']:.2f}–{ratio['high']:.2f})"]
    return {"size": size, "heads": len(plain), "apart": apart, "ratio": ratio, **result}, row


def main() -> None:
    parser = common_arguments(__doc__.split("\n", 1)[0])
    parser.add_argument("--length", type=int, default=24, help="tokens of the sentence whose heads are closed")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--size", choices=SIZES, action="append", help="only this size (both, if not given)")
    parser.add_argument("--part", choices=("ablation", "report"), help="only this part (both, if not given)")
    arguments = parser.parse_args()
    chosen = arguments.size or SIZES
    sizes, reports = ({name: every[name] for name in chosen} for every in (SIZES, REPORTS))
    if arguments.quick:
        sizes, reports, arguments.rounds = QUICK, QUICK_REPORT, 1

    import torch

    import clearhead.nn.linear  # noqa: F401 (the header names its way of multiplying)

    torch.set_num_threads(arguments.threads)
    facts = header(arguments.threads)
    print_header("Looking inside a model, fp32", facts)
    result: dict[str, Any] = {}
    texts = []
    if arguments.part != "report":
        found = {name: ablation(name, size, arguments) for name, size in sizes.items()}
        result["ablation"] = {name: each for name, (each, _) in found.items()}
        columns = ["size", "heads", "swept, ms", "one pass a head, ms", "the sweep is × as fast"]
        texts.append(table(columns, [row for _, row in found.values()]))
    if arguments.part != "ablation":
        result["report"] = {name: report_cost(name, size, arguments) for name, size in reports.items()}
        texts.append(report_table(result["report"]))
    text = "\n\n".join(texts)
    print(f"\n{text}")
    if arguments.record:
        record("inspection", facts, result, text)


if __name__ == "__main__":
    main()
