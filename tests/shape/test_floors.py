"""The floors: imports go downwards only, and text, files and scores need no torch."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TORCH_FREE = ("base", "config", "text", "formats", "metrics", "data")
LINT = [sys.executable, "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()", "--no-cache"]


def floors_of(root: Path) -> subprocess.CompletedProcess[str]:
    """Run import-linter with `root`'s pyproject.toml over `root`'s source."""
    return subprocess.run(
        LINT, cwd=root, env={"PYTHONPATH": str(root / "src"), "PATH": "/usr/bin:/bin"}, capture_output=True, text=True
    )


def test_floors_hold() -> None:
    done = floors_of(ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 kept, 0 broken" in done.stdout


@pytest.mark.parametrize(
    ("module", "line", "contract"),
    [
        ("models/stray.py", "import clearhead.training", "Each floor imports only from the floors below it BROKEN"),
        ("decoding/stray.py", "import clearhead.objectives", "Each floor imports only from the floors below it BROKEN"),
        ("text/stray.py", "import torch", "Text, files and scores need no torch BROKEN"),
        ("formats/stray.py", "import clearhead.nn.padding", "Text, files and scores need no torch BROKEN"),
        ("newcomer/__init__.py", "", "Each floor imports only from the floors below it BROKEN"),
    ],
)
def test_a_wrong_import_breaks_the_floors(tmp_path: Path, module: str, line: str, contract: str) -> None:
    shutil.copytree(ROOT / "src" / "clearhead", tmp_path / "src" / "clearhead")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    stray = tmp_path / "src" / "clearhead" / module
    stray.parent.mkdir(exist_ok=True)
    stray.write_text(line + "\n", encoding="utf-8")
    done = floors_of(tmp_path)
    assert done.returncode != 0
    assert contract in done.stdout, done.stdout + done.stderr


def test_importing_the_torch_free_packages_loads_no_torch() -> None:
    # import-linter reads the source; this asks the interpreter, so a third package that loads torch is found as well.
    package = ROOT / "src" / "clearhead"
    paths = [path for floor in TORCH_FREE for path in sorted((package / floor).rglob("*.py"))]
    modules = [".".join(path.relative_to(package.parent).with_suffix("").parts) for path in paths]
    modules = [module.removesuffix(".__init__") for module in modules if module != "clearhead.data.collate"]
    assert len(modules) > len(TORCH_FREE)
    code = (
        "import importlib, json, sys\n"
        "loading = {}\n"
        f"for name in {modules!r}:\n"
        "    before = 'torch' in sys.modules\n"
        "    importlib.import_module(name)\n"
        "    if 'torch' in sys.modules and not before: loading[name] = 'loads torch'\n"
        "print(json.dumps(loading))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == {}
