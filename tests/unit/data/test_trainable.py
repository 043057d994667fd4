"""What `data check` says that training would use is what the token store keeps."""

import random

from clearhead.data.store import build_store
from clearhead.data.trainable import CHUNK, TrainCount, TrainLimits


class Words:
    """A tokenizer whose tokens are words."""

    vocab_size = 100
    fingerprint = "words"

    def encode(self, text: str) -> list[int]:
        return [5] * len(text.split())

    def encode_all(self, texts, threads: int = 1) -> list[list[int]]:
        return [self.encode(text) for text in texts]

    def encode_sampled(self, text: str, key: int) -> list[int]:
        return self.encode(text)

    @property
    def source(self):
        return self

    @property
    def target(self):
        return self


class Settings:
    max_length = 7


def test_the_counts_are_those_of_the_store(tmp_path):
    rng = random.Random(1)
    pairs = [tuple(rng.choice(["", " ", "a", "b " * 7, "c " * 8]) for _ in range(2)) for _ in range(CHUNK * 2 + 5)]
    store = build_store(lambda: pairs, Words(), Settings(), tmp_path)
    count = TrainCount(TrainLimits(Words(), 7, "words"))
    for pair in pairs:
        count.add(*pair)
    told = count.to_dict()
    assert told["kept"] == len(store)
    assert told["dropped"] == store.report.counts | {"needs-review": 0}
    assert "more than 7 tokens of words" in told["by"]


def test_without_a_tokenizer_only_blank_sides_count_and_the_report_says_so():
    count = TrainCount()
    for pair in (("a", "b"), ("", ""), ("a", " "), ("a " * 999, "b")):
        count.add(*pair)
    count.add("fuzzy", "ungewiss", review=True)
    assert count.to_dict() == {
        "by": "blank sides only",
        "kept": 2,
        "dropped": {"empty-source": 1, "empty-target": 1, "needs-review": 1},
    }
