"""Made-up parallel text of which every link between words is known: copying, reversing, sorting, and a small language.

The language (`Language`) has a dictionary and an order of words of its own. Its words are made of syllables and mean
nothing, so nothing that a model learnt elsewhere helps. Everything follows from seeds; each pair has a generator of its
own, so that the n-th pair is the same however many are asked for.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from clearhead.base.errors import InputError
from clearhead.base.seeds import python_rng

__all__ = ["Language", "Link", "LinkedPair", "copied", "reversed_pairs", "sorted_pairs"]

Link = tuple[int, int]
"""A word of the source and a word of the target, counted from 0."""

ONSETS = ("b", "d", "f", "g", "k", "l", "m", "n", "p", "r", "s", "t", "v", "z")
VOWELS = ("a", "e", "i", "o", "u")
SYLLABLES = ["".join(parts) for parts in product(ONSETS, VOWELS)]
"""Seventy. Words of the source are two or three of them; those of the target end in `ENDING`, so that none is both."""
ENDING = "x"

_WORDS, _PAIR = 1, 2
"""What a generator is for, beside the seed."""


@dataclass(frozen=True)
class LinkedPair:
    """A sentence, its translation, and which word belongs to which, as (source, target) counted from 0.

    `possible` holds the sure links as well (Och and Ney 2003, "Evaluation Methodology").
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    sure: frozenset[Link]
    possible: frozenset[Link]

    @property
    def gold(self) -> str:
        """The links as a line of a gold standard, `i-j` sure and `i?j` possible, as `formats.pharaoh` reads it.

        >>> LinkedPair(("le", "chat"), ("cat",), frozenset({(1, 0)}), frozenset({(0, 0), (1, 0)})).gold
        '0?0 1-0'
        """
        return " ".join(f"{i}-{j}" if (i, j) in self.sure else f"{i}?{j}" for i, j in sorted(self.possible))


def copied(count: int, seed: int, *, words: int = 32, lengths: tuple[int, int] = (3, 15)) -> Iterator[LinkedPair]:
    """`count` sentences of `words` different words, each its own translation; lengths from .. to, both inclusive.

    >>> [" ".join(pair.target) == " ".join(pair.source) for pair in copied(2, seed=1)]
    [True, True]
    """
    return _permuted(count, seed, words, lengths, lambda sentence: list(range(len(sentence))))


def reversed_pairs(
    count: int, seed: int, *, words: int = 32, lengths: tuple[int, int] = (3, 15)
) -> Iterator[LinkedPair]:
    """The same, each translated by itself read backwards."""
    return _permuted(count, seed, words, lengths, lambda sentence: list(reversed(range(len(sentence)))))


def sorted_pairs(count: int, seed: int, *, words: int = 32, lengths: tuple[int, int] = (3, 15)) -> Iterator[LinkedPair]:
    """The same, each translated by its words in order of the alphabet; equal words keep their order."""
    return _permuted(count, seed, words, lengths, lambda text: sorted(range(len(text)), key=text.__getitem__))


def _permuted(
    count: int, seed: int, words: int, lengths: tuple[int, int], order: Callable[[Sequence[str]], list[int]]
) -> Iterator[LinkedPair]:
    """Sentences of which the translation is a rearrangement: target word j is source word order[j]."""
    _check_lengths(lengths, least=1)
    vocabulary = _invent(words, python_rng(seed, _WORDS))
    for number in range(count):
        rng = python_rng(seed, _PAIR, number)
        source = tuple(rng.choices(vocabulary, k=rng.randint(*lengths)))
        places = order(source)
        links = frozenset((place, j) for j, place in enumerate(places))
        yield LinkedPair(source, tuple(source[place] for place in places), links, links)


