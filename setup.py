"""Compiles the native library of engine/native where there is a C++ compiler; all else stands in pyproject.toml.

The library has a plain C interface and is loaded by way of ctypes, so it is neither compiled against Python nor linked
to it: one file, and one wheel, serve every Python 3 of a platform. Every set of instructions has a file of its own with
flags of its own, since nothing else may use instructions that the processor perhaps lacks.

Without a compiler, or if it fails, the package is installed without the library and is only slower; pip shows the
warning with -v. `python setup.py build_ext --inplace` asks for the library by name: there a failure is an error. Heeded
are CXX (or CC, whose C++ compiler is then taken), CPPFLAGS, CFLAGS, CXXFLAGS and LDFLAGS.
"""

import atexit
import hashlib
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext
from setuptools.errors import CompileError

NATIVE = Path("src/clearhead/engine/native")
FLAGS = ["-std=c++17", "-O3", "-fPIC", "-pthread", "-fno-math-errno", "-ffp-contract=fast", "-fvisibility=hidden"]
FLAGS += ["-Wall", "-Wextra", f"-ffile-prefix-map={Path.cwd()}=."]
AVX512 = ["-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512dq", "-mavx512vnni", "-mfma"]
# The files for one set of instructions of x86-64; native/absent.cpp stands in for those that are left out.
LEVELS = {
    "level_avx512": AVX512,
    "level_avx512bf16": [*AVX512, "-mavx512bf16"],
    "level_avx2": ["-mavx2", "-mfma"],
}


class Compiler:
    """A C++ compiler with the environment's flags; keeps objects in `folder`, named after all that they depend on."""

    def __init__(self, folder: Path) -> None:
        self.command = find_compiler()
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def compile(self, source: Path, flags: list[str]) -> Path:
        """The object of `source`; CompileError with the compiler's words if there can be none."""
        command = [*self.command, *FLAGS, *flags, *environment("CPPFLAGS", "CFLAGS", "CXXFLAGS"), "-c", str(source)]
        digest = hashlib.sha256("\0".join(command).encode())
        for file in sorted(inclusions(source)):
            digest.update(file.read_bytes())
        kept = self.folder / f"{source.stem}-{digest.hexdigest()[:16]}.o"
        if not kept.exists():
            self.write(command, kept)
        return kept

    def knows(self, flags: list[str]) -> bool:
        """Whether the compiler accepts these flags."""
        empty = self.folder / "empty.cpp"
        empty.touch()
        try:
            self.compile(empty, flags)
        except CompileError:
            return False
        return True

    def link(self, objects: list[Path], target: Path) -> None:
        """The shared library of `objects`, which shows nothing but the functions ch_*.

        The compiler's own settings of visibility would leave the templates of C++'s library in view.
        """
        if sys.platform == "darwin":
            exported = "-Wl,-exported_symbol,_ch_*"
        else:
            script = self.folder / "exports.map"
            script.write_text("{ global: ch_*; local: *; };\n", encoding="utf-8")
            exported = f"-Wl,--version-script={script}"
        command = [*self.command, "-shared", "-pthread", exported, *map(str, objects)]
        target.parent.mkdir(parents=True, exist_ok=True)
        self.write([*command, *environment("CFLAGS", "CXXFLAGS", "LDFLAGS")], target)

    def write(self, command: list[str], target: Path) -> None:
        """Run `command`; `target` appears whole or not at all, also where two builds share a folder."""
        part = target.with_name(f"{target.name}.{os.getpid()}.part")
        print(shlex.join(command) + "\n", end="", flush=True)  # in one piece, since several threads write
        try:
            done = subprocess.run(  # what it says need not be of this locale
                [*command, "-o", str(part)], check=False, capture_output=True, text=True, errors="backslashreplace"
            )
            if done.returncode != 0 or not part.exists():
                said = (done.stdout + done.stderr).splitlines()[:20]  # the first error; the rest mostly follows from it
                raise CompileError("\n".join([f"{shlex.join(command)} failed", *said]))
            if done.stderr:
                print(done.stderr, flush=True)  # the compiler's warnings
            part.replace(target)
        except OSError as error:
            raise CompileError(f"{command[0]} cannot be run: {error}") from error
        finally:
            part.unlink(missing_ok=True)


def inclusions(source: Path) -> set[Path]:
    """`source` and all files of ours that it includes, directly or not."""
    found: set[Path] = set()
    waiting = {source}
    while waiting:
        file = waiting.pop()
        found.add(file)
        names = re.findall(r'^\s*#\s*include\s*"(.+)"', file.read_text(encoding="utf-8"), re.MULTILINE)
        waiting |= {file.with_name(name) for name in names} - found
    return found


def environment(*names: str) -> list[str]:
    """The flags in these variables."""
    return [flag for name in names for flag in shlex.split(os.environ.get(name, ""))]


def find_compiler() -> list[str]:
    """The command of the C++ compiler: the environment's, or the first one that is there."""
    if os.environ.get("CXX"):
        return shlex.split(os.environ["CXX"])
    found = [command for command in wished_compilers() if command and shutil.which(command[0])]
    if not found:
        raise CompileError("no C++ compiler found (on Debian and Ubuntu: apt-get install g++)")
    return found[0]


