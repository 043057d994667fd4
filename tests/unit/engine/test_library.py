"""The native library's door: what is there is called rightly, what is not there is said and changes nothing else."""

import ctypes
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from ctypes import c_char_p, c_double, c_int32, c_int64, c_size_t, c_void_p
from pathlib import Path

import numpy as np
import pytest

from clearhead.engine import library as door
from clearhead.engine import native_structures
from clearhead.engine.library import LEVELS, VERSION, Library, absence, library

NATIVE = Path(door.__file__).parent / "native"
COMPILER = shutil.which("cc") or shutil.which("c++")


@pytest.fixture
def native() -> Iterator[Library]:
    """The real library, in the instruction set that it had."""
    found = library()
    if found is None:
        pytest.skip(f"no native library: {absence()}")
    before = found.level
    yield found
    assert found.select(before)


@pytest.fixture
def fresh() -> Iterator[None]:
    """What was found before is forgotten, and what the test found too."""
    door._load_once.cache_clear()
    yield
    door._load_once.cache_clear()


def stand_in(folder: Path, source: str) -> Path:
    """A library of a few lines of C."""
    if COMPILER is None:
        pytest.skip("no C compiler")
    (folder / "stand_in.c").write_text(source, encoding="utf-8")
    made = folder / "stand_in.so"
    subprocess.run([COMPILER, "-shared", "-fPIC", "-o", made, folder / "stand_in.c"], check=True)
    return made


def complete(version: int, chosen: str) -> str:
    """C source with all the functions, and one instruction set."""
    return f"""
    #include <string.h>
    int ch_version(void) {{ return {version}; }}
    const char* ch_level(void) {{ return "{chosen}"; }}
    int ch_select(const char* level) {{ return strcmp(level, "{chosen}") == 0; }}
    int ch_packed_bytes(void) {{ return 0; }}
    int ch_pack(void) {{ return 0; }}
    int ch_product(void) {{ return 0; }}
    int ch_embed(void) {{ return 0; }}
    """


def reason(file: Path, wish: str = "") -> str:
    outcome = door._load(file, wish)
    assert isinstance(outcome, str), "a library was loaded"
    return outcome


# ------------------------------------------------------------------------------------------------------------ absence


def test_the_variable_turns_it_off_and_nothing_else_changes() -> None:
    code = "import sys; from clearhead.engine.library import *; print(library(), absence(), 'torch' in sys.modules)"
    run = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "CLEARHEAD_NATIVE": "0"}, capture_output=True, text=True
    )
    assert (run.stdout, run.stderr) == ("None turned off by CLEARHEAD_NATIVE=0 False\n", "")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    assert reason(tmp_path / "_native.so").startswith("clearhead was installed without it; ")
    assert reason(tmp_path).startswith("clearhead was installed without it; ")  # a folder


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"not a library at all\n" * 100])
def test_a_file_that_is_no_library(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "_native.so"
    file.write_bytes(content)
    assert str(file) in reason(file)
    assert "cannot be loaded" in reason(file)


@pytest.mark.skipif(sys.platform != "linux", reason="the kind of file is Linux's")
@pytest.mark.parametrize("share", [0.01, 0.3, 0.6, 0.99])
def test_a_library_whose_end_is_missing(tmp_path: Path, share: float) -> None:
    # In a process of its own, which loading such a file would end by a signal.
    whole = stand_in(tmp_path, complete(VERSION, "portable")).read_bytes()
    file = tmp_path / "cut.so"
    file.write_bytes(whole[: int(len(whole) * share)])
    code = f"from clearhead.engine import library; print(library._load(library.Path({str(file)!r}), ''))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.returncode == 0
    assert f"{file} is damaged: its end is missing" in run.stdout


def test_a_library_of_another_version(tmp_path: Path) -> None:
    file = stand_in(tmp_path, complete(VERSION + 1, "portable"))
    assert reason(file).startswith(
        f"{file} has version {VERSION + 1} of its interface, and version {VERSION} is wanted; "
    )


def test_a_library_without_a_function(tmp_path: Path) -> None:
    file = stand_in(tmp_path, complete(VERSION, "portable").replace("ch_embed", "ch_other"))
    assert re.search(r"cannot be loaded \(.*ch_embed.*\); ", reason(file))


def test_a_library_without_a_version(tmp_path: Path) -> None:
    file = stand_in(tmp_path, "int ch_pack(void) { return 1; }")
    assert re.search(r"cannot be loaded \(.*ch_version.*\); ", reason(file))


@pytest.mark.parametrize("wish", ["1", "off", "AVX2", "avx1024"])
def test_a_wish_that_means_nothing(tmp_path: Path, wish: str) -> None:
    file = stand_in(tmp_path, complete(VERSION, "portable"))
    assert reason(file, wish) == f"CLEARHEAD_NATIVE is {wish!r}, but must be one of: 0, avx512, avx2, portable"


def test_a_wish_that_the_library_cannot_grant(tmp_path: Path) -> None:
    file = stand_in(tmp_path, complete(VERSION, "portable"))
    assert reason(file, "avx512") == (
        "CLEARHEAD_NATIVE asks for avx512, but this processor or this build has only: portable"
    )
    loaded = door._load(file, "portable")
    assert isinstance(loaded, Library)
    assert loaded.levels() == (loaded.level,) == ("portable",)


@pytest.mark.usefixtures("fresh")
def test_absence_is_remembered_and_excludes_a_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "_FILE", tmp_path / "_native.so")
    monkeypatch.delenv("CLEARHEAD_NATIVE", raising=False)
    assert library() is None
    first = absence()
    assert first is not None
    stand_in(tmp_path, complete(VERSION, "portable")).rename(tmp_path / "_native.so")
    assert (library(), absence()) == (None, first)
    door._load_once.cache_clear()
    assert isinstance(library(), Library)
    assert absence() is None


