"""Terms are found where a reader would find them, fast, and their tokens spell them inside a sentence."""

import random
import re
import time

import pytest

from clearhead.base.errors import DataError
from clearhead.text.glossary import LONGEST_TERM, Glossary, Term, missing_terms, phrase_tokens
from clearhead.text.placeholders import find_placeholders
from clearhead.text.tokenizer import Tokenizer, TokenizerConfig, Tokenizers
from tests.unit.text.conftest import Pair


def glossary(*terms: str) -> Glossary:
    """Each term as "source=TARGET"; with a star before it, in any case."""
    split = [term.removeprefix("*").split("=") for term in terms]
    return Glossary(
        [Term(source, target, written.startswith("*")) for written, (source, target) in zip(terms, split, strict=True)]
    )


@pytest.mark.parametrize(
    ("terms", "text", "expected"),
    [
        (["cat=K"], "a cat, cats, tomcat; cat", ["cat", "cat"]),
        (["cat=K"], "Cat CAT", []),
        (["*cat=K"], "Cat CAT cats", ["Cat", "CAT"]),
        (["*straße=road"], "STRASSE Straße", ["STRASSE", "Straße"]),
        (["cat=K", "cat flap=KK", "flap=F"], "a cat flap and a flap", ["cat flap", "flap"]),
        (["a b c=1", "b=2"], "a b d", ["b"]),  # the longer one fails, and what it passed over is looked at again
        (["e-mail=E"], "an e-mail, an e-mailer", ["e-mail"]),
        (["C++=C"], "C++ and C+", ["C++"]),
        ([".NET=N"], "the .NET framework", [".NET"]),
        (["cat=K"], "the cat's (cat) “cat”", ["cat", "cat", "cat"]),
        (["cat=K"], "cat2 cat_3 2cat", []),
        (["naïve=N"], "naïve naïves", ["naïve"]),
        (["nai=N"], "nai\u0308ve nai", ["nai"]),  # a combining mark belongs to the letter before it
        (["数据=D", "数据库=B"], "用数据库存数据。", ["数据库", "数据"]),
        (["模型=M"], "GPT模型v2", ["模型"]),
        (["GPT=G"], "用GPT模型", ["GPT"]),
        (["サーバー=S"], "このサーバーは", ["サーバー"]),
        (["เซิร์ฟเวอร์=S"], "รีสตาร์ทเซิร์ฟเวอร์แล้ว", ["เซิร์ฟเวอร์"]),
        (["name=N", "user=U"], "{name}: the user {user} %(name)s <b>name</b> &user;", ["user", "name"]),
        (["a b=1"], "a {x} b a %s b", []),
        (["server=S"], "", []),
        ([], "anything", []),
    ],
)
def test_what_matches(terms: list[str], text: str, expected: list[str]) -> None:
    assert [source for source, _ in glossary(*terms).matches(text)] == expected


def test_a_match_comes_with_its_translation_and_the_exact_one_goes_first() -> None:
    found = glossary("*server=any", "Server=exact", "*Mail Server=both").matches("server Server SERVER mail server")
    assert found == [("server", "any"), ("Server", "exact"), ("SERVER", "any"), ("mail server", "both")]


def test_matching_is_leftmost_longest_at_word_boundaries() -> None:
    """Against a regular expression that says so, on random texts of few words."""
    draw = random.Random(5)
    words = ["a", "ab", "b", "c-c", "ä"]
    for _ in range(200):
        terms = {" ".join(draw.choices(words, k=draw.randint(1, 3))) for _ in range(4)}
        text = draw.choice(["", " "]).join(draw.choices([*words, " ", ",", " ", "{ab}"], k=12))
        alternatives = "|".join(re.escape(term) for term in sorted(terms, key=len, reverse=True))
        expression = re.compile(rf"\{{ab\}}|(?<!\w)(?:{alternatives})(?!\w)")
        expected = [match for match in expression.findall(text) if not find_placeholders(match)]
        assert [source for source, _ in glossary(*(f"{t}=x" for t in terms)).matches(text)] == expected, (terms, text)


def test_terms_are_counted_once() -> None:
    assert len(glossary("a=1", "a=1", "*A=2", "*a=2", "b=3")) == 3


@pytest.mark.parametrize(
    ("term", "message"),
    [
        (Term("", "x"), "source side is empty"),
        (Term("x", " "), "target side is empty .to keep a term as it is"),
        (Term("x" * (LONGEST_TERM + 1), "x"), "source side has 201 characters; a term has at most 200"),
        (Term("Hello {name}", "x"), "holds the placeholder '{name}'"),
    ],
)
def test_what_is_no_term_is_refused(term: Term, message: str) -> None:
    with pytest.raises(DataError, match=message):
        Glossary([Term("fine", "gut"), term])


