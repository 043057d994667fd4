"""Whether the texts of a held-out file also stand in a corpus, exactly or nearly."""

from collections.abc import Iterable
from hashlib import blake2b

from clearhead.data.filescan import Sightings
from clearhead.data.split import normal_key

__all__ = ["HeldOut", "hash_text"]


def hash_text(text: str) -> int:
    """A 64-bit hash of a text, the same in every process."""
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


class HeldOut:
    """The different texts of a held-out file, looked up on one side of a corpus.

    Near means that `normal_key` is the same while the text is not. Blank texts are never looked up, and texts without
    a key (only digits, placeholders, punctuation) only exactly.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self._key_of = {hash_text(text): _key_hash(text) for text in texts if text.strip()}
        self._keys = set(self._key_of.values()) - {None}
        self._exact: set[int] = set()
        self._near: set[int] = set()
        self.exact_lines, self.near_lines = Sightings(), Sightings()

    def __len__(self) -> int:
        return len(self._key_of)

    def look(self, line: int, exact: int, key: int | None) -> None:
        """Look up the text of a corpus line, given as `hash_text` of it and of its key (None without one)."""
        if exact in self._key_of:
            self._exact.add(exact)
            self.exact_lines.add(line)
        elif key is not None and key in self._keys:
            self._near.add(key)
            self.near_lines.add(line)

    @property
    def exact(self) -> int:
        """How many held-out texts stand in the corpus."""
        return len(self._exact)

    @property
    def near(self) -> int:
        """How many more stand there nearly."""
        return len(self._near - {self._key_of[text] for text in self._exact})


def _key_hash(text: str) -> int | None:
    key = normal_key(text)
    return hash_text(key) if key else None