@pytest.mark.usefixtures("fresh")
def test_many_threads_load_it_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = stand_in(tmp_path, complete(VERSION, "portable"))
    load, calls, found = door._load, [], []

    def slowly(*_: object) -> Library | str:
        calls.append(threading.get_ident())
        time.sleep(0.05)
        return load(file, "")

    monkeypatch.setattr(door, "_load", slowly)
    threads = [threading.Thread(target=lambda: found.append(library())) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(calls) == 1
    assert isinstance(found[0], Library)
    assert len(found) == 16 and all(each is found[0] for each in found)


# ------------------------------------------------------------------------------------------------------- the real one


def test_the_types_are_those_of_the_header(native: Library) -> None:
    header = (NATIVE / "api.h").read_text(encoding="utf-8")
    declared = {
        name: (kind.strip(), parameters)
        for kind, name, parameters in re.findall(r"CH_EXPORT ([\w* ]+?)(ch_\w+)\(([^)]*)\);", header)
    }
    plain = {"int32_t": c_int32, "size_t": c_size_t, "int64_t": c_int64, "const char*": c_char_p, "void": None}

    def kind_of(parameter: str) -> type:
        kind = parameter.rsplit(" ", 1)[0].strip()
        return plain.get(kind, c_void_p if kind.endswith("*") else type(None))

    def told(kind: object) -> object:
        """A pointer to a structure of ours is a pointer to C."""
        return c_void_p if isinstance(kind, type) and issubclass(kind, ctypes._Pointer) else kind

    native_structures.declare(native.handle)
    functions = {name: getattr(native.handle, name) for name in declared}
    assert functions.keys() > door._TYPES.keys()
    for name, (kind, parameters) in declared.items():
        wanted = [] if parameters == "void" else [kind_of(" ".join(each.split())) for each in parameters.split(",")]
        result = plain.get(kind, c_void_p)
        assert (functions[name].restype, [told(each) for each in functions[name].argtypes]) == (result, wanted), name


def test_the_structures_are_as_large_as_the_librarys(native: Library) -> None:
    """In every compiler: a field too many or of another width would have the library read past the others."""
    native_structures.declare(native.handle)
    sizes = (c_int32 * len(native_structures.STRUCTURES))()
    native.handle.ch_sizes(sizes)
    assert list(sizes) == [ctypes.sizeof(each) for each in native_structures.STRUCTURES]


@pytest.mark.parametrize("name", ["ch_search", "ch_shape", "ch_matrix", "ch_norm"])
def test_the_structures_have_the_fields_of_the_header(name: str) -> None:
    """In their order: two that change places leave the size as it was."""
    header = (NATIVE / "api.h").read_text(encoding="utf-8")
    body = re.sub(r"//.*", "", re.search(rf"struct {name} {{(.*?)}};", header, re.DOTALL)[1])  # type: ignore[index]
    lines = [re.fullmatch(r"(?:const )?(\w+[ *]+)(.*)", line.strip()) for line in body.split(";") if line.strip()]
    named = [(line[1].strip(), each) for line in lines if line for each in line[2].split(", ")]
    kinds = {"int32_t": c_int32, "int64_t": c_int64, "double": c_double}
    names = ("ch_matrix", "ch_norm", "ch_encoder_layer", "ch_decoder_layer", "ch_shape", "ch_search")
    ours = dict(zip(names, native_structures.STRUCTURES, strict=True))
    fields = [(each[0].rstrip("_"), each[1]) for each in ours[name]._fields_]
    wanted = {"in": "inputs"}
    assert [field for field, _ in fields] == [wanted.get(each, each) for _, each in named]
    for (field, kind), (text, _) in zip(fields, named, strict=True):
        assert kinds.get(text, kind) is kind, field
        assert not text.endswith("*") or kind is c_void_p or issubclass(kind, ctypes._Pointer), field


def test_the_best_set_is_taken_unless_another_is_asked_for(native: Library) -> None:
    code = "from clearhead.engine.library import *; print(library().level)"

    def chosen(wish: str) -> str:
        environment = {**os.environ, "CLEARHEAD_NATIVE": wish}
        return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True).stdout

    assert chosen("") == native.levels()[0] + "\n"
    assert chosen("portable") == "portable\n"


