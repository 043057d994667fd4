"""Each common form of placeholder is found as a whole, ordinary text is left alone, and no text takes long."""

import time

import pytest

from clearhead.text.placeholders import find_placeholders, strip_placeholders

WHOLE = [
    *["{name}", "{0}", "{}", "{{count}}", "{{ name }}", "${x.y}", "%{n}", "#{z}", "{value!r:>10.2f}", "{a-b}"],
    *["%s", "%d", "%1$s", "%(name)s", "%.2f", "%-5d", "%5.1f", "%ld", "%@", "%%", "%*d", "%x"],
    *["<b>", "</b>", "<br/>", '<a href="https://example.org/?a=b&c">', "&amp;", "&nbsp;", "&#39;", "&#x27;"],
]
ORDINARY = [
    *[
        "100%discount",
        "5% sure",
        "50 % of it",
        "a < b > c",
        "I <3 you",
        "AT&T; R&D",
        "{not a placeholder}",
        "{",
        "%",
        "&",
    ],
    *["{", "%", "&", "x & y;", "<>", "< b>", "100%", "{count, plural, one {# item} other {# items}}", "℃，", ""],
]


@pytest.mark.parametrize("placeholder", WHOLE)
def test_each_form_is_found_whole(placeholder: str) -> None:
    assert find_placeholders(placeholder) == [placeholder]
    assert find_placeholders(f"Hallo {placeholder}, du") == [placeholder]
    assert strip_placeholders(f"Hallo {placeholder}, du").split() == ["Hallo", ",", "du"]
    assert find_placeholders(f"{placeholder}{placeholder}") == [placeholder] * 2


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert find_placeholders(text) == []
    assert strip_placeholders(text) == text


def test_several_in_their_order() -> None:
    text = "Hi {name}, <b>%d</b> of 100 % &amp; {{n}}s"
    assert find_placeholders(text) == ["{name}", "<b>", "%d", "</b>", "&amp;", "{{n}}"]
    assert strip_placeholders("one{x}two") == "one two"


@pytest.mark.parametrize(
    "unit", ["{", "{{", "<a", "%(", "%(a", "&a", "{a:", "%", "<", "%1", "&#", "%0", "{!r", "a", "{ "]
)
def test_no_text_takes_long(unit: str) -> None:
    """A quadratic expression would need minutes for a million characters; a linear one needs a second or less."""
    text = unit * (1_000_000 // len(unit))
    start = time.process_time()
    strip_placeholders(text)
    assert time.process_time() - start < 10
