"""Alignments through the command line: a model that has learnt to copy or to reverse has links of that shape."""

from pathlib import Path

import pytest

from tests.system.program import WORDS, clearhead, disjoint, read, settings, write

pytestmark = [pytest.mark.timeout(900), pytest.mark.xdist_group("alignments")]


@pytest.fixture(scope="module")
def learnt(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path, Path]:
    """RNNsearch over whole words that has learnt to turn a line round; its text, the gold text and the gold links."""
    where = tmp_path_factory.mktemp("alignments")
    training, held_out = disjoint(1, (3000, 100), (3, 6))
    files = {}
    for name, lines in (("train", training), ("test", held_out)):
        turned = [" ".join(reversed(line.split())) for line in lines]
        files[name] = write(where / f"{name}.src", lines), write(where / f"{name}.trg", turned)
    values = settings(
        seed=1,
        tokenizer__kind='"word"',
        tokenizer__byte_fallback="false",
        tokenizer__vocab_size=len(WORDS) + 4 - 2,  # two words are unknown
        model__encoder__embedding=64,
        model__encoder__width=64,
        model__encoder__dropout=0.0,
        model__decoder__embedding=64,
        model__decoder__width=64,
        model__decoder__dropout=0.0,
        data__batch_tokens=1024,
        training__threads=1,
        training__precision="fp32",
        training__updates=220,
        training__schedule__kind="linear",
        training__schedule__peak=0.003,
        training__schedule__warmup=50,
        training__save_every=200,
    )
    source, target = files["train"]
    start = ("train", "--source", source, "--target", target, "--languages", "en,de", "--out", where / "run")
    clearhead(*start, "--preset", "rnnsearch-tiny", *values)
    gold = [
        " ".join(f"{place}-{len(line.split()) - 1 - place}" for place in range(len(line.split()))) for line in held_out
    ]
    return where / "run", *files["test"], write(where / "gold", gold)


def error_rate(links: Path, gold: Path) -> float:
    ran = clearhead("data", "aer", links, gold)
    assert ran.lines[0].startswith("AER ")
    return float(ran.lines[0].split()[1].rstrip(","))


def test_forced_alignments_of_a_reversal_lie_on_the_other_diagonal(
    learnt: tuple[Path, Path, Path, Path], tmp_path: Path
) -> None:
    run, source, target, gold = learnt
    links, shifted = tmp_path / "links", tmp_path / "shifted"
    clearhead("score", run, "-s", source, "-t", target, "--alignments", links, "--threads", 1)
    assert len(read(links)) == len(read(source))
    rate = error_rate(links, gold)
    assert rate < 0.1  # 0.028 here
    # The fault of naming every link by the next word: far off, so the figure means something.
    late = [
        " ".join(f"{left}-{int(right) + 1}" for left, right in (link.split("-") for link in line.split()))
        for line in read(links)
    ]
    assert error_rate(write(shifted, late), gold) > 0.8


def test_translations_are_linked_and_their_unknown_words_copied(
    learnt: tuple[Path, Path, Path, Path], tmp_path: Path
) -> None:
    run, source, target, _ = learnt
    links, lexicon = tmp_path / "links", tmp_path / "words.tsv"
    plain = clearhead("translate", run, source, "--threads", 1).lines
    assert not any("\u2047" in line for line in plain)
    copied = clearhead("translate", run, source, "--replace-unknown", "--alignments", links, "--threads", 1).lines
    true = read(target)

    def right(lines: list[str]) -> int:
        return sum(ours == theirs for ours, theirs in zip(lines, true, strict=True))

    assert right(copied) > right(plain) + 15
    assert right(copied) >= 0.6 * len(true)
    for line, ours, theirs in zip(read(links), read(source), copied, strict=True):
        places = [tuple(map(int, link.split("-"))) for link in line.split()]
        assert all(left < len(ours.split()) and right < len(theirs.split()) for left, right in places)
    write(lexicon, [f"{word}\tX{word}\t0.9" for word in WORDS])
    looked_up = clearhead("translate", run, source, "--replace-unknown", "--lexicon", lexicon, "--threads", 1).lines
    assert [line.replace("X", "") for line in looked_up] == copied
    assert any("X" in line for line in looked_up)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--alignments", "x", "--protect"], "--alignments goes by what the model wrote"),
        (["--replace-unknown", "--json", "--n-best", 2], "--replace-unknown and --n-best"),
        (["--lexicon", "x"], "--lexicon is for unknown words"),
        (["--alignment-layer", 1], "--alignment-layer changes nothing without --alignments"),
        (["--alignments", "-"], "-: would be written twice"),
        (["--alignments", "x", "--alignment-layer", 7], "there is no layer 7: the decoder reads the source in 1"),
        (["--format", "po", "--alignments", "x"], "--alignments means nothing for a PO document"),
    ],
)
def test_mistakes_are_told_by_name(
    learnt: tuple[Path, Path, Path, Path], options: list[object], message: str, tmp_path: Path
) -> None:
    run, source, *_ = learnt
    options = [tmp_path / "x" if each == "x" else each for each in options]
    assert message in clearhead("translate", run, source, *options, code=2).log
    assert not (tmp_path / "x").exists()


def test_the_error_rate_of_files_by_hand(tmp_path: Path) -> None:
    links, gold = write(tmp_path / "links", ["0-0 1-1", ""]), write(tmp_path / "gold", ["0-0 0?1", "0-0"])
    assert error_rate(links, gold) == pytest.approx(1 - 2 / 4)
    ran = clearhead("data", "aer", links, gold, "--json")
    assert '"aer": 0.5' in ran.out.decode()
    ran = clearhead("data", "aer", links, write(tmp_path / "short", ["0-0"]), code=2)
    assert "end alone" in ran.log