@pytest.mark.skipif(not Path("/proc/cpuinfo").exists(), reason="reads /proc/cpuinfo")
def test_the_sets_are_those_of_the_processor(native: Library) -> None:
    found = re.search(r"^flags\s*: (.*)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
    flags = set(found[1].split()) if found else set()
    wanted = {
        "avx512": {"avx512f", "avx512bw", "avx512vl", "avx512dq", "avx512_vnni", "fma"},
        "avx2": {"avx2", "fma"},
        "portable": set(),
    }
    assert native.levels() == tuple(level for level in LEVELS if wanted[level] <= flags)


def test_every_set_can_be_selected_and_no_other(native: Library) -> None:
    for level in native.levels():
        assert native.select(level)
        assert native.level == level
    assert not native.select("avx1024")
    assert native.level == native.levels()[-1]


def aligned(shape: tuple[int, ...], kind: type) -> np.ndarray:
    """Zeros at the start of a cache line."""
    size = int(np.prod(shape)) * np.dtype(kind).itemsize
    room = np.zeros(size + 64, np.uint8)
    start = -room.ctypes.data % 64
    return room[start : start + size].view(kind).reshape(shape)


def place(array: np.ndarray) -> int:
    return array.ctypes.data


def test_every_function_takes_its_arguments_in_this_order(native: Library) -> None:
    # A panel has 64 columns; bf16 puts 2 and int8 puts 4 numbers into a word of 4 bytes, f64 has words of 8.
    assert [native.packed_bytes(kind, 70, 3) for kind in range(4)] == [1536, 1024, 512, 3072]
    outputs, inputs, rows = 70, 3, 2
    generator = np.random.default_rng(7)
    weight = generator.integers(-9, 9, (outputs, inputs)).astype(np.float32)
    x = generator.integers(-9, 9, (rows, inputs)).astype(np.float32)
    words, bias = aligned((native.packed_bytes(0, outputs, inputs),), np.uint8), aligned((128,), np.float32)
    bias[:outputs] = generator.integers(-9, 9, outputs)
    assert native.pack(0, place(weight), outputs, inputs, place(words), None, None) == 1
    y, ids, table = np.zeros((rows, 128), np.float32), np.array([69, 0, 5], np.int32), np.zeros((3, inputs), np.float32)
    arguments = (0, place(words), None, None)
    assert native.product(*arguments, place(bias), outputs, inputs, place(x), rows, place(y), 1) == 1
    assert np.array_equal(y[:, :outputs], x @ weight.T + bias[:outputs])  # whole numbers: exact
    native.embed(*arguments, outputs, inputs, place(ids), 3, place(table))
    assert np.array_equal(table, weight[ids])
    weight[1, 1] = np.nan
    assert native.pack(0, place(weight), outputs, inputs, place(words), None, None) == 0
