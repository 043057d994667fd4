"""How the native library is built, with a few lines in place of its sources, and what the one in use is made of."""

import os
import re
import shutil
import stat
import subprocess
import sys
import tarfile
import time
import zipfile
from collections import defaultdict
from pathlib import Path

import pytest

from clearhead.engine import library as door
from clearhead.engine.library import absence, library

ROOT = Path(__file__).parents[2]
NATIVE = Path("src/clearhead/engine/native")
LIBRARY = "src/clearhead/engine/_native.so"
COMPILER = shutil.which("g++") or shutil.which("clang++") or ""
INTEL = os.uname().machine == "x86_64"

pytestmark = pytest.mark.skipif(
    not (COMPILER and all(map(shutil.which, ("nm", "objdump", "readelf")))), reason="no C++ compiler, or no binutils"
)

# Stand-ins, each with what must be right about its compilation.
SOURCES = {
    "api.cpp": """
        #include <string>
        #include <vector>
        #include "kernels.h"
        #include "stand_in.h"
        #ifdef __AVX__
        #error "this file is for every processor"
        #endif
        #define CH extern "C" __attribute__((visibility("default")))
        using namespace clearhead;
        static std::string level = avx512_kernels() ? "avx512" : avx2_kernels() ? "avx2" : "portable";
        CH int ch_version() { return 1; }
        CH const char* ch_level() { return level.c_str(); }
        CH int ch_select(const char* wish) { return level == wish; }
        CH int ch_packed_bytes() {
          std::vector<std::string> words(WORDS, "one");
          words.push_back("two");
          return words.size();
        }
        CH int ch_pack() { return 0; }
        CH int ch_product() { return 0; }
        CH int ch_embed() { return 0; }
    """,
    "stand_in.h": "#define WORDS 3\n",
    "level_avx512.cpp": """
        #include "kernels.h"
        #if !(__AVX512F__ && __AVX512BW__ && __AVX512VL__ && __AVX512DQ__ && __AVX512VNNI__ && __FMA__)
        #error "flags are missing"
        #endif
        namespace clearhead { const Kernels<float>* avx512_kernels() { return (const Kernels<float>*)8; } }
    """,
    "level_avx2.cpp": """
        #include "kernels.h"
        #if !(__AVX2__ && __FMA__) || __AVX512F__
        #error "flags are wrong"
        #endif
        namespace clearhead { const Kernels<float>* avx2_kernels() { return (const Kernels<float>*)8; } }
    """,
}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with stand-ins for the native sources, and with no library."""
    copy = tmp_path / "checkout"
    copy.mkdir()
    for file in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / file, copy)
    (copy / NATIVE).mkdir(parents=True)
    for file in ("__init__.py", "engine/__init__.py", "engine/library.py"):
        shutil.copy(ROOT / "src/clearhead" / file, copy / "src/clearhead" / file)
    for file in ("kernels.h", "absent.cpp"):
        shutil.copy(ROOT / NATIVE / file, copy / NATIVE)
    for name, source in SOURCES.items():
        (copy / NATIVE / name).write_text(source, encoding="utf-8")
    return copy


def build(checkout: Path, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Build with this environment: by name and in place, or by another command of Python."""
    inherited = {
        name: value for name, value in os.environ.items() if name not in {"CC", "CFLAGS", "CPPFLAGS", "LDFLAGS"}
    }
    return subprocess.run(
        [sys.executable, *(command or ("setup.py", "build_ext", "--inplace"))],
        cwd=checkout,
        env={**inherited, "CXX": COMPILER, "CXXFLAGS": "-O0", **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def wrapper(folder: Path, lines: str) -> str:
    """A compiler that runs these lines of shell before the real one."""
    file = folder / "wrapper"
    file.write_text(f'#!/bin/sh\n{lines}\nexec {COMPILER} "$@"\n', encoding="utf-8")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    return str(file)


def loaded(checkout: Path) -> str:
    """The set in use, the answer of one function, and why there is no library, as the built checkout has them."""
    code = (
        "from clearhead.engine.library import *; found = library(); "
        "print(found and (found.level, found.packed_bytes(0, 0, 0)), absence(), sep='; ')"
    )
    run = subprocess.run(
        [sys.executable, "-c", code],
        cwd="/",
        env={"PYTHONPATH": str(checkout / "src")},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()


def shown(file: Path) -> set[str]:
    """The names that a library shows to others."""
    table = subprocess.run(["nm", "-D", "--defined-only", file], check=True, capture_output=True, text=True).stdout
    return {line.split()[-1] for line in table.splitlines()}


# ---------------------------------------------------------------------------------------------------------- the build


def test_a_built_library_is_found(checkout: Path) -> None:
    done = build(checkout)
    assert done.returncode == 0, done.stdout
    assert "WARNING" not in done.stdout
    assert loaded(checkout) == f"{('avx512' if INTEL else 'portable', 4)}; None"
    assert shown(checkout / LIBRARY) == set(door._TYPES)  # and not one of std::vector's


def test_compilers_and_flags_come_from_the_environment(checkout: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    compiler = wrapper(tmp_path, f'echo "$@" >> {log}')
    done = build(checkout, CXX=compiler, CXXFLAGS="-O0 -g", CPPFLAGS="-DONE", CFLAGS="-DTWO", LDFLAGS="-Wl,--as-needed")
    assert done.returncode == 0, done.stdout
    commands = log.read_text(encoding="utf-8").splitlines()
    compiled, linked = commands[:-1], commands[-1]
    sources = ("api.cpp", "absent.cpp", *(("level_avx512.cpp", "level_avx2.cpp") if INTEL else ()))
    assert sorted(Path(command.split("-c ")[1].split()[0]).name for command in compiled) == sorted(sources)
    assert all("-DONE -DTWO -O0 -g -c" in command for command in compiled)
    assert "-Wl,--as-needed" in linked
    assert not [
        command for command in commands if "python" in command.replace(str(tmp_path), "").replace("cpython", "")
    ]
    # Debugging information names the folder of the compilation, which is nobody else's business.
    assert str(tmp_path).encode() not in (checkout / LIBRARY).read_bytes()


def test_the_cxx_of_a_cc_is_taken(checkout: Path, tmp_path: Path) -> None:
    wrapper(tmp_path, "").replace("wrapper", "")
    (tmp_path / "wrapper").rename(tmp_path / "my-g++-9")
    done = build(checkout, CXX="", CC=str(tmp_path / "my-gcc-9"))
    assert done.returncode == 0, done.stdout
    assert f"{tmp_path}/my-g++-9 -std" in done.stdout


def test_only_what_changed_is_compiled_again(checkout: Path) -> None:
    def compiled() -> list[str]:
        done = build(checkout)
        assert done.returncode == 0, done.stdout
        return sorted(re.findall(r"-c \S+/(\S+)\.cpp", done.stdout))

    assert "api" in compiled() and loaded(checkout).startswith("('") and ", 4)" in loaded(checkout)
    assert compiled() == []
    (checkout / NATIVE / "stand_in.h").write_text("#define WORDS 5\n", encoding="utf-8")
    assert compiled() == ["api"]
    assert ", 6)" in loaded(checkout)


@pytest.mark.skipif(not INTEL, reason="these instructions are those of x86-64")
def test_a_compiler_that_is_too_old_for_a_set_leaves_it_out(checkout: Path, tmp_path: Path) -> None:
    compiler = wrapper(tmp_path, 'case "$*" in *-mavx512*) echo "unknown option -mavx512f" >&2; exit 1;; esac')
    done = build(checkout, CXX=compiler)
    assert done.returncode == 0, done.stdout
    assert re.findall("WARNING: (.*): ", done.stdout) == ["the native library of clearhead is built without avx512"]
    assert loaded(checkout) == "('avx2', 4); None"


@pytest.mark.skipif(not INTEL, reason="these instructions are those of x86-64")
def test_a_fault_in_the_source_of_a_set_is_an_error_where_the_library_was_asked_for(checkout: Path) -> None:
    assert build(checkout).returncode == 0
    with (checkout / NATIVE / "level_avx2.cpp").open("a", encoding="utf-8") as source:
        source.write("fault;\n")
    done = build(checkout)
    assert done.returncode != 0
    assert "level_avx2.cpp failed" in done.stdout and "fault" in done.stdout
    assert "Traceback" not in done.stdout
    assert "None" in loaded(checkout)  # the library that was there is there still


def test_without_a_compiler_the_package_is_installed_all_the_same(checkout: Path, tmp_path: Path) -> None:
    wheel = ("-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path))
    done = build(checkout, *wheel, CXX="/bin/false")
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("WARNING") == 1
    assert (
        "WARNING: clearhead's native library cannot be built, and without it translation is slower: /bin/false"
        in done.stdout
    )
    (built,) = tmp_path.glob("*.whl")
    assert built.name.endswith("-py3-none-any.whl")
    archive = zipfile.ZipFile(built)
    assert "clearhead/engine/library.py" in archive.namelist()
    assert not [name for name in archive.namelist() if name.endswith((".so", ".cpp", ".h"))]
    archive.extractall(tmp_path / "site/src")
    assert loaded(tmp_path / "site").startswith("None; clearhead was installed without it; ")


@pytest.mark.parametrize("fault", ["folder", "file", "words"])
def test_what_else_goes_wrong_with_the_library_fails_no_installation(
    checkout: Path, tmp_path: Path, fault: str
) -> None:
    """No folder for the objects, no file for the linker, a compiler whose words are no UTF-8."""
    (tmp_path / "objects/exports.map").mkdir(parents=True)
    if fault in ("folder", "file"):
        where = "/dev/null/objects" if fault == "folder" else tmp_path / "objects"
        (checkout / "setup.cfg").write_text(f"[build]\nbuild_temp = {where}\n", encoding="utf-8")
    compiler = wrapper(tmp_path, r"printf 'falsch: \344\n' >&2; exit 1") if fault == "words" else COMPILER
    wheel = ("-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path))
    done = build(checkout, *wheel, CXX=compiler)
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("WARNING: clearhead's native library cannot be built") == 1
    assert [path.name[-12:] for path in tmp_path.glob("*.whl")] == ["none-any.whl"]
    done = build(checkout, CXX=compiler)
    assert done.returncode != 0 and "error: " in done.stdout
    assert "Traceback" not in done.stdout


def test_a_source_release_holds_all_that_the_build_needs(checkout: Path, tmp_path: Path) -> None:
    done = build(checkout, "-m", "build", "--sdist", "--no-isolation", "--outdir", str(tmp_path))
    assert done.returncode == 0, done.stdout
    (release,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(release) as archive:
        archive.extractall(tmp_path / "release", filter="data")
    (unpacked,) = (tmp_path / "release").iterdir()
    assert {path.name for path in (unpacked / NATIVE).iterdir()} == {"absent.cpp", "kernels.h", *SOURCES}
    assert build(unpacked).returncode == 0
    assert loaded(unpacked).endswith("; None")


def test_asked_for_by_name_the_lack_of_a_compiler_is_an_error(checkout: Path) -> None:
    done = build(checkout, CXX="/nowhere/c++")
    assert done.returncode != 0
    assert "error: /nowhere/c++ cannot be run" in done.stdout
    assert "Traceback" not in done.stdout
    assert not (checkout / LIBRARY).exists()


def test_an_editable_installation_that_fails_leaves_no_library_of_older_sources(checkout: Path, tmp_path: Path) -> None:
    # What pip calls for it; pip itself would take away the clearhead that these tests run in.
    editable = (
        "-c",
        "import sys, setuptools.build_meta as backend; backend.build_editable(sys.argv[1])",
        str(tmp_path),
    )
    assert build(checkout, *editable).returncode == 0
    assert loaded(checkout).endswith("; None")
    for said in ("is of the same sources and stays in use", "was of older sources and is removed"):
        done = build(checkout, *editable, CXX="/bin/false")
        assert done.returncode == 0, done.stdout
        assert done.stdout.count("WARNING: clearhead's native library cannot be built") == 1
        assert f"WARNING: {LIBRARY} {said}" in done.stdout.replace(f"{checkout}/", "")
        assert (checkout / LIBRARY).exists() == ("stays" in said)
        later = time.time() + 10
        os.utime(checkout / NATIVE / "stand_in.h", (later, later))
    hint = f"`python setup.py build_ext --inplace` in {checkout} builds it, or says why it cannot"
    assert loaded(checkout) == f"None; clearhead was installed without it; {hint}"


def test_a_checkout_that_can_only_be_read(checkout: Path, tmp_path: Path) -> None:
    everything = [checkout, *checkout.rglob("*")]
    for path in everything:
        path.chmod(0o500 if path.is_dir() else 0o400)
    # Root may write all the same unless its children lose the privilege (PR_CAPBSET_DROP, CAP_DAC_OVERRIDE).
    code = (
        "import ctypes, os, sys; os.geteuid() or ctypes.CDLL(None).prctl(24, 1, 0, 0, 0); "
        "os.execv(sys.executable, [sys.executable, '-m', 'build', '--wheel', '--no-isolation', '-o', sys.argv[1], '.'])"
    )
    done = build(checkout, "-c", code, str(tmp_path))
    for path in everything:
        path.chmod(0o700)
    assert done.returncode == 0, done.stdout
    (built,) = tmp_path.glob("*.whl")
    assert "clearhead/engine/_native.so" in zipfile.ZipFile(built).namelist()
    assert {path for path in checkout.rglob("*") if "__pycache__" not in path.parts} == set(everything[1:])


# --------------------------------------------------------------------------------------------------- the one in use


def wide_code(file: Path) -> dict[str, set[str]]:
    """The functions with AVX instructions, by the source file of each; "" for one that other files may see."""
    table = subprocess.run(["readelf", "--syms", "--wide", file], check=True, capture_output=True, text=True).stdout
    home, source = {}, ""
    for line in table.splitlines():
        fields = line.split()
        if len(fields) >= 7 and fields[3] == "FILE":
            source = fields[7] if len(fields) > 7 else ""
        elif len(fields) >= 8 and fields[3] == "FUNC":
            home[int(fields[1], 16)] = source
    code = subprocess.run(
        ["objdump", "-d", "--no-show-raw-insn", file], check=True, capture_output=True, text=True
    ).stdout
    found = defaultdict(set)
    function = where = ""
    for line in code.splitlines():
        if start := re.match(r"([0-9a-f]+) <(.+)>:$", line):
            function, where = start[2], home.get(int(start[1], 16), "")
        # Every instruction with a VEX or EVEX prefix, but those that work on masks or general registers, begins with v.
        elif re.match(r"\s+[0-9a-f]+:\s+(v[a-z]|\S+.*%(k[1-7]|[yz]mm))", line):
            found[where].add(function)
    return dict(found)


@pytest.fixture(scope="module")
def in_use() -> Path:
    if library() is None:
        pytest.skip(f"no native library: {absence()}")
    return door._FILE


def test_only_the_doors_functions_are_shown(in_use: Path) -> None:
    names = shown(in_use)
    assert set(door._TYPES) <= names
    assert {name for name in names if not name.startswith("ch_")} == set()


def test_it_needs_neither_python_nor_openmp_nor_torch(in_use: Path) -> None:
    table = subprocess.run(
        ["readelf", "--dynamic", "--wide", in_use], check=True, capture_output=True, text=True
    ).stdout
    needed = {name.split(".so")[0] for name in re.findall(r"\(NEEDED\).*\[(.*)\]", table)}
    assert "libstdc++" in needed or "libc++" in needed
    assert needed <= {
        "libstdc++",
        "libc++",
        "libgcc_s",
        "libc",
        "libm",
        "libpthread",
        "ld-linux-x86-64",
        "ld-linux-aarch64",
    }
    assert "RPATH" not in table and "RUNPATH" not in table


@pytest.mark.skipif(not INTEL, reason="these instructions are those of x86-64")
def test_avx_stands_only_where_the_processor_was_asked(in_use: Path) -> None:
    found = wide_code(in_use)
    # A function that is seen from other files has lost its file; the names of those of a set begin with its name.
    strays = {name for name in found.pop("", set()) if not re.match(r"_ZN9clearhead\d+avx", name)}
    assert strays == set()
    assert set(found) == {f"{level}.cpp" for level in ("level_avx2", "level_avx512", "level_avx512bf16")} & set(found)
    assert {"level_avx2.cpp", "level_avx512.cpp"} <= set(found)


@pytest.mark.skipif(not INTEL, reason="these instructions are those of x86-64")
def test_avx_elsewhere_would_be_seen(checkout: Path) -> None:
    fault = """
        extern "C" __attribute__((target("avx"))) int ch_pack() { asm volatile("vzeroupper"); return 0; }
        static __attribute__((noinline, target("avx"))) void hidden() { asm volatile("vzeroall"); }
        extern "C" int ch_embed() { hidden(); return 0; }
    """
    source = re.sub(r"CH int ch_(pack|embed)\(\).*", "", SOURCES["api.cpp"])
    (checkout / NATIVE / "api.cpp").write_text(
        f"{source}\n#pragma GCC visibility push(default)\n{fault}", encoding="utf-8"
    )
    done = build(checkout)
    assert done.returncode == 0, done.stdout
    assert wide_code(checkout / LIBRARY) == {"": {"ch_pack"}, "api.cpp": {"_ZL6hiddenv"}}
