"""Build the handbook: `python docs/transformer/site/build.py OUT` writes OUT/en, OUT/zh and OUT/index.html.

The numbers are checked first, on both roads: `verify.py` compares the pages with its own results, `clearhead verify`
compares those with what the modules of this repository compute. Then each language is built, every warning an error.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

__all__ = ["LANGUAGES", "build", "check", "main", "write_walks"]

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[2]
LANGUAGES = {"en": "en", "zh": "zh_CN"}  # the folder and Sphinx's name of each language
TITLES = {"en": "The Transformer, number by number", "zh": "逐数细读 Transformer"}
WALK_SENTENCE = "他 每天 爱 小 猫"


def main(arguments: list[str] | None = None) -> int:
    """The command line; 0 where everything was built, 1 where a number, a link or a page was wrong."""
    parser = argparse.ArgumentParser(description="Build the handbook as a site that needs no server and no network.")
    parser.add_argument("out", type=Path, help="the folder to write, made where it is missing")
    parser.add_argument("--language", choices=LANGUAGES, help="build only this language")
    parser.add_argument("--no-verify", action="store_true", help="do not check the numbers first")
    parser.add_argument("--no-walk", action="store_true", help="leave the walk-through page out")
    options = parser.parse_args(arguments)
    counts: dict[str, int] = {}
    if not options.no_verify:
        found = check()
        if found is None:
            stands = (options.out / "index.html").exists()
            older = f" What stands in {options.out} is an older site, left as it was." if stands else ""
            print(f"The handbook is wrong (above); nothing was built.{older}", file=sys.stderr)
            return 1
        counts = found
    chosen = [options.language] if options.language else list(LANGUAGES)
    return build(options.out, chosen, walk=not options.no_walk, counts=counts)


def check() -> dict[str, int] | None:
    """Both roads: how many facts each worked out, or None, with the faults printed, where they or the pages differ.

    The second road takes the modules of this repository, whose lines the pages show, whatever else is installed; where
    torch is missing it is left out, which the count then lacks.
    """
    pages = [sys.executable, "-I", str(HERE.parent / "verify.py"), "--quiet"]
    if subprocess.run(pages, check=False).returncode:
        return None
    lock = REPOSITORY / "src/clearhead/recipes/handbook/facts.lock.json"
    counts = {"facts": len(json.loads(lock.read_text(encoding="utf-8"))["facts"])}
    if find_spec("torch") is None:
        print("torch is not installed: the modules that train recomputed nothing.", file=sys.stderr)
        return counts
    path = os.pathsep.join(filter(None, [str(REPOSITORY / "src"), os.environ.get("PYTHONPATH")]))
    modules = [sys.executable, "-m", "clearhead", "verify", "--json"]
    done = subprocess.run(modules, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False)
    try:
        facts = json.loads(done.stdout)["facts"]
    except ValueError:
        print(done.stdout, done.stderr, "clearhead verify did not come to an end.", sep="\n", file=sys.stderr)
        return None
    wrong = [f"{name}: {fact['problem']} (clearhead verify)" for name, fact in facts.items() if fact["problem"]]
    print(*wrong, sep="\n", end="\n" if wrong else "")
    if wrong or done.returncode:
        return None
    made = sum(fact["modules"] not in ([], ["arithmetic"]) for fact in facts.values())
    return {**counts, "modules": made, "arithmetic": len(facts) - made}


def build(out: Path, languages: list[str], *, walk: bool = True, counts: dict[str, int] | None = None) -> int:
    """Build the languages side by side into `out`; 1 where Sphinx warned of anything.

    `counts` is what `check` found; every page's foot tells it.
    """
    out.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(HERE / "index.html", out / "index.html")
    shutil.copyfile(REPOSITORY / "LICENSE", out / "LICENSE.txt")
    with tempfile.TemporaryDirectory() as scratch:
        running = {name: _start(name, out, Path(scratch), counts or {}) for name in languages}
        failed = [name for name, process in running.items() if process.wait()]
    for name in languages:
        shutil.copyfile(_maths_font(), out / name / "_static" / "STIXTwoMath-Regular.ttf")
    if failed:
        print(f"Sphinx found something wrong in: {', '.join(failed)}.", file=sys.stderr)
        return 1
    if walk:
        write_walks(out, languages)
    print(f"The handbook is at {out / 'index.html'}.")
    return 0


def _start(name: str, out: Path, scratch: Path, counts: dict[str, int]) -> subprocess.Popen[bytes]:
    command = [
        sys.executable, "-m", "sphinx", "--builder", "html", "--nitpicky", "--fail-on-warning", "--quiet",
        "--conf-dir", str(HERE), "--doctree-dir", str(scratch / name),
        "--define", f"language={LANGUAGES[name]}", "--define", f"html_title={TITLES[name]}",
        *(f"--html-define=checked_{kind}={count}" for kind, count in counts.items()), *_way_back(out / name),
        str(HERE.parent / name), str(out / name),
    ]  # fmt: skip
    return subprocess.Popen(command, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})


def _way_back(folder: Path) -> list[str]:
    """The relative way from the pages to the repository, where they lie inside of it."""
    if not folder.resolve().is_relative_to(REPOSITORY):
        return []
    return [f"--html-define=repository={os.path.relpath(REPOSITORY, folder.resolve())}"]


def _maths_font() -> Path:
    """STIX Two Math, which ziamath brings under the SIL Open Font License."""
    package = find_spec("ziamath")
    assert package is not None and package.origin is not None, "pip install 'clearhead[docs]' brings ziamath"
    return Path(package.origin).parent / "fonts" / "STIXTwoMath-Regular.ttf"


def write_walks(out: Path, languages: list[str]) -> None:
    """The walk-through page of the small shipped model, in each language."""
    from clearhead.explorer.walk_page import write_walk

    for name in languages:
        page = out / name / "walkthrough.html"
        write_walk(HERE / "model", WALK_SENTENCE, page, language="zh" if name == "zh" else "en", back="walk.html")


if __name__ == "__main__":
    sys.exit(main())
