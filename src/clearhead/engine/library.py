"""The native library's door: finds it beside this module, chooses the instruction set, and says why it is absent.

It is a shared library with a plain C interface (native/api.h), which setup.py compiles where there is a C++ compiler.
It is called by way of ctypes, which releases the interpreter lock for as long as a call lasts. Without it everything
works in PyTorch. The environment variable CLEARHEAD_NATIVE, read once, turns it off ("0") or names the instruction set.
"""

import ctypes
import functools
import os
import struct
import threading
from collections.abc import Callable
from ctypes import c_char_p, c_int32, c_size_t, c_void_p
from pathlib import Path
from typing import NoReturn

__all__ = ["LEVELS", "VARIABLE", "VERSION", "Library", "absence", "library", "misspelt", "unusable"]

VARIABLE = "CLEARHEAD_NATIVE"
# Of native/api.h; a library of another version may read our structures wrongly.
VERSION = 1
# The instruction sets that a library may have, the widest first.
LEVELS = ("avx512", "avx2", "portable")

_FILE = Path(__file__).parent / "_native.so"
_CHECKOUT = Path(__file__).parents[3]
_REBUILD = (
    f"`python setup.py build_ext --inplace` in {_CHECKOUT} builds it, or says why it cannot"
    if (_CHECKOUT / "setup.py").is_file()
    else "install a C++ compiler (g++ or clang++), then clearhead anew"
)
_LOCK = threading.Lock()

# Of each function what it returns and takes, as native/api.h has it; native.py declares those of models and sessions.
_TYPES: dict[str, tuple[type | None, tuple[type, ...]]] = {
    "ch_version": (c_int32, ()),
    "ch_level": (c_char_p, ()),
    "ch_select": (c_int32, (c_char_p,)),
    "ch_packed_bytes": (c_size_t, (c_int32,) * 3),
    "ch_pack": (c_int32, (c_int32, c_void_p, c_int32, c_int32, *(c_void_p,) * 3)),
    "ch_product": (c_int32, (c_int32, *(c_void_p,) * 4, c_int32, c_int32, c_void_p, c_int32, c_void_p, c_int32)),
    "ch_embed": (None, (c_int32, *(c_void_p,) * 3, c_int32, c_int32, c_void_p, c_int32, c_void_p)),
}


class Library:
    """The loaded library. Safe to call from many threads at once.

    `packed_bytes`, `pack`, `product` and `embed` are the functions ch_packed_bytes, ch_pack, ch_product and ch_embed of
    native/api.h: the same arguments in the same order, pointers as integers (`Tensor.data_ptr()`) or None. Nothing is
    checked on the way: sizes, types and alignment are the caller's care, and memory must live until the call returns.

    Args:
        handle: The loaded file; a missing function is an AttributeError.
    """

    def __init__(self, handle: ctypes.CDLL) -> None:
        self.handle = handle
        functions = {name: _declare(handle, name) for name in _TYPES}
        self.packed_bytes = functions["ch_packed_bytes"]
        self.pack = functions["ch_pack"]
        self.product = functions["ch_product"]
        self.embed = functions["ch_embed"]
        # Found out before anybody else has the library, since asking means taking it into use.
        best = self.level
        self._levels = tuple(level for level in LEVELS if self.select(level))
        self.select(best)

    def __reduce__(self) -> NoReturn:
        raise TypeError("what runs in the native library cannot be pickled: load the bundle in the other process")

    @property
    def level(self) -> str:
        """The instruction set in use, one of `LEVELS`."""
        return str(self.handle.ch_level().decode())

    def levels(self) -> tuple[str, ...]:
        """The instruction sets that this processor and this build both have, the widest first."""
        return self._levels

    def select(self, level: str) -> bool:
        """Use another instruction set in all calls that begin from now on; False, and no change, if it is not there.

        Packed matrices serve every set; results may differ from those of another in their last bits.
        """
        return bool(self.handle.ch_select(level.encode()))


def library() -> Library | None:
    """The native library, loaded on the first call; None where there is none, and then `absence` says why."""
    outcome = _outcome()
    return outcome if isinstance(outcome, Library) else None


def absence() -> str | None:
    """Why there is no native library, in words that follow "no native library: "; None where there is one."""
    outcome = _outcome()
    return outcome if isinstance(outcome, str) else None


def misspelt() -> str | None:
    """What is wrong with the environment variable, if it names nothing that there is: a mistake of the user's."""
    return _mistake(os.environ.get(VARIABLE, ""))


def _mistake(wish: str) -> str | None:
    known = wish in ("", "0", *LEVELS)
    return None if known else f"{VARIABLE} is {wish!r}, but must be one of: 0, {', '.join(LEVELS)}"


def unusable() -> str | None:
    """Why a library that was installed is not used, unless it was turned off: something to warn of."""
    turned_off = os.environ.get(VARIABLE, "") == "0"
    return None if turned_off or not _FILE.is_file() else absence()


def _outcome() -> Library | str:
    with _LOCK:  # the cache alone would let two threads load, and find out the levels, at once
        return _load_once()


@functools.cache
def _load_once() -> Library | str:
    return _load(_FILE, os.environ.get(VARIABLE, ""))


def _load(file: Path, wish: str) -> Library | str:
    """The library in `file` as `wish` (the environment variable, "" if unset) wants it, or why there is none."""
    if wish == "0":
        return f"turned off by {VARIABLE}=0"
    if mistake := _mistake(wish):
        return mistake
    if not file.is_file():
        return f"clearhead was installed without it; {_REBUILD}"
    try:
        if _is_cut_off(file):
            return f"{file} is damaged: its end is missing; {_REBUILD}"
        handle = ctypes.CDLL(str(file))
        version = _declare(handle, "ch_version")()
        if version != VERSION:
            return f"{file} has version {version} of its interface, and version {VERSION} is wanted; {_REBUILD}"
        loaded = Library(handle)
    except (OSError, AttributeError) as error:  # not a library for this machine, damaged, or without a function
        return f"{file} cannot be loaded ({error}); {_REBUILD}"
    if wish and not loaded.select(wish):
        return f"{VARIABLE} asks for {wish}, but this processor or this build has only: {', '.join(loaded.levels())}"
    return loaded


def _is_cut_off(file: Path) -> bool:
    """Whether an ELF file is shorter than its header says; to load one ends the process (SIGBUS)."""
    with file.open("rb") as stream:
        header = stream.read(64)
    if len(header) < 64 or header[:5] != b"\x7fELF\x02":
        return False  # the loader refuses it, or it is another system's kind of library
    # The table of sections, with which linkers end a file: its place, and the size and number of its entries.
    place, size, number = struct.unpack_from("=Q10xHH", header, 40)
    return bool(file.stat().st_size < place + size * number)


def _declare(handle: ctypes.CDLL, name: str) -> Callable[..., int]:
    """The function `name` of the library with its types; an AttributeError if it has none."""
    function = getattr(handle, name)
    function.restype, function.argtypes = _TYPES[name]
    return function  # type: ignore[no-any-return]