def test_two_translations_of_one_term_are_refused() -> None:
    with pytest.raises(DataError, match="'Server' has two translations, 'a' and 'b'"):
        glossary("*server=a", "*Server=b")


def seconds(terms: Glossary, text: str) -> float:
    best = float("inf")
    for _ in range(3):
        start = time.process_time()
        terms.matches(text)
        best = min(best, time.process_time() - start)
    return best


@pytest.mark.parametrize(
    ("terms", "unit"),
    [
        (["a " * 99 + "b=x"], "a "),  # always the beginning of a term, never its end
        (["好" * 199 + "坏=x"], "好"),
        (["a=x"], "a\u0301"),
        (["x=x"], "{{"),
        (["x=x"], "<"),
    ],
    ids=["words", "characters", "marks", "braces", "tags"],
)
def test_time_grows_in_proportion_to_the_text(terms: list[str], unit: str) -> None:
    found = glossary(*terms)
    seconds(found, unit * 200)
    short, long = seconds(found, unit * 1_000), seconds(found, unit * 8_000)
    assert long < 8 * short * 2.5 + 0.01  # a quadratic one takes 64 times as long


def test_ten_thousand_terms_cost_no_more_than_ten() -> None:
    text = "word1 other word7 thing " * 500
    few = glossary(*(f"word{n}=x" for n in range(10)))
    many = glossary(*(f"word{n}=x" for n in range(10_000)))
    assert seconds(many, text) < 3 * seconds(few, text) + 0.01
    assert len(many.matches(text)) == 1000


def test_what_is_missing_in_a_translation() -> None:
    assert missing_terms("Der Server, der Server", ["Server", "Server", "Dienst"]) == ["Dienst"]
    assert missing_terms("Der Server", ["Server", "Server"]) == ["Server"]
    assert missing_terms("", []) == []


# ------------------------------------------------------------------------------------------- tokens of a term


@pytest.fixture(scope="module")
def chinese() -> Tokenizers:
    draw = random.Random(2)
    words = ["数据", "数据库", "服务器", "的", "是", "在", "中", "文件", "打开", "关闭", "请", "新", "API", "网络"]

    def sentence() -> str:
        return "".join(draw.choices(words, k=draw.randint(3, 9))) + draw.choice(["。", "！"])

    return Tokenizers.train(
        TokenizerConfig(vocab_size=400, character_coverage=1.0), lambda: [(sentence(), sentence()) for _ in range(800)]
    )


@pytest.mark.parametrize("name", ["bpe", "unigram", "bpe with symbols", "bpe a side"])
@pytest.mark.parametrize("term", ["kato", "renstoler und qua", "Zürich é", "<b>", "42 pa", "\u2581x"])
def test_tokens_of_a_spaced_term_spell_it_at_every_place(trained: dict[str, Tokenizers], name: str, term: str) -> None:
    tokenizer = trained[name].target
    phrase = phrase_tokens(tokenizer, term, "Latn")
    before, after = tokenizer.encode("mischi ka"), tokenizer.encode("to pa.")
    assert tokenizer.decode([*before, *phrase, *after]) == f"mischi ka {term} to pa."
    assert tokenizer.decode([*phrase, *after]) == f"{term} to pa."
    # The pieces are those of the term within a sentence, not spelt otherwise because it stands alone.
    assert tokenizer.encode(f"mischi ka {term} to pa.") == [*before, *phrase, *after]


@pytest.mark.parametrize("term", ["数据库", "服务器", "API", "鑫", "新API网络"])
def test_tokens_of_an_unspaced_term_bring_no_space(chinese: Tokenizers, term: str) -> None:
    tokenizer = chinese.target
    phrase = phrase_tokens(tokenizer, term, "Hans")
    before, after = tokenizer.encode("请打开"), phrase_tokens(tokenizer, "。", "Hans")
    assert tokenizer.decode([*before, *phrase, *after]) == f"请打开{term}。"
    assert tokenizer.decode([*phrase, *after]) == f"{term}。"
    # The control: encoded as in a spaced script, the term is torn off.
    assert tokenizer.decode([*before, *phrase_tokens(tokenizer, term, "Latn"), *after]) == f"请打开 {term}。"


def test_a_term_that_cannot_be_spelt_is_refused(pairs: list[Pair]) -> None:
    config = TokenizerConfig(vocab_size=300, byte_fallback=False)
    tokenizer: Tokenizer = Tokenizers.train(config, lambda: pairs).target
    with pytest.raises(DataError, match="'Ω' has characters that the model's vocabulary cannot spell"):
        phrase_tokens(tokenizer, "Ω", "Latn")
    with pytest.raises(DataError, match="cannot spell"):
        phrase_tokens(tokenizer, "Ω", "Hans")
    assert phrase_tokens(tokenizer, "ka", "Hans")
