"""Whether the texts of a held-out file also stand in a corpus, exactly or nearly."""

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import blake2b
from typing import Literal

from clearhead.data.filescan import Sightings
from clearhead.data.split import normal_key

__all__ = ["HeldOut", "Overlap", "hash_text"]


def hash_text(text: str) -> int:
    """A 64-bit hash of a text, the same in every process."""
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


class HeldOut:
    """The different texts of a held-out file, looked up on one side of a corpus.

    Near means that `normal_key` is the same while the text is not. Blank texts are never looked up, and texts without
    a key (only digits, placeholders, punctuation) only exactly.
    """

    def __init__(self, texts: Iterable[str]) -> None:
        self._texts: set[int] = set()
        self._keys: set[int] = set()
        for text in texts:
            if text.strip():
                self._texts.add(hash_text(text))
                if (key := _key_hash(text)) is not None:
                    self._keys.add(key)
        self._exact: set[int] = set()
        self._exact_keys: set[int | None] = set()
        self._near: set[int] = set()
        self.exact_lines, self.near_lines = Sightings(), Sightings()

    def __len__(self) -> int:
        return len(self._texts)

    def again(self) -> "HeldOut":
        """The same texts, in the same memory, of which nothing was looked up yet."""
        other = HeldOut(())
        other._texts, other._keys = self._texts, self._keys
        return other

    def look(self, line: int, exact: int, key: int | None) -> None:
        """Look up the text of a corpus line, given as `hash_text` of it and of its key (None without one)."""
        match self.find(exact, key):
            case "exact":
                self._exact.add(exact)
                self._exact_keys.add(key)
                self.exact_lines.add(line)
            case "near" if key is not None:
                self._near.add(key)
                self.near_lines.add(line)

    def find(self, exact: int, key: int | None) -> Literal["exact", "near"] | None:
        """How a text stands in the file, given as for `look`; nothing is counted."""
        if exact in self._texts:
            return "exact"
        return "near" if key is not None and key in self._keys else None

    @property
    def exact(self) -> int:
        """How many held-out texts stand in the corpus."""
        return len(self._exact)

    @property
    def near_texts(self) -> int:
        """How many stand there nearly, whether or not they stand there exactly as well."""
        return len(self._near)

    @property
    def near(self) -> int:
        """How many more stand there nearly."""
        return len(self._near - self._exact_keys)


@dataclass(frozen=True)
class Overlap:
    """A held-out file beside both sides of a corpus, of which it evidently belongs to one.

    Words such as "Status" are the same in many languages, so that a file finds some of its texts on the other side too.
    """

    source: HeldOut
    target: HeldOut

    @classmethod
    def of(cls, texts: Iterable[str]) -> "Overlap":
        """Of the texts of a file."""
        source = HeldOut(texts)
        return cls(source, source.again())

    @property
    def on_target(self) -> bool:
        """Whether the file belongs to the target side, after the whole corpus was looked up."""
        return self.target.exact + self.target.near > self.source.exact + self.source.near

    def look(self, number: int, source: str, target: str) -> None:
        """Look up both sides of a pair, the first being number 1."""
        self.source.look(number, hash_text(source), _key_hash(source))
        self.target.look(number, hash_text(target), _key_hash(target))

    def rule(self, source: str, target: str) -> str:
        """The name of the rule that a pair breaks, once `on_target` is settled; empty if it breaks none."""
        if self.on_target:
            found = self.target.find(hash_text(target), None)
            return "held-out target in corpus" if found else ""
        names = {"exact": "held-out text in corpus", "near": "held-out text nearly in corpus", None: ""}
        return names[self.source.find(hash_text(source), _key_hash(source))]


def _key_hash(text: str) -> int | None:
    key = normal_key(text)
    return hash_text(key) if key else None
