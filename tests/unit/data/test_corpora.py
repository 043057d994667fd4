import hashlib
import json
import logging
import shutil
import subprocess
import zipfile

import pytest

from clearhead.base.errors import DataError, InputError
from clearhead.data import libreoffice, packages
from clearhead.data.corpora import CORPORA, find_corpus, get_corpus
from clearhead.data.home_assistant import extract, join_lines
from clearhead.data.packages import ZipReader, download_wheel
from clearhead.formats.lines import read_lines
from clearhead.text.languages import parse_pair


def wheel(path, integrations: dict[str, dict[str, object]], **others: bytes):
    """A wheel of the shape of Home Assistant's: {integration: {language: tree of strings}}."""
    file = path / "homeassistant-1.0-py3-none-any.whl"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("homeassistant/__init__.py", "raise SystemExit('must never run')")
        for name, languages in integrations.items():
            for language, tree in languages.items():
                member = f"homeassistant/components/{name}/translations/{language}.json"
                archive.writestr(member, json.dumps(tree, ensure_ascii=False))
        for name, content in others.items():
            archive.writestr(name, content)
    return file


TREES = {
    "zeta": {"en": {"title": "Zeta", "state": {"on": "On"}}, "de": {"title": "Zeta", "state": {"on": "An"}}},
    "alpha": {
        "en": {
            "a": "Two\n\n  lines \n",
            "b": "On",
            "c": "",
            "d": {"only": "english"},
            "e": "long " * 81,
            "f": "fits " * 80,
            "g": "On",
            "h": 7,
        },
        "de": {
            "a": "Zwei \r\n Zeilen",
            "b": "An",
            "c": "leer",
            "e": "lang",
            "f": "passt",
            "g": "Ein",
            "h": "sieben",
            "i": "nur deutsch",
        },
    },
    "beta": {"en": {"x": "no german"}, "fr": {"x": "pas d'allemand"}},
}


def test_strings_under_one_key_path_are_pairs_and_every_one_is_accounted_for(tmp_path):
    result = extract([wheel(tmp_path, TREES)], "en", "de")
    assert result.pairs == [("Two lines", "Zwei Zeilen"), ("On", "An"), ("fits " * 80, "passt"), ("On", "Ein")]
    assert result.counts == {"found": 8, "empty": 1, "too long": 1, "untranslated": 1, "duplicate": 1, "kept": 4}
    assert result.counts["found"] == sum(n for name, n in result.counts.items() if name != "found")
    assert result.notes == {"line breaks joined": 1}


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("a\nb", "a b"),
        ("a \r\n\r\n b\n", "a b"),
        (" as it is ", " as it is "),
        ("a\u2028b\x0c", "a\u2028b\x0c"),
        ("\n", ""),
    ],
)
def test_only_line_breaks_are_joined(text, line):
    assert join_lines(text) == line


def test_chinese_is_the_simplified_file_and_both_directions_work(tmp_path):
    file = wheel(tmp_path, {"a": {"en": {"k": "On"}, "zh-Hans": {"k": "开"}, "zh-Hant": {"k": "開"}}})
    assert extract([file], "en", "zh").pairs == [("On", "开")]
    assert extract([file], "zh-Hant", "en").pairs == [("開", "On")]


def test_get_writes_aligned_files_and_where_they_are_from(tmp_path, caplog):
    out = tmp_path / "out"
    with caplog.at_level(logging.WARNING, logger="clearhead"):
        provenance = get_corpus("home-assistant", "en-de", out, package=wheel(tmp_path, TREES))
    assert list(read_lines(out / "corpus.en"))[:2] == ["Two lines", "On"]
    assert list(read_lines(out / "corpus.de"))[:2] == ["Zwei Zeilen", "An"]
    stored = json.loads((out / "provenance.json").read_text())
    assert stored["licence"] == "Apache-2.0"
    assert stored["counts"] == provenance.counts
    assert stored["packages"] == {
        "homeassistant-1.0-py3-none-any.whl": digest(tmp_path / "homeassistant-1.0-py3-none-any.whl")
    }
    assert "not the packages that sizes" in caplog.text
    assert sorted(p.name for p in out.iterdir()) == ["corpus.de", "corpus.en", "provenance.json"]


