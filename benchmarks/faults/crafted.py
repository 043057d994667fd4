"""Long lines of one kind, at several sizes: what doubles the text may not quadruple the time.

Texts: one word, combining marks, braces, signs that begin a placeholder, tags, entities, tabs, spaces, digits, and
their like, up to 1 MB. Work: everything that sees a line of somebody else's file. The control, NFC as Python has it
applied to alternating combining marks, is quadratic.
"""

from __future__ import annotations

import contextlib
import gc
import json
import math
import time
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.faults.rows import Result, note
from clearhead.base.errors import ClearheadError
from clearhead.data.overlap import Overlap
from clearhead.data.rules import PairRules
from clearhead.data.sides import SideModel
from clearhead.data.split import normal_key
from clearhead.formats.glossary import read_glossary
from clearhead.formats.jsonl import read_jsonl_document
from clearhead.formats.lines import read_lines
from clearhead.formats.po import read_po
from clearhead.formats.tmx import read_tmx
from clearhead.formats.tsv import read_tsv_document
from clearhead.formats.xliff import read_xliff
from clearhead.text.placeholders import find_placeholders
from tests.unit.recipes.tiny import tiny_tokenizers

MOST = 2.5  # times the seconds for twice the text
ENOUGH = 0.2  # seconds, below which a ratio says nothing
SLOWEST = 60.0  # seconds for the whole text, of which some become eighteen times as long in NFKC
Work = Callable[[str], Any]

UNITS = {
    "one word": "a", "words": "the door is open ", "one word of Chinese": "中", "combining marks": "\u0301\u0323",
    "marks of one class": "\u0301", "marks and digits": "\u03017\u0323.", "a letter and marks": "e\u0301\u0323",
    "Hangul": "\u1100\u1161\u11a8", "dollars": "${", "carriage": "\r",
    "a ligature that unfolds": "\ufdfa", "opening braces": "{", "braces": "{}", "nested braces": "{{", "closing": "}",
    "named": "{name}", "per cent": "%", "per cent and digits": "%1", "printf": "%(", "printf named": "%(a)",
    "tags": "<a", "a tag that never ends": "<a ", "closed tags": "<b>", "less": "<", "slashes": "</", "entities": "&a",
    "ampersands": "&", "number signs": "&#1", "tabs": "\t", "spaces": " ", "no-break spaces": "\xa0", "digits": "7",
    "backslashes": "\\", "quotes": '"', "commas": ",", "space marks": "\u2581", "separators": "\u2028",
    "mojibake": "Ã¤", "capitals": "İ", "emoji": "👩\u200d", "surrogate pairs": "😀", "full stops": ".", "hyphens": "a-",
}  # fmt: skip


