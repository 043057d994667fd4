"""Look over the table by which a SentencePiece model changes characters before its C++ reader walks it.

The table (Unicode's NFKC, say) is a double-array trie (Aoe 1989) in the layout of Darts-clone, behind its size, and
before the texts that it leads to. The reader follows its steps without looking where they lead.
"""

import sys
from array import array

__all__ = ["check_character_map"]

_IS_LEAF = 1 << 31
_BLOCK = 0xFF  # a step goes to one of the 256 units whose numbers differ in the last byte alone


def check_character_map(table: bytes) -> None:
    """Refuse a table of which a step or a result would lie outside.

    Raises:
        ValueError: saying what is wrong.
    """
    size = int.from_bytes(table[:4], "little")
    if len(table) < 4 or size == 0 or size % 4 or 4 + size >= len(table):
        raise ValueError(f"a table of characters of {len(table):,} bytes that declares {size:,}")
    units = array("I")
    units.frombytes(table[4 : 4 + size])
    if sys.byteorder == "big":
        units.byteswap()
    texts = len(table) - 4 - size
    if table[-1] != 0:
        raise ValueError("a table of characters whose texts do not end")
    for place, unit in enumerate(units):
        if unit & _IS_LEAF:
            continue
        start = place ^ (unit >> 10 << ((unit & 0x200) >> 6))
        if start | _BLOCK >= len(units):
            raise ValueError(f"a table of characters that leads outside at unit {place}")
        if unit & 0x100 and units[start] & ~_IS_LEAF >= texts:
            raise ValueError(f"a table of characters with a result outside at unit {place}")
