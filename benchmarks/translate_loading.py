"""What loading costs, for `translate_speed.py`: seconds after torch's import and memory, in processes of their own.

Memory is what /proc/self/status says above the process's own resident memory right after `import torch`: the highest
while loading, and what stays. Both count everything: the model, its file as far as it is mapped, clearhead's modules.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

__all__ = ["loading", "print_loading", "word_bundle"]


def word_bundle(path: Path, size: dict[str, int], seed: int) -> Path:
    """A bundle of `size` with random weights and a tokenizer of made-up words."""
    from inspection_report import made_up
    from translate_corpus import transformer

    from clearhead.bundle.bundle import Bundle, save_bundle
    from clearhead.models import build
    from clearhead.text.tokenizer import TokenizerConfig, Tokenizers

    vocab = size["vocab"]
    words = [made_up(number) for number in range(vocab)]
    lines = [(" ".join(words[at : at + 50]),) * 2 for at in range(0, vocab, 50)]
    config = TokenizerConfig(kind="word", vocab_size=vocab, byte_fallback=False, character_coverage=1.0)
    tokenizers = Tokenizers.train(config, lambda: lines)
    save_bundle(path, Bundle(build(transformer(size), seed=seed), tokenizers, ("en", "de"), transformer(size)))
    return path


def loading(bundle: Path, rounds: int, warmup: int) -> dict[str, Any]:
    """Medians over `rounds` processes for each engine and precision; `warmup` before only fill the file cache."""
    size = (bundle / "weights.safetensors").stat().st_size
    result: dict[str, Any] = {"file_bytes": size}
    wanted = [("plain", "fp32"), ("fast", "fp32"), ("fast", "bf16"), ("fast", "int8")]
    seen: dict[str, list[dict[str, float]]] = {f"{kind} {precision}": [] for kind, precision in wanted}
    for turn in range(warmup + rounds):
        for kind, precision in wanted if turn % 2 else reversed(wanted):
            found = _in_a_process(bundle, kind, precision)
            if turn >= warmup:
                seen[f"{kind} {precision}"].append(found)
    for each, found in seen.items():
        medians = {key: statistics.median(one[key] for one in found) for key in found[0]}
        medians |= {f"{key} / file": medians[key] / size for key in ("peak", "after")}
        result[each] = {"median": medians, "runs": found}
    return result


def _in_a_process(bundle: Path, kind: str, precision: str) -> dict[str, float]:
    code = "import sys, translate_loading; translate_loading.print_loading(*sys.argv[1:])"
    done = subprocess.run(
        [sys.executable, "-c", code, str(bundle), kind, precision],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parent,
    )
    if done.returncode != 0:
        raise SystemExit(f"loading by the {kind} engine in {precision} failed; its message is above")
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def print_loading(bundle: str, kind: str, precision: str) -> None:
    """What each process runs: load the bundle, then one line of JSON with seconds and bytes."""
    import time

    import torch  # noqa: F401 (its import is what everything is counted from)

    before = _resident()
    start = time.perf_counter()
    from clearhead.recipes.translate import load

    translator = load(bundle, device="cpu", engine=kind, precision=precision)
    seconds = time.perf_counter() - start
    after = _resident()
    del translator
    peak, began = after["VmHWM"] - before["VmRSS"], before["VmRSS"]
    print(
        json.dumps(
            {
                "seconds": seconds,
                "peak": peak,
                "after": after["VmRSS"] - began,
                "after, of files": after["RssFile"] - before["RssFile"],
            }
        )
    )


def _resident() -> dict[str, int]:
    """Bytes of the lines of /proc/self/status that end in kB."""
    lines = (line.split() for line in Path("/proc/self/status").read_text("utf-8").splitlines())
    return {words[0].removesuffix(":"): 1024 * int(words[1]) for words in lines if words[-1:] == ["kB"]}
