"""Build the handbook: `python docs/transformer/site/build.py OUT` writes OUT/en, OUT/zh and OUT/index.html.

The numbers are checked first (`verify.py`), then each language is built with every warning an error.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

__all__ = ["LANGUAGES", "build", "main", "write_walks"]

HERE = Path(__file__).resolve().parent
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
    if not options.no_verify:
        checked = subprocess.run([sys.executable, "-I", str(HERE.parent / "verify.py"), "--quiet"], check=False)
        if checked.returncode:
            print("The numbers or links of the pages are wrong (above); nothing was built.", file=sys.stderr)
            return 1
    chosen = [options.language] if options.language else list(LANGUAGES)
    return build(options.out, chosen, walk=not options.no_walk)


def build(out: Path, languages: list[str], *, walk: bool = True) -> int:
    """Build the languages side by side into `out`; 1 where Sphinx warned of anything."""
    out.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(HERE / "index.html", out / "index.html")
    with tempfile.TemporaryDirectory() as scratch:
        running = {name: _start(name, out, Path(scratch)) for name in languages}
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


def _start(name: str, out: Path, scratch: Path) -> subprocess.Popen[bytes]:
    command = [
        sys.executable, "-m", "sphinx", "--builder", "html", "--nitpicky", "--fail-on-warning", "--quiet",
        "--conf-dir", str(HERE), "--doctree-dir", str(scratch / name),
        "--define", f"language={LANGUAGES[name]}", "--define", f"html_title={TITLES[name]}",
        str(HERE.parent / name), str(out / name),
    ]  # fmt: skip
    return subprocess.Popen(command, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})


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
        write_walk(HERE / "model", WALK_SENTENCE, page, language="zh" if name == "zh" else "en")


if __name__ == "__main__":
    sys.exit(main())
