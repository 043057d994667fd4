"""What the report of an inspection costs: bytes, time to write, time until a browser has drawn it.

Beside it stands the naive way: the same maps as plain JSON numbers in a page that only parses them, once with all the
digits that Python writes and once with four. The report's page unpacks its numbers and draws a picture of every map.
"""

from __future__ import annotations

import json
import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness import Side, alternate, ratios, table, timed

__all__ = ["QUICK", "SIZES", "report_cost", "report_table"]

SIZES: dict[str, dict[str, Any]] = {
    "base": {"preset": "base", "vocab": 37000, "tokens": 128, "tests": "none"},
    "demo": {"preset": "tiny", "vocab": 4000, "tokens": 24, "tests": "quick"},
}
"""Tokens of each side, EOS and BOS included; `tests` as of `clearhead inspect`."""
QUICK: dict[str, dict[str, Any]] = {"quick": {"preset": "tiny", "vocab": 500, "tokens": 10, "tests": "none"}}

SHARPER = 4
"""By this the query projections of the random weights are multiplied. As they are drawn every map is nearly flat, which
no trained model's are; of the factors 1, 2, 4 and 8 this one makes the largest file."""

FLAGS = ("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync")
WATCH = """(() => {
  const look = () => {
    const root = document.documentElement;
    if (!root || root.dataset.ready !== "true") requestAnimationFrame(look);
    else requestAnimationFrame(() => { performance.mark("drawn"); root.dataset.drawn = "true"; });
  };
  requestAnimationFrame(look);
})()"""
"""Marks the first frame after the one in which the page was ready: by then it has been drawn."""
READY, DRAWN = "html[data-ready=true]", "html[data-drawn=true]"
"""Selectors, since a condition to be tried again and again is refused by the policy of the page."""
MARKS = "Object.fromEntries(performance.getEntriesByType('mark').map((each) => [each.name, each.startTime]))"
NAIVE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>maps</title>
<script type="application/json" id="maps">{maps}</script>
<script>
const maps = JSON.parse(document.getElementById("maps").textContent);
performance.mark("unpacked");
document.documentElement.dataset.ready = "true";
</script></html>"""


@dataclass
class Opened:
    """A page in a fresh context of an offline browser; `seen` holds the milliseconds of every opening, by mark.

    `processor` is what the page's main thread worked, blind to what else the machine does.
    """

    name: str
    file: Path
    browser: Any
    seen: list[dict[str, float]] = field(default_factory=list)

    def __call__(self) -> float:
        context = self.browser.new_context(offline=True, viewport={"width": 1200, "height": 900})
        context.set_default_timeout(120_000)  # a page of 46 MB on a busy machine
        context.add_init_script(WATCH)
        page = context.new_page()
        session = context.new_cdp_session(page)
        session.send("Performance.enable", {"timeDomain": "threadTicks"})
        page.goto(self.file.as_uri())
        page.wait_for_selector(DRAWN, state="attached")
        marks = page.evaluate(MARKS)
        metrics = {each["name"]: each["value"] for each in session.send("Performance.getMetrics")["metrics"]}
        self.seen.append(marks | {"processor": 1000 * metrics["TaskDuration"]})
        context.close()
        return float(marks["unpacked"]) / 1000

    def medians(self, rounds: int) -> dict[str, float]:
        """Of the last `rounds` openings; those before warmed up."""
        return {name: statistics.median(each[name] for each in self.seen[-rounds:]) for name in self.seen[-1]}


def report_cost(name: str, size: dict[str, Any], arguments: Any) -> dict[str, Any]:
    """Bytes and seconds at one size."""
    from clearhead.explorer.inspect_page import write_report
    from clearhead.recipes.inspect.families import calibration_for
    from clearhead.recipes.inspect.pair import capture_pair
    from clearhead.recipes.inspect.sentence import inspect_pair

    translator = a_translator(size, arguments.seed)
    pair = a_pair(translator, size, arguments.seed)
    calibration = calibration_for(translator.model)
    begin = time.perf_counter()
    attention, evidence = inspect_pair(translator, pair, name=name, tests=size["tests"], seed=arguments.seed)
    inspected = time.perf_counter() - begin
    print(f"report, {name} {size}: inspected in {inspected:.1f} s", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        ours, plain, short = (Path(folder) / f"{each}.html" for each in ("report", "json", "digits"))
        sides = [
            Side("capture", lambda: timed(lambda: capture_pair(translator, pair, attention.provenance))),
            Side("write", lambda: timed(lambda: write_report(ours, attention, evidence, calibration=calibration))),
            Side("write JSON", lambda: timed(lambda: write_naive(plain, attention))),
        ]
        alternate(sides, arguments.rounds)
        write_naive(short, attention, digits=4)
        result: dict[str, Any] = {
            "size": size,
            "maps": sum(len(layer.weights) for layer in attention.layers),
            "bytes": {path.stem: path.stat().st_size for path in (ours, plain, short)},
            "python": {"inspect": inspected, **{side.name: side.seconds for side in sides}},
            "browser": None,
        }
        with chromium() as browser:
            if browser is not None:
                pages = [Opened(path.stem, path, browser) for path in (ours, plain, short)]
                result["browser"] = opened(pages, arguments.rounds)
                result["apart"] = apart(browser, ours, attention)
    return result


def a_translator(size: dict[str, Any], seed: int) -> Any:
    """Random weights, with a vocabulary of made-up words that has just the size wanted."""
    import torch

    from clearhead.models import build, presets
    from clearhead.recipes.translator import Translator
    from clearhead.text.tokenizer import TokenizerConfig, Tokenizers

    vocab = size["vocab"]
    words = [made_up(number) for number in range(vocab)]
    lines = [(" ".join(words[at : at + 50]),) * 2 for at in range(0, vocab, 50)]
    config = TokenizerConfig(kind="word", vocab_size=vocab, byte_fallback=False, character_coverage=1.0)
    model = build(presets.named(size["preset"], vocab), seed=seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("query.weight"):
                parameter.mul_(SHARPER)
    return Translator(model, Tokenizers.train(config, lambda: lines), ("en", "de"))


def made_up(number: int) -> str:
    """A word of four letters for each number.

    >>> made_up(0), made_up(1), made_up(36999)
    ('aaab', 'baab', 'btcd')
    """
    letters, number = "", number + 26**3
    while number:
        letters, number = letters + chr(ord("a") + number % 26), number // 26
    return letters


def a_pair(translator: Any, size: dict[str, Any], seed: int) -> Any:
    """Words at random on each side, which with EOS, or BOS, are as many tokens as `size` says."""
    from clearhead.recipes.inspect.pair import InspectedPair

    draw = random.Random(seed)
    source, target = (tuple(draw.randrange(4, size["vocab"]) for _ in range(size["tokens"] - 1)) for _ in range(2))
    texts = translator.tokenizers.source.decode(source), translator.tokenizers.target.decode(target)
    return InspectedPair(*texts, source, target, 0, "given")


def write_naive(path: Path, attention: Any, digits: int | None = None) -> None:
    """A page with every weight as a JSON number, as Python writes it or with so many `digits` behind the point."""
    maps = [layer.weights.tolist() for layer in attention.layers]
    if digits is not None:
        maps = [[[[round(each, digits) for each in row] for row in head] for head in layer] for layer in maps]
    path.write_text(NAIVE.format(maps=json.dumps(maps, separators=(",", ":"))), "utf-8")


@contextmanager
def chromium() -> Iterator[Any]:
    """The system's Chromium without a network; None, and a word why, where it or playwright is missing."""
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        program, why = None, "playwright is not installed: it is in requirements/dev.txt"
    else:
        why = "no Chromium on this machine: apt-get install chromium"
    if program is None:
        print(f"pages are not opened: {why}", flush=True)
        yield None
        return
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(FLAGS))
        yield browser
        browser.close()


