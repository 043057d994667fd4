"""Faults on purpose: every row of the fault table, what the tool made of it, and what the naive way loses.

Each row runs in a process of its own. It is green if nothing was lost, detected late or executed, and if its
control, the naive implementation under the same faults, did lose. The exit code is 1 if a row is red. `--threads` is
the number of rows that run at a time, each with one thread.
"""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

from harness import ROOT, common_arguments, header, print_header, record, table

sys.path.insert(0, str(ROOT))

from benchmarks.faults.rows import ROWS, Result, Row, run_row  # noqa: E402 (found by the line above)

LONGEST = ("kill-train", "crafted", "flat")  # these begin first


def main() -> int:
    parser = common_arguments(__doc__.splitlines()[0], threads=2)
    parser.add_argument("--only", action="append", choices=list(ROWS), default=[], help="run this row; may be repeated")
    parser.add_argument("--rows", type=int, default=None, help="records of the row flat, instead of its full count")
    options = parser.parse_args()
    facts = header(options.threads)
    print_header("faults", facts)

    def measure(name: str) -> Result:
        count = ROWS[name].quick if options.quick else ROWS[name].full
        if name == "flat" and options.rows is not None:
            count = options.rows
        print(f"{name} × {count:,}", file=sys.stderr, flush=True)
        result = run_row(name, count, options.seed)
        print(f"{name}: {result.seconds:.0f} s, {verdict(result)}", file=sys.stderr, flush=True)
        return result

    names = [name for name in ROWS if name in options.only or not options.only]
    with ThreadPoolExecutor(options.threads) as pool:
        running = {name: pool.submit(measure, name) for name in sorted(names, key=lambda name: name not in LONGEST)}
        results = {name: running[name].result() for name in names}
    text = report(results)
    print(text)
    if options.record:
        record("faults", facts, {name: vars(result) for name, result in results.items()}, text)
    return int(not all(result.green for result in results.values()))


def report(results: dict[str, Result]) -> str:
    """The table, and below it what went wrong."""
    columns = ["row", "fault", "cases", "must hold", "measured", "control", "result"]
    text = table(columns, [cells(ROWS[name], result) for name, result in results.items()])
    for name, result in results.items():
        if not result.control_failed:
            text += f"\n{name}: the control did not fail, so that the row shows nothing"
        text += "".join(f"\n{name}: {failure}" for failure in result.failures)
    return text


def cells(row: Row, result: Result) -> list[object]:
    measured = [result.measured, result.control, verdict(result)]
    return [row.name, row.fault, f"{result.count:,}", row.must_hold, *measured]


def verdict(result: Result) -> str:
    return "green" if result.green else "RED"


if __name__ == "__main__":
    sys.exit(main())