def wished_compilers() -> Iterator[list[str]]:
    """The C++ side of CC, then what Python was compiled with, then the usual names."""
    if os.environ.get("CC"):
        program, *rest = shlex.split(os.environ["CC"])
        for c, cxx in (("clang", "clang++"), ("gcc", "g++"), ("cc", "c++")):
            if c in Path(program).name:
                yield [str(Path(program).with_name(Path(program).name.replace(c, cxx))), *rest]
    yield shlex.split(sysconfig.get_config_var("CXX") or "")
    yield from (["c++"], ["g++"], ["clang++"])


class BuildNative(build_ext):
    """build_ext with a command of its own for every file, and as many at once as there are processors."""

    def get_ext_filename(self, fullname: str) -> str:
        return str(Path(*fullname.split(".")).with_suffix(".so"))

    @property
    def by_name(self) -> bool:
        return "build_ext" in self.distribution.commands

    def build_extension(self, ext: Extension) -> None:
        target = Path(self.get_ext_fullpath(ext.name))
        try:
            self.build_library(list(map(Path, ext.sources)), target)
        except (CompileError, OSError) as error:
            target.unlink(missing_ok=True)
            if self.by_name:
                ext.optional = False
                raise CompileError(str(error)) from error
            self.warn_of(error)
            wheel = self.distribution.get_command_obj("bdist_wheel", create=False)
            if wheel is not None:  # what it packs is now the same for every platform
                wheel.root_is_pure = True
                self.distribution.ext_modules = []

    def build_library(self, sources: list[Path], target: Path) -> None:
        """Write `target`; CompileError, or the OSError of a file, if that cannot be done."""
        compiler = Compiler(Path(self.build_temp))
        levels = [source for source in sources if source.stem in LEVELS]
        others = [source for source in sources if source.stem not in LEVELS]
        processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        with ThreadPoolExecutor(processors) as pool:
            made = list(pool.map(lambda source: self.compile_level(compiler, source), levels))
            left_out = {
                s.stem.removeprefix("level_"): m for s, m in zip(levels, made, strict=True) if not isinstance(m, Path)
            }
            macros = [f"-DCLEARHEAD_WITHOUT_{level.upper()}" for level in left_out]
            objects = list(pool.map(lambda source: compiler.compile(source, macros), others))
        # Those of a level come last: of an inline function that several have, the linker takes the first.
        compiler.link([*objects, *(found for found in made if isinstance(found, Path))], target)
        for level, why in left_out.items():
            if why is not None:
                print(f"WARNING: the native library of clearhead is built without {level}: {why}", flush=True)

    def compile_level(self, compiler: Compiler, source: Path) -> Path | str | None:
        """The object for one set of instructions, or why it cannot be compiled; None on another architecture."""
        if not (platform.machine().lower() in {"x86_64", "amd64"} and sys.maxsize > 2**32):
            return None
        flags = LEVELS[source.stem]
        try:
            return compiler.compile(source, flags)
        except CompileError as error:
            if self.by_name and compiler.knows(flags):
                raise  # a fault in the source, not an old compiler
            return str(error)

    def copy_extensions_to_source(self) -> None:
        """Put the library into the checkout whole, since others may be loading it.

        After a failed build one of older sources is taken away: it need not fit the Python code of today.
        """
        for ext in self.extensions:
            inside, built = self._get_inplace_equivalent(self.get_finalized_command("build_py"), ext)
            try:
                if Path(built).exists():
                    part = Path(f"{inside}.{os.getpid()}.part")
                    shutil.copy(built, part)
                    part.replace(inside)
                elif Path(inside).exists():
                    self.keep_or_remove(Path(inside), [*ext.sources, *ext.depends])
            except OSError as error:
                if self.by_name:
                    raise
                self.warn_of(error)  # the checkout can only be read

    def keep_or_remove(self, library: Path, sources: list[str]) -> None:
        """Keep a library that is younger than all its sources, remove another, and say which."""
        if library.stat().st_mtime >= max(Path(source).stat().st_mtime for source in sources):
            print(f"WARNING: {library} is of the same sources and stays in use", flush=True)
        else:
            library.unlink()
            print(f"WARNING: {library} was of older sources and is removed", flush=True)

    def warn_of(self, error: Exception) -> None:
        """Say once, and clearly, that there will be no library."""
        print(
            f"WARNING: clearhead's native library cannot be built, and without it translation is slower: {error}",
            flush=True,
        )


class NativeWheel(bdist_wheel):
    """A wheel with a library is one platform's, but any Python's."""

    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", super().get_tag()[2]


def elsewhere() -> dict[str, dict[str, str]]:
    """Options that put all by-products into a temporary folder, if the checkout cannot be written to."""
    if os.access("src", os.W_OK):
        return {}
    folder = tempfile.mkdtemp(prefix="clearhead-build-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return {"build": {"build_base": folder}, "egg_info": {"egg_base": folder}}


setup(
    ext_modules=[
        Extension(
            "clearhead.engine._native",
            sources=sorted(map(str, NATIVE.glob("*.cpp"))),
            depends=sorted(map(str, NATIVE.glob("*.h"))),
            language="c++",
            optional=True,
        )
    ],
    cmdclass={"build_ext": BuildNative, "bdist_wheel": NativeWheel},
    options=elsewhere(),
)