def opened(pages: Sequence[Opened], rounds: int) -> dict[str, Any]:
    """Milliseconds by page and mark, and how much sooner the first page has its numbers than each other one."""
    sides = [Side(page.name, page) for page in pages]
    alternate(sides, rounds)
    marks = {page.name: page.medians(rounds) for page in pages}
    drawn = [each["drawn"] for each in pages[0].seen[-rounds:]]
    sooner = {side.name: ratios(sides[0], side) for side in sides[1:]}
    return {
        "chromium": pages[0].browser.version,
        "marks": marks,
        "drawn": {"median": statistics.median(drawn), "low": min(drawn), "high": max(drawn)},
        "numbers_there_sooner": sooner,
    }


def apart(browser: Any, file: Path, attention: Any) -> float:
    """The largest difference between a weight that the page draws from and the record's: first head of each layer.

    Raises RuntimeError if the page shows another number of heads than the record has.
    """
    page = browser.new_context(offline=True).new_page()
    page.goto(file.as_uri())
    page.wait_for_selector(READY, state="attached")
    shown, heads = page.locator(".thumb canvas").count(), sum(len(layer.weights) for layer in attention.layers)
    if shown != heads:
        raise RuntimeError(f"the page shows {shown} heads, and the model has {heads}")
    largest = 0.0
    for layer in attention.layers:
        drawn = page.evaluate(
            "([stack, layer]) => [...Clearhead.report.map(stack, layer, 1).weights]", [layer.stack, layer.layer]
        )
        kept = layer.weights[0].flatten().tolist()
        largest = max(largest, *(abs(one - other) for one, other in zip(drawn, kept, strict=True)))
    page.context.close()
    return largest


def report_table(results: dict[str, dict[str, Any]]) -> str:
    """Two tables: of bytes and Python, and of the browser where there was one."""
    rows, pages = [], []
    for name, found in results.items():
        size, python = found["bytes"], found["python"]
        own = size["report"]
        seconds = [f"{statistics.median(python[each]):.2f}" for each in ("capture", "write", "write JSON")]
        larger = [f"{size[each] / 1e6:.1f} ({size[each] / own:.1f} ×)" for each in ("json", "digits")]
        rows.append(
            [name, found["size"]["tokens"], found["maps"], f"{own / 1000:.0f}", *larger, f"{python['inspect']:.1f}"]
            + seconds
        )
        if found["browser"] is None:
            continue
        marks, drawn = found["browser"]["marks"], found["browser"]["drawn"]
        later = found["browser"]["numbers_there_sooner"].values()
        pages.append(
            [
                name,
                f"{drawn['median']:.0f} ({drawn['low']:.0f}–{drawn['high']:.0f})",
                *(f"{marks['report'][each]:.0f}" for each in ("unpacked", "processor")),
                *(f"{marks[each]['unpacked']:.0f}" for each in ("json", "digits")),
                *(f"{each['median']:.1f} ({each['low']:.1f}–{each['high']:.1f})" for each in later),
                f"{found['apart']:.1e}",
            ]
        )
    columns = ["size", "tokens", "maps", "report, kB", "JSON, MB", "4 digits, MB", "inspect, s", "capture, s"]
    text = table([*columns, "write report, s", "write JSON, s"], rows)
    if not pages:
        return text
    columns = ["size", "report drawn, ms", "its numbers there", "its main thread", "JSON there", "4 digits there"]
    return f"{text}\n\n{table([*columns, '× as soon as JSON', 'as 4 digits', 'weights apart'], pages)}"
