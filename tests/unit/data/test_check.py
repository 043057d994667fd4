import gzip
import json
import random
from collections import Counter, defaultdict

import pytest

from clearhead.base.errors import DataError, InputError
from clearhead.data.check import check_files, check_pairs
from clearhead.data.checktext import to_text
from clearhead.data.split import normal_key


def found(report) -> dict[str, tuple[int, list[int]]]:
    return {f.name: (f.count, f.lines) for f in report.findings}


def files(tmp_path, source: bytes, target: bytes):
    (tmp_path / "c.en").write_bytes(source)
    (tmp_path / "c.de").write_bytes(target)
    return [tmp_path / "c.en", tmp_path / "c.de"]


def test_a_clean_corpus_has_no_findings(tmp_path):
    report = check_files(files(tmp_path, b"one\ntwo\n", b"eins\nzwei\n"))
    assert (report.pairs, report.findings, report.errors, report.distinct_sources) == (2, [], 0, 2)
    assert report.files[0].words == 2
    assert "nothing to complain about" in to_text(report)


def test_each_fault_is_found_at_its_line():
    report = check_pairs(
        [
            ("one", "eins"),
            ("", "leer"),
            ("two", "  "),
            ("OK", "OK"),
            ("one", "eins"),
            ("one", "ein"),
            ("One!", "Eins!"),
            ("a source that is rather long", "z" * 400),
            ("a second one of usual length", "ein zweiter von üblicher Länge"),
            ("a third one of usual length x", "ein dritter von üblicher Länge"),
        ]
    )
    assert found(report) == {
        "empty source": (1, [2]),
        "empty target": (1, [3]),
        "identical sides": (1, [4]),
        "length ratio": (1, [8]),
        "duplicate pair": (1, [5]),
        "other translation": (1, [6]),
        "near-duplicate source": (1, [7]),
    }
    assert report.errors == 0
    assert report.ratios["median"] == pytest.approx(30 / 28, abs=0.01)


def test_counts_agree_with_brute_force_on_random_text():
    rng = random.Random(0)
    words = ["a", "A", "b", "b!", "c 1", "c 2", "", "{x}"]
    pairs = [(rng.choice(words), rng.choice(words)) for _ in range(400)]
    seen_pairs, seen_source, seen_key = Counter(), defaultdict(set), defaultdict(set)
    lines = defaultdict(list)
    for number, (source, target) in enumerate(pairs, 1):
        key = normal_key(source)
        if seen_pairs[source, target]:
            lines["duplicate pair"].append(number)
        elif seen_source[source]:
            lines["other translation"].append(number)
        if key and seen_key[key] and source not in seen_key[key]:
            lines["near-duplicate source"].append(number)
        seen_pairs[source, target] += 1
        seen_source[source].add(target)
        seen_key[key].add(source)
    result = found(check_pairs(pairs))
    for name in ("duplicate pair", "other translation", "near-duplicate source"):
        assert result[name] == (len(lines[name]), lines[name][:5])


def test_held_out_text_is_found_exactly_and_nearly():
    corpus = [("Open the door", "x"), ("close the door 2", "y"), ("open the door", "z"), ("other", "Status")]
    held_out = {"test.en": ["Open the door", "Close the door 1!", "not there", "Status", "", "42"]}
    report = check_pairs(corpus, against=held_out)
    assert found(report)["held-out text in corpus"] == (1, [1])
    assert found(report)["held-out text nearly in corpus"] == (1, [2, 3])
    assert "of 5 different texts" in next(f.where for f in report.findings if f.level == "error")
    assert report.errors == 1


def test_a_held_out_target_file_is_told_from_a_source_file():
    corpus = [(f"source {chr(97 + i)}", f"ziel {chr(97 + i)}") for i in range(9)]
    report = check_pairs(corpus, against={"test.de": ["ziel b", "ziel q", "ziel c"]})
    assert found(report)["held-out target in corpus"] == (2, [2, 3])
    assert report.errors == 0


