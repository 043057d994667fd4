"""The wheel: built from a copy of the checkout, installed in an empty environment, run outside the checkout."""

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NOT_SHIPPED = shutil.ignore_patterns("__pycache__", "*.egg-info", "*.so")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built wheel. The build reads only what a release would hold, and needs a compiler but no network."""
    copy = tmp_path_factory.mktemp("checkout")
    for file in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / file, copy)
    shutil.copytree(ROOT / "src", copy / "src", ignore=NOT_SHIPPED)
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(copy / "dist"), str(copy)]
    # To optimise the native library would take three times as long.
    done = subprocess.run(build, env={**os.environ, "CXXFLAGS": "-O0"}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (built,) = (copy / "dist").glob("clearhead-*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with clearhead from the wheel; all else is seen through a .pth file, so nothing is downloaded."""
    home = tmp_path_factory.mktemp("installed")
    venv.create(home / "venv", with_pip=False)
    site = Path(
        subprocess.run(
            [home / "venv/bin/python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()
    )
    pip = [sys.executable, "-m", "pip", "--python", str(home / "venv/bin/python")]
    done = subprocess.run(
        [*pip, "install", "--quiet", "--no-deps", "--no-index", str(wheel)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    # Plain paths only: the .pth files of that directory (the editable clearhead among them) are not followed.
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return home


def run(installed: Path, *command: str) -> str:
    """Run a program of the environment far from the checkout, with nothing of ours in its surroundings."""
    done = subprocess.run(
        [installed / "venv/bin" / command[0], *command[1:]],
        cwd=installed,
        env={"PATH": "/usr/bin:/bin", "HOME": str(installed), "LANG": "C.UTF-8"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_wheel_holds_every_module_and_data_file(wheel: Path) -> None:
    source = ROOT / "src"
    wanted = {
        str(path.relative_to(source))
        for path in (source / "clearhead").rglob("*")
        if path.is_file() and path.suffix not in {".pyc", ".so"} and "__pycache__" not in path.parts
    }
    sources = {name for name in wanted if Path(name).parent.name == "native"}
    wanted -= sources
    shipped = set(zipfile.ZipFile(wheel).namelist())
    assert "clearhead/py.typed" in wanted
    assert "clearhead/engine/native/api.cpp" in sources
    assert sources & shipped == set()
    assert wanted - shipped == set()
    assert {name.split("/")[0] for name in shipped} == {"clearhead", wheel.name.split("-py3")[0] + ".dist-info"}


def test_installed_package_is_the_wheels_own(installed: Path) -> None:
    where = run(installed, "python", "-c", "import clearhead; print(clearhead.__file__)").strip()
    assert Path(where).is_relative_to(installed / "venv")


def test_version_is_the_projects(installed: Path, wheel: Path) -> None:
    version = run(installed, "python", "-c", "import clearhead; print(clearhead.__version__)").strip()
    assert wheel.name.startswith(f"clearhead-{version}-")


@pytest.mark.skipif(not (shutil.which("g++") or shutil.which("clang++")), reason="no C++ compiler")
def test_native_library_is_in_the_wheel_and_works(installed: Path, wheel: Path) -> None:
    assert "clearhead/engine/_native.so" in zipfile.ZipFile(wheel).namelist()
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    assert wheel.name.endswith(f"-py3-none-{platform}.whl")  # any Python 3 of this platform
    code = (
        "from clearhead.engine.library import absence, library\n"
        "assert library(), absence()\n"
        "print(library().packed_bytes(0, 65, 3))"
    )
    assert run(installed, "python", "-c", code) == f"{2 * 64 * 3 * 4}\n"  # two panels of 64 columns, 3 words a column


def test_command_runs_outside_the_checkout(installed: Path) -> None:
    out = run(installed, "clearhead", "--help")
    for command in ("data", "train", "translate", "evaluate", "score", "average", "info"):
        assert command in out


def test_preset_can_be_built_outside_the_checkout(installed: Path) -> None:
    code = (
        "from clearhead.models import build, presets\n"
        "print(sum(p.numel() for p in build(presets.tiny(vocab_size=100)).parameters()))"
    )
    assert int(run(installed, "python", "-c", code)) > 100
