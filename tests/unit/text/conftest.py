"""Text to learn from: real sentences where the data set is at hand, made-up ones everywhere."""

import lzma
from pathlib import Path
from random import Random

import pytest

from clearhead.text.tokenizer import TokenizerConfig, Tokenizers

MULTI30K = Path(__file__).parents[4] / "shared" / "data" / "multi30k"
SYMBOLS = ("{name}", "{n", "a,b", '"x"', "日本", "é", "<b>", "%(x)s")

Pair = tuple[str, str]


def made_up_pairs(count: int, seed: int = 0) -> list[Pair]:
    """Sentences with Zipf-like words, in Latin script on one side and with Chinese and accents on the other."""
    rng = Random(seed)
    syllables = ["ka", "to", "mi", "ren", "stol", "er", "und", "qua", "schi", "é", "ü", "pa", "low", "ing"]
    words = ["".join(rng.choices(syllables, k=rng.randint(1, 4))) for _ in range(400)]
    ideographs = [chr(0x4E00 + 7 * i) for i in range(60)]

    def sentence() -> str:
        return " ".join(words[min(int(rng.paretovariate(0.6)) - 1, 399)] for _ in range(rng.randint(2, 12)))

    return [
        (f"{sentence()}.", f"{sentence()} {''.join(rng.choices(ideographs, k=5))}，{rng.randint(0, 99)}")
        for _ in range(count)
    ]


@pytest.fixture(scope="session")
def pairs() -> list[Pair]:
    return made_up_pairs(1500)


@pytest.fixture(scope="session")
def texts() -> list[str]:
    """What to encode in a comparison: held-out made-up text and, where it is there, Multi30k."""
    chosen = [side for pair in made_up_pairs(500, seed=1) for side in pair]
    for language in ("en", "de"):
        path = MULTI30K / f"val.{language}.xz"
        if path.exists():
            chosen += lzma.decompress(path.read_bytes()).decode("utf-8").split("\n")[:500]
    return [text for text in chosen if text]


@pytest.fixture(scope="session")
def trained(pairs: list[Pair]) -> dict[str, Tokenizers]:
    def train(**settings: object) -> Tokenizers:
        config = TokenizerConfig.model_validate({"vocab_size": 700, **settings})
        return Tokenizers.train(config, lambda: pairs)

    return {
        "bpe": train(),
        "bpe with symbols": train(symbols=SYMBOLS, split_digits=True),
        "unigram": train(kind="unigram", vocab_size=500),
        "unigram with symbols": train(kind="unigram", vocab_size=500, symbols=SYMBOLS),
        "bpe a side": train(joint=False, vocab_size=450),
    }