def test_unequal_files_are_reported_with_both_counts_and_the_rest_is_checked(tmp_path):
    report = check_files(files(tmp_path, b"a\nb\nc\n", b"x\n\n"))
    first = report.findings[0]
    assert (first.name, first.level, first.lines) == ("line counts differ", "error", [3])
    assert "c.en has 3" in first.where
    assert "c.de has 2" in first.where
    assert found(report)["empty target"] == (1, [2])


def test_bytes_that_break_the_line_contract_are_counted_by_file(tmp_path):
    source = "\ufeffone\r\ntwo\u2028x\r\nth\rree\r\nfour\x0c\x85".encode()
    target = b"eins\nzw\xffei\ndr\x00ei\nv\n"
    report = check_files(files(tmp_path, source, target))
    en, de = report.files
    assert (en.lines, de.lines) == (4, 4)  # U+2028, a lone CR, a form feed and U+0085 end no line
    assert en.byte_order_mark
    assert en.carriage_return_ends == 3
    assert not en.final_newline
    assert {name: seen.lines for name, seen in en.odd.items()} == {
        "line separator (U+2028)": [2],
        "carriage return (inside a line)": [3],
        "form feed": [4],
        "next line (U+0085)": [4],
    }
    assert de.not_utf8.lines == [2]
    assert de.odd["NUL"].lines == [3]
    assert report.count("not UTF-8") == 1
    assert report.errors == 1
    text = to_text(report)
    assert "\u2028" not in text
    assert "\\u2028" in text


def test_utf16_is_named(tmp_path):
    report = check_files(files(tmp_path, "one\n".encode("utf-16"), b"eins\n"))
    assert any("UTF-16" in f.where for f in report.findings if f.name == "not UTF-8")


def test_compressed_files_are_checked_and_a_cut_archive_is_an_error(tmp_path):
    packed = gzip.compress(b"".join(b"line %d\n" % i for i in range(20000)))
    whole, cut = tmp_path / "c.en.gz", tmp_path / "cut.en.gz"
    whole.write_bytes(packed)
    cut.write_bytes(packed[: len(packed) // 2])
    (tmp_path / "c.de").write_bytes(b"".join(b"Zeile %d\n" % i for i in range(20000)))
    assert check_files([whole, tmp_path / "c.de"]).errors == 0
    report = check_files([cut, tmp_path / "c.de"])
    assert {"damaged archive", "line counts differ"} <= set(found(report))


def test_a_tsv_is_checked_and_lines_without_a_tab_are_errors(tmp_path):
    (tmp_path / "c.tsv").write_text("one\teins\tnote\nno tab here\ntwo\tzwei\n")
    report = check_files([tmp_path / "c.tsv"])
    assert report.pairs == 3
    assert found(report)["no tab"] == (1, [2])
    assert report.examples[2] == ("no tab here", "")


def test_examples_are_the_pairs_of_the_lines_named(tmp_path):
    report = check_files(files(tmp_path, b"a\nb\na\n", b"x\ny\nx\n"))
    assert report.examples == {3: ("a", "x")}
    assert "3: a" in to_text(report)


def test_json_holds_everything_and_is_json(tmp_path):
    report = check_files(files(tmp_path, b"a\n\n", b"x\r\ny\n"))
    parsed = json.loads(json.dumps(report.to_dict()))
    assert parsed["pairs"] == 2
    assert {f["name"] for f in parsed["findings"]} == {"empty source", "CRLF line ends"}
    assert parsed["files"][1]["lines_ending_in_crlf"] == 1


def test_empty_and_missing_files(tmp_path):
    report = check_files(files(tmp_path, b"", b""))
    assert found(report) == {"no pairs": (1, [])}
    with pytest.raises(DataError, match=r"missing\.en"):
        check_files([tmp_path / "missing.en", tmp_path / "c.de"])
    with pytest.raises(InputError, match="3 files"):
        check_files(["a", "b", "c"])