@dataclass(frozen=True)
class Language:
    """A dictionary and the classes of its words; `made_up` invents one, `pairs` writes in it.

    A sentence is one clause or several, joined by the conjunction; a clause is a noun phrase, a verb, and often a
    second noun phrase; a noun phrase is a noun, often with the article and up to two adjectives before it. The
    translation differs in four ways:

    - adjectives follow their noun, the nearest first: *article a₁ a₂ noun* becomes *noun a₂ a₁*;
    - the verb stands at the end of its clause, behind what followed it;
    - the article has no translation: its link to the noun of its phrase is possible, not sure;
    - some words are two words there, side by side: both links are sure.

    No noun, verb or adjective stands twice in a sentence, so a link can be told from the words alone.

    Attributes:
        nouns, verbs, adjectives: words of the source; the first are the most frequent, roughly as 1/rank.
        article, conjunction: one word each.
        dictionary: source word → its one or two target words; nothing for the article.
    """

    nouns: tuple[str, ...]
    verbs: tuple[str, ...]
    adjectives: tuple[str, ...]
    article: str
    conjunction: str
    dictionary: dict[str, tuple[str, ...]]

    @classmethod
    def made_up(cls, seed: int, *, words: int = 120, double: float = 0.15) -> "Language":
        """A language of `words` words that have a meaning, half of them nouns; a share `double` are two in the target.

        Raises InputError unless there are 60 words or more (a long sentence uses many of them once) and at most 4,000,
        and 0 ≤ double ≤ 1.
        """
        if not 60 <= words <= 4000:
            raise InputError(f"{words} words: a made-up language has from 60 to 4,000")
        if not 0 <= double <= 1:
            raise InputError(f"double {double}: the share of words that become two is from 0 to 1")
        rng = python_rng(seed, _WORDS)
        article, conjunction, *source = _invent(words + 2, rng)
        target = iter(_invent(2 * words + 1, rng, ending=ENDING))
        dictionary = {article: (), conjunction: (next(target),)}
        for word in source:
            dictionary[word] = tuple(next(target) for _ in range(2 if rng.random() < double else 1))
        nouns, verbs = words // 2, words // 4
        return cls(
            tuple(source[:nouns]),
            tuple(source[nouns : nouns + verbs]),
            tuple(source[nouns + verbs :]),
            article,
            conjunction,
            dictionary,
        )

    def pairs(self, count: int, seed: int, *, lengths: tuple[int, int] = (3, 15)) -> Iterator[LinkedPair]:
        """`count` sentences of `lengths` words, from .. to, both inclusive; no more than 24, no fewer than 3.

        The lengths are those of the source. Different seeds give different sentences, for training and for testing.
        """
        _check_lengths(lengths, least=3)
        if lengths[1] > 24:
            raise InputError(f"lengths up to {lengths[1]}: the sentences of a made-up language have at most 24 words")
        for number in range(count):
            rng = python_rng(seed, _PAIR, number)
            wanted = rng.randint(*lengths)
            yield self._translated(_Writer(self, rng).sentence(wanted))

    def _translated(self, clauses: "list[_Clause]") -> LinkedPair:
        """The sentence in both languages: what the source has in its order, the target in its own."""
        source: list[str] = []
        order: list[int] = []  # places in the source, as the target takes them up
        articles: list[Link] = []  # (place of an article, place of its noun)
        for clause in clauses:
            first, verb, second = (self._placed(part, source, articles) for part in clause)
            order += [*first, *second, *verb]
        target: list[str] = []
        sure: set[Link] = set()
        for place in order:
            for word in self.dictionary[source[place]]:
                sure.add((place, len(target)))
                target.append(word)
        loose = {(article, j) for article, noun in articles for i, j in sure if i == noun}
        return LinkedPair(tuple(source), tuple(target), frozenset(sure), frozenset(sure | loose))

    def _placed(self, part: tuple[str, ...], source: list[str], articles: list[Link]) -> list[int]:
        """Write a part of a clause into the source; its places in the order of the target.

        The conjunction stays in front, all else is turned round: the noun, then its adjectives from the nearest on.
        """
        start, lead = len(source), int(part[:1] == (self.conjunction,))
        source += part
        if part[lead : lead + 1] == (self.article,):
            articles.append((start + lead, len(source) - 1))
        return [*range(start, start + lead), *reversed(range(start + lead, len(source)))]


_Clause = tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]
"""A noun phrase (the conjunction before it from the second clause on), a verb, and a noun phrase or nothing."""


class _Writer:
    """Writes one sentence, no noun, verb or adjective twice."""

    def __init__(self, language: Language, rng: random.Random) -> None:
        self.language = language
        self.rng = rng
        self.used: set[str] = set()

    def sentence(self, length: int) -> list[_Clause]:
        """Clauses of `length` words together."""
        clauses: list[_Clause] = []
        rest = length
        while rest:
            joined = bool(clauses)
            # A clause with its conjunction has 3 to 10 words; what it leaves must again be none or 3 at least.
            sizes = [size for size in range(3, min(rest, 9 + joined) + 1) if rest - size == 0 or rest - size >= 3]
            size = self.rng.choice(sizes)
            clauses.append(self._clause(size, joined=joined))
            rest -= size
        return clauses

    def _clause(self, size: int, *, joined: bool) -> _Clause:
        lead = (self.language.conjunction,) if joined else ()
        size -= len(lead) + 1  # without the verb
        if size > 4 or (size > 1 and self.rng.random() < 0.7):
            first = self.rng.randint(max(1, size - 4), min(4, size - 1))
        else:
            first = size
        subject = (*lead, *self._phrase(first))
        verb = (self._word(self.language.verbs),)
        return subject, verb, self._phrase(size - first) if size > first else ()

    def _phrase(self, size: int) -> tuple[str, ...]:
        """A noun phrase of 1 to 4 words: article or not, adjectives, noun."""
        article = size == 4 or (size > 1 and self.rng.random() < 0.6)
        adjectives = [self._word(self.language.adjectives) for _ in range(size - 1 - article)]
        return (*([self.language.article] if article else []), *adjectives, self._word(self.language.nouns))

    def _word(self, words: Sequence[str]) -> str:
        """One that has not been used yet, the r-th with weight 1/(r + 2)."""
        free = [(word, 1 / (rank + 3)) for rank, word in enumerate(words) if word not in self.used]
        word = self.rng.choices([word for word, _ in free], [weight for _, weight in free])[0]
        self.used.add(word)
        return word


def _invent(count: int, rng: random.Random, *, ending: str = "") -> list[str]:
    """`count` different words of two or three syllables."""
    words: dict[str, None] = {}
    while len(words) < count:
        words["".join(rng.choices(SYLLABLES, k=rng.choice((2, 2, 3)))) + ending] = None
    return list(words)


def _check_lengths(lengths: tuple[int, int], *, least: int) -> None:
    if not least <= lengths[0] <= lengths[1]:
        raise InputError(
            f"lengths {lengths[0]} to {lengths[1]}: the first is at least {least} and not above the second"
        )