def digest(path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize(
    ("name", "pair", "said"),
    [
        ("home-asistant", "en-de", "did you mean 'home-assistant'"),
        ("home-assistant", "ende", "such as 'en-de'"),
        ("home-assistant", "en-en", "two languages"),
        ("home-assistant", "en-xx", "no language 'xx'; it has: de, en, fr"),
    ],
)
def test_a_wrong_name_or_pair_is_refused_with_what_there_is(tmp_path, name, pair, said):
    with pytest.raises(InputError, match=said):
        get_corpus(name, pair, tmp_path / "out", package=wheel(tmp_path, TREES))
    assert not (tmp_path / "out").exists()


def test_every_listed_corpus_can_be_found_and_its_pairs_are_pairs():
    for name, corpus in CORPORA.items():
        assert find_corpus(name).name == name
        assert corpus.licence
        assert all(parse_pair(pair) for pair in corpus.pairs)
        assert all(len(digest) == 64 for digest in corpus.sha256.values())


def test_what_is_not_a_sound_wheel_is_refused(tmp_path):
    (tmp_path / "no.whl").write_bytes(b"not a zip")
    with pytest.raises(DataError, match="not a sound zip"):
        extract([tmp_path / "no.whl"], "en", "de")
    with pytest.raises(InputError, match="no such file"):
        extract([tmp_path / "missing.whl"], "en", "de")
    with pytest.raises(DataError, match="holds no Home Assistant translations"):
        extract([wheel(tmp_path, {})], "en", "de")
    file = wheel(tmp_path, {"a": {"en": {"k": "On"}}, "b": {"de": {}}})
    content = bytearray(file.read_bytes())
    content[content.index(b"translations/en.json") + 25] ^= 0xFF  # inside the compressed data
    file.write_bytes(bytes(content))
    with pytest.raises(DataError):
        extract([file], "en", "en")


def test_members_beyond_the_caps_are_refused_before_they_are_unpacked(tmp_path, monkeypatch):
    file = tmp_path / "bomb.whl"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("bomb.json", b"0" * 3_000_000)
        archive.writestr("fine.json", b'{"a": "b"}')
    with ZipReader.open(file) as archive:
        assert archive.read_json("fine.json") == {"a": "b"}
        with pytest.raises(DataError, match=r"bomb\.json claims 3000000 bytes"):
            archive.read("bomb.json")
        monkeypatch.setattr(packages, "MAX_TOTAL_BYTES", 15)
        with pytest.raises(DataError, match="in all"):
            archive.read("fine.json")
    monkeypatch.setattr(packages, "MAX_MEMBERS", 1)
    with pytest.raises(DataError, match="2 members"), ZipReader.open(file):
        pass


def test_deep_or_broken_json_is_refused(tmp_path):
    file = tmp_path / "deep.whl"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("deep.json", b"[" * 200_000)
        archive.writestr("bad.json", b'{"a": "\xff"}')
    with ZipReader.open(file) as archive:
        for name in ("deep.json", "bad.json"):
            with pytest.raises(DataError, match=name):
                archive.read_json(name)


def test_a_failed_download_says_what_to_do(tmp_path, monkeypatch):
    calls = []

    def no_network(command, **_):
        calls.append(command)
        return subprocess.CompletedProcess(command, 1, "", "noise\nERROR: No matching distribution found\n")

    monkeypatch.setattr(packages.subprocess, "run", no_network)
    with pytest.raises(InputError, match=r"(?s)No matching distribution.*pip download --no-deps.*--wheel FILE"):
        download_wheel("some-package==1.0", "3.14", tmp_path)
    assert {"--no-deps", "--only-binary=:all:", "some-package==1.0"} <= set(calls[0])


PAGE = """<html><h1 id="title">{title}</h1><p>no id</p>
<div><p id="par_1" class="x">{text} <a href="x">{link}</a>,<br>  press <span class="k"><span class="MAC">Cmd</span><span
 id="d">{key}</span></span>+Z &amp; wait.</p></div><p id="par_1">the same id again</p><p id="empty"> </p></html>"""
ENGLISH = PAGE.format(title="Title", text="Text", link="link", key="Ctrl")
GERMAN = PAGE.format(title="Titel", text="Text", link="Verweis", key="Strg")


def deb(path, folder: str, pages: dict[str, str]):
    if shutil.which("dpkg-deb") is None:
        pytest.skip("dpkg-deb is not here")
    root = path / f"root-{folder}"
    for name, page in pages.items():
        file = root / "usr/share/libreoffice/help" / folder / "text" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(page)
    (root / "DEBIAN").mkdir()
    control = f"Package: libreoffice-help-{folder.lower()}\nVersion: 1\nArchitecture: all\nMaintainer: x <x@x.x>\n"
    (root / "DEBIAN/control").write_text(control + "Description: x\n")
    file = path / f"libreoffice-help-{folder.lower()}_1_all.deb"
    subprocess.run(["dpkg-deb", "--root-owner-group", "-b", root, file], check=True, capture_output=True)
    return file


def test_a_help_page_gives_the_text_a_reader_sees_by_paragraph_id():
    assert dict(libreoffice.paragraphs(ENGLISH)) == {
        "title": "Title",
        "par_1": "Text link, press Ctrl+Z & wait.",
        "empty": "",
    }


def test_help_paragraphs_of_one_page_and_id_are_pairs(tmp_path):
    deb(tmp_path, "en-US", {"a/one.html": ENGLISH, "a/two.html": ENGLISH, "three.html": ENGLISH})
    deb(tmp_path, "de", {"a/one.html": GERMAN, "a/two.html": GERMAN, "a/three.html": GERMAN})
    deb(tmp_path, "fr", {"a/one.html": GERMAN})
    provenance = get_corpus("libreoffice-help", "en-de", tmp_path / "out", package=tmp_path)
    assert list(read_lines(tmp_path / "out/corpus.en")) == ["Title", "Text link, press Ctrl+Z & wait."]
    assert list(read_lines(tmp_path / "out/corpus.de")) == ["Titel", "Text Verweis, press Strg+Z & wait."]
    assert provenance.counts["duplicate"] == 2  # page two
    assert sorted(provenance.packages) == ["libreoffice-help-de_1_all.deb", "libreoffice-help-en-us_1_all.deb"]
    with pytest.raises(InputError, match="no help pages in language 'es'"):
        get_corpus("libreoffice-help", "en-es", tmp_path / "es", package=tmp_path)
    with pytest.raises(InputError, match="holds no libreoffice-help"):
        get_corpus("libreoffice-help", "en-de", tmp_path / "es", package=tmp_path / "out")


def test_a_damaged_debian_package_is_refused(tmp_path):
    file = deb(tmp_path, "de", {f"{i}.html": GERMAN * 50 for i in range(50)})
    content = file.read_bytes()
    for damaged in (content[: len(content) // 2], b"not a package", content[:-200] + bytes(200)):
        file.write_bytes(damaged)
        with pytest.raises(DataError, match="not a sound Debian package"):
            list(packages.read_deb(file, libreoffice.MEMBER))


def test_without_apt_the_message_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setattr(packages.shutil, "which", lambda _: None)
    with pytest.raises(InputError, match=r"(?s)needs apt-get.*apt-get download libreoffice-help-de.*--package DIR"):
        packages.download_debs(["libreoffice-help-de"], tmp_path)