def run(count: int, seed: int, folder: Path) -> Result:
    """`count` is the size of the longer text in thousands of characters."""
    jobs = _jobs(folder)
    texts = {name: (unit * (1000 * count // len(unit) + 1))[: 1000 * count] for name, unit in UNITS.items()}
    failures: list[str] = []
    worst: dict[str, tuple[float, str]] = {}
    for job, work in jobs.items():
        for name, text in texts.items():
            ratio, seconds = _ratio(work, text)
            if ratio > worst.get(job, (0.0, ""))[0]:
                worst[job] = ratio, name
            if ratio > MOST:
                failures.append(f"{job} of {name}: twice the text took {ratio:.1f} times as long, {seconds:.2f} s")
            elif seconds > SLOWEST:
                failures.append(f"{job} of {name}: {seconds:.1f} s for {len(text):,} characters")
        note(f"{job}: at most {worst.get(job, (0.0, 'nothing that takes long'))}")
    control, _ = _ratio(lambda text: unicodedata.normalize("NFC", text), "\u0301\u0323" * 20_000)
    highest = max(ratio for ratio, _ in worst.values()) if worst else 0.0
    return Result(
        len(jobs) * len(texts),
        f"{len(failures)} of {len(jobs)} × {len(texts)} grow faster; most {highest:.1f} × for twice the text",
        f"NFC of alternating marks: {control:.1f} ×",
        control > MOST,
        failures,
        {"worst": worst, "characters": 1000 * count},
    )


def _ratio(work: Work, text: str) -> tuple[float, float]:
    """How many times as long twice the text takes, and the seconds for the whole; 0 where it takes hardly any time.

    The whole is compared with its half and, by the root, with its quarter, and the smaller one counts: where memory no
    longer fits a cache, time makes a step, but only at one of the two. Other processes only make a measurement longer,
    so a high ratio is measured again, and the least of each taken.
    """
    whole = _seconds(work, text)
    if whole < ENOUGH:
        return 0.0, whole
    quarter, half = _seconds(work, text[: len(text) // 4]), _seconds(work, text[: len(text) // 2])
    for _ in range(6):
        if _growth(quarter, half, whole) <= MOST or whole > SLOWEST:
            break
        quarter = min(quarter, _seconds(work, text[: len(text) // 4]))
        half = min(half, _seconds(work, text[: len(text) // 2]))
        whole = min(whole, _seconds(work, text))
    return _growth(quarter, half, whole), whole


def _growth(quarter: float, half: float, whole: float) -> float:
    return min(whole / max(half, 1e-6), math.sqrt(whole / max(quarter, 1e-6)))


def _seconds(work: Work, text: str) -> float:
    begun = time.process_time()
    with contextlib.suppress(ClearheadError):  # a refusal is an answer, too, and may not take long either
        work(text)
    return time.process_time() - begun


def _jobs(folder: Path) -> dict[str, Work]:
    tokenizer = tiny_tokenizers().source
    rules = PairRules(("en", "de"))

    def file(suffix: str, around: Callable[[str], str], read: Callable[[Path], Any]) -> Work:
        path = folder / f"crafted{suffix}"

        def work(text: str) -> None:
            path.write_bytes(around(text).encode("utf-8", "surrogatepass"))
            for _ in read(path):
                pass

        return work

    def escaped(text: str) -> str:
        return text.replace("&", "&amp;").replace("<", "&lt;").replace("\r", "&#13;")

    def quoted(text: str) -> str:
        return text.replace("\\", "\\\\").replace('"', '\\"').replace("\t", "\\t").replace("\r", "\\r")

    tmx = '<tmx version="1.4"><body><tu><tuv xml:lang="en"><seg>{}</seg></tuv></tu></body></tmx>'
    xliff = '<xliff version="1.2"><file><body><trans-unit id="1"><source>{}</source></trans-unit></body></file></xliff>'
    gc.disable()  # its rounds fall where they will, and are no part of any of these
    return {
        "find_placeholders": find_placeholders,
        "normal_key": normal_key,
        "tokenizer.encode": tokenizer.encode,
        "tokenizer.decode": lambda text: tokenizer.decode(tokenizer.encode(text)),
        "pair rules": lambda text: list(rules.broken(text, text + " x")),
        "side model": lambda text: SideModel().learn([text], [text]),
        "overlap": lambda text: Overlap.of([text]).look(1, text, text),
        "lines": file(".txt", str, read_lines),
        "TSV": file(".tsv", lambda text: f"{text}\tx\n", read_tsv_document),
        "JSONL": file(".jsonl", lambda text: json.dumps({"source": text, "target": ""}) + "\n", read_jsonl_document),
        "JSONL as it is": file(".jsonl", str, read_jsonl_document),
        "PO": file(".po", lambda text: f'msgid "{quoted(text)}"\nmsgstr ""\n', read_po),
        "PO as it is": file(".po", str, read_po),
        "TMX": file(".tmx", lambda text: tmx.format(escaped(text)), lambda path: read_tmx(path, ("en", "de"))),
        "XLIFF": file(".xlf", lambda text: xliff.format(escaped(text)), read_xliff),
        "glossary": file(".txt", lambda text: f"{text}\tx\n", lambda path: [read_glossary(path)]),
    }
