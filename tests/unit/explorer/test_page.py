"""The page as a file: nothing in it leads out, nothing in a text becomes markup, both languages say everything."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from html.parser import HTMLParser
from typing import Any

import pytest
import torch

from clearhead.base.errors import InputError
from clearhead.explorer import words
from clearhead.explorer.content import Both, Look, Matrix, Window
from clearhead.explorer.html import both, figure, number
from clearhead.explorer.walk_page import groups, page
from clearhead.models import build, presets
from clearhead.recipes.translator import Translator, decoding_config
from clearhead.recipes.walk import Walk, unknown_pieces, walk
from clearhead.text.symbols import UNK
from clearhead.text.tokenizer import TokenizerConfig, Tokenizers

HOSTILE = (
    "<script>alert(1)</script>",
    "</script><script>alert(2)</script>",
    '"><img/src=x/onerror=alert(3)>',
    "<!--",
    "{{data}}",
    "&lt;b&gt;",
    "'onmouseover='alert(4)",
    "]]>",
)
VOID = {"meta", "link", "br", "hr", "img", "input", "rect"}


def hostile_translator(**overrides: Any) -> Translator:
    """A model that knows nothing but texts that would like to be markup."""
    pairs = [(f"{one} {two}", f"{two} {one}") for one in HOSTILE for two in HOSTILE]
    config = TokenizerConfig(vocab_size=325, symbols=HOSTILE)
    tokenizers = Tokenizers.train(config, lambda: iter([*pairs, *[("some plain text", "and some more of it")] * 9]))
    shape = {"d_model": 8, "d_ff": 8, "encoder_layers": 1, "decoder_layers": 1, "attention": {"heads": 2}}
    model = build(presets.tiny(tokenizers.target.vocab_size, **shape | overrides), seed=3)
    return Translator(model, tokenizers, ("en", "de"))


@pytest.fixture(scope="module")
def translator() -> Translator:
    return hostile_translator()


@pytest.fixture(scope="module")
def hostile(translator: Translator) -> Walk:
    return walk(translator, " ".join(HOSTILE), decoding_config(max_length=3), " ".join(HOSTILE))


class Tags(HTMLParser):
    """The elements and the text of a page; scripts and styles apart."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.raw: dict[str, list[str]] = {"script": [], "style": []}
        self.text: list[str] = []
        self._inside = ""

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attributes)))
        self._inside = tag if tag in self.raw else ""

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        (self.raw[self._inside] if self._inside else self.text).append(data)


def parse(html: str) -> Tags:
    tags = Tags()
    tags.feed(html)
    return tags


def test_hostile_tokens_stay_text(hostile: Walk) -> None:
    html = page(hostile)
    tags = parse(html)
    plain = parse(page(walk(hostile_translator(), "some plain text", decoding_config(max_length=3))))
    assert {tag for tag, _ in tags.elements} == {tag for tag, _ in plain.elements}  # no element that we do not write
    assert sum(tag == "script" for tag, _ in tags.elements) == 2
    allowed = {name for _, attributes in plain.elements for name in attributes}
    assert {name for _, attributes in tags.elements for name in attributes} <= allowed | {"title"}
    assert not [name for _, attributes in tags.elements for name in attributes if name.startswith("on")]
    for token in HOSTILE:  # and they are all there to read
        assert token in tags.text, token
    data = json.loads(tags.raw["script"][0])
    rows = data["matrices"]["encoder.input.sum"]["rows"]
    assert set(HOSTILE) <= set(rows)
    assert "<" not in tags.raw["script"][0]


def test_nothing_leads_out_of_the_page(hostile: Walk) -> None:
    html = page(walk(hostile_translator(), "some plain text", decoding_config(max_length=3)))
    assert "//" not in re.sub(r"(?m)^\s*//.*$", "", html)  # no scheme and no host; the script has comments
    tags = parse(html)
    for tag, attributes in tags.elements:
        assert not {"src", "action", "srcset", "style", "background", "data"} & set(attributes), tag
        assert attributes.get("href", "#").startswith("#")
    assert not re.search(r"url\(|@import|fetch\(|XMLHttpRequest|import\(", html)


def test_a_page_of_a_site_leads_back_to_it(hostile: Walk) -> None:
    tags = parse(page(hostile, back='walk.html?a=1&b="2'))
    out = [a["href"] for tag, a in tags.elements if tag == "a" and not (a["href"] or "#").startswith("#")]
    assert out == ['walk.html?a=1&b="2']


def test_every_link_has_its_target_and_every_id_is_one(hostile: Walk) -> None:
    tags = parse(page(hostile))
    ids = [attributes["id"] for _, attributes in tags.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    links = [attributes["href"] for tag, attributes in tags.elements if tag == "a"]
    assert len(links) > 15
    named = [name for _, a in tags.elements for name in (a.get("aria-labelledby") or "").split()]
    assert {str(link)[1:] for link in links} | set(named) <= set(ids)


def test_the_policy_lets_only_our_own_script_and_style_in(hostile: Walk) -> None:
    tags = parse(page(hostile))
    policy = next(a["content"] for _, a in tags.elements if a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None and policy.startswith("default-src 'none';") and "unsafe" not in policy
    for kind, text in (("script", tags.raw["script"][-1]), ("style", "".join(tags.raw["style"]))):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_page_opens_in_the_language_that_was_asked_for(hostile: Walk, language: Any) -> None:
    html = page(hostile, language)
    start = re.search(r'<html lang="([^"]*)" data-language="([^"]*)">', html)
    assert start and start.groups() == ({"en": "en", "zh": "zh-CN"}[language], language)


def test_everything_is_said_in_both_languages(hostile: Walk) -> None:
    for group in groups(hostile):
        for step in group.steps:
            texts = [group.title, step.title, step.words, *(each.label for each in step.variants if each.label.en)]
            for text in texts:
                assert re.search("[\u4e00-\u9fff]", text.zh) or text.en == text.zh, text
                assert not re.search("[\u4e00-\u9fff]", text.en), text
    for text in (*words.TITLES.values(), *words.CAPTIONS.values()):
        assert text.en and text.zh


@pytest.mark.parametrize(
    ("overrides", "held"),
    [
        ({"norm": "pre"}, "Y = X + max(0, X·W₁ + b₁)·W₂ + b₂"),
        ({"norm": "post"}, "Y = LayerNorm(X + max(0, X·W₁ + b₁)·W₂ + b₂)"),
        ({"norm": "pre", "activation": "swiglu"}, "Y = X + (SiLU(X·W"),
        ({"norm": "post", "activation": "gelu"}, "Y = LayerNorm(X + GELU("),
        ({"attention": {"heads": 4, "kv_heads": 2, "head_dim": 6, "bias": True}}, "Q = X·W<sub>Q</sub> + b"),
        ({"positions": {"kind": "learned", "max_positions": 40}, "d_model": 32}, "√32"),
    ],
)
def test_every_kind_of_transformer_can_be_walked(overrides: dict[str, Any], held: str) -> None:
    found = walk(hostile_translator(**overrides), "some plain text", decoding_config(max_length=4))
    html = page(found)
    assert held in html
    # What a sub-layer gives is what the next one starts from, wherever the norm stands.
    data = json.loads(parse(html).raw["script"][0])["matrices"]
    at = "encoder.layers.0"
    if overrides.get("norm") == "pre":
        x, output = data["encoder.input.sum"]["values"], data[f"{at}.attention.output"]["values"]
        result = data[f"{at}.attention.result"]["values"]
        assert torch.allclose(torch.tensor(x) + torch.tensor(output), torch.tensor(result), atol=1e-5)
    elif overrides.get("norm") == "post":
        assert data[f"{at}.attention.result"]["values"] == data[f"{at}.feedforward.x"]["values"]


def test_the_picture_of_the_beam_has_every_hypothesis_and_the_way_to_the_best(hostile: Walk) -> None:
    drawn = re.search(r'<svg class="beam".*?</svg>', page(hostile), re.S)
    assert drawn
    fates = [each.fate for step in hostile.account.steps for each in step.candidates]
    boxes = re.findall(r'<g class="([^"]*)">', drawn[0])
    assert len(boxes) == 1 + len(fates) - fates.count("dropped")
    assert sum("finished" in each for each in boxes) == fates.count("finished")
    assert sum("won" in each for each in boxes) == len(hostile.best.tokens) + 2  # <s>, the tokens, </s>
    lines = re.findall(r'<path class="line( won)?" d="M(\d+) (\d+)C[^"]* (\d+) (\d+)"/>', drawn[0])
    assert len(lines) == len(boxes) - 1
    won = [each[1:] for each in lines if each[0]]
    for (_, _, x, y), (start, height, _, _) in zip(won, won[1:]):
        assert (int(start) - int(x), height) == (100, y)  # from the right side of one box to the left of the next


def test_large_matrices_are_shown_in_part_and_told_whole() -> None:
    values = torch.arange(30 * 40, dtype=torch.float32).view(30, 40) - 600
    look = Look(Window.of(512), tuple(f"t{row}" for row in range(30)))
    matrix = Matrix.of("m", "M", Both("m", "m"), values, look)
    assert (len(matrix.values), len(matrix.values[0]), matrix.shape, matrix.whole) == (12, 8, (30, 40), False)
    assert (matrix.smallest, matrix.largest) == (-600.0, 599.0)
    assert matrix.norm == pytest.approx(math.sqrt(sum((each - 600) ** 2 for each in range(1200))))
    assert matrix.values[11][7] == 11 * 40 + 7 - 600 and matrix.rows[-1] == "t11"
    assert Matrix.of("m", "M", Both("m", "m"), values[:24, :8], look).whole
    assert Matrix.of("m", "M", Both("m", "m"), values, Look(Window.of(16), ())).shape == (30, 40)


def test_a_mask_leaves_out_what_is_hidden() -> None:
    values = torch.tensor([[1.0, 9.0], [2.0, 3.0]])
    matrix = Matrix.of("m", "M", Both("m", "m"), values, Look(Window()), torch.tensor([[True, False], [True, True]]))
    assert matrix.values == ((1.0, None), (2.0, 3.0))
    assert matrix.largest == 3.0 and matrix.norm == pytest.approx(math.sqrt(14))


@pytest.mark.parametrize(
    ("value", "text"),
    [(-0.004, "0.00"), (-0.005001, "−0.01"), (1.0, "1.00"), (None, "−∞"), (-math.inf, "−∞"), (12345.678, "12345.68")],
)
def test_numbers_are_written_with_a_true_minus(value: float | None, text: str) -> None:
    assert number(value) == text


@pytest.mark.parametrize(
    ("value", "size", "text"),
    [
        (0.033, 1.0, "0.03"),
        (0.033, 0.033, "0.033"),
        (-0.0033, 0.0033, "−0.0033"),
        (-0.0033, 0.05, "−0.003"),
        (0.00033, 0.00033, "3e−4"),
        (-2e-12, 5e-12, "−2e−12"),
        (0.0, 0.0, "0.00"),
        (math.inf, math.inf, "inf"),
    ],
)
def test_small_numbers_keep_significant_digits(value: float, size: float, text: str) -> None:
    assert figure(value, size) == text


def test_the_window_of_many_small_weights_is_not_all_zeroes(translator: Translator) -> None:
    found = walk(translator, "and some more of it " * 40, decoding_config(max_length=2))
    html = page(found)
    assert len(found.source_pieces) > 160
    table = re.search(r'data-name="encoder\.layers\.0\.attention\.head-1\.weights".*?</table>', html, re.S)
    assert table
    cells = re.findall(r"<td[^>]*>([^<]+)", table[0])
    assert len(cells) == 144 and "0.00" not in cells


def test_matrices_of_many_columns_stand_below_each_other(hostile: Walk) -> None:
    wide = page(walk(hostile_translator(d_model=16), "some plain text", decoding_config(max_length=3)))
    narrow = page(walk(hostile_translator(), "some plain text", decoding_config(max_length=3)))
    for html, kind in ((wide, "flow stacked"), (narrow, "flow")):
        step = re.search(r'id="encoder-embedding".*?</section>', html, re.S)
        assert step and f'<div class="{kind}">' in step[0]
        assert not re.search(r'<div class="(pair|flow[^"]*)"><div class="operator">', step[0])  # it ends a line


def small_translator() -> Translator:
    """A model whose vocabulary lacks most letters and has no bytes to spell them."""
    pairs = [("abba baab", "ab ba"), ("bab aba", "ba ab")] * 9
    config = TokenizerConfig(vocab_size=11, symbols=("<go>",), byte_fallback=False)
    tokenizers = Tokenizers.train(config, lambda: iter(pairs))
    shape = {"d_model": 8, "d_ff": 8, "encoder_layers": 1, "decoder_layers": 1, "attention": {"heads": 2}}
    return Translator(build(presets.tiny(tokenizers.target.vocab_size, **shape), seed=3), tokenizers, ("en", "de"))


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("ab ba", ()),
        ("ab xyz ba", ("xyz",)),
        ("xabyab z", ("x", "y", "z")),
        ("a<go>q<go>", ("q",)),
        ("a▁▁b", ("▁", "▁")),
        ("aq▁wb ü", ("q", "▁", "w", "ü")),
        ("ü", ("ü",)),
        ("a\tb", ("\t",)),
    ],
)
def test_what_the_vocabulary_lacks_is_named(text: str, pieces: tuple[str, ...]) -> None:
    tokenizer = small_translator().tokenizers.source
    ids = tokenizer.encode(text)
    assert unknown_pieces(tokenizer, text, ids) == pieces
    assert ids.count(UNK) == len(pieces)


def test_unknown_tokens_are_shown_with_what_was_written() -> None:
    found = walk(small_translator(), "ab <q> ba", decoding_config(max_length=3), "y ba")
    assert (found.source_unknown, found.target_unknown) == (("<q>",), ("y",))
    steps = re.findall(r'id="(?:tokens|shifted)".*?</section>', page(found), re.S)
    for step, written in zip(steps, ("&lt;q&gt;", "y"), strict=True):
        assert f'<bdi>&lt;unk&gt;</bdi><span class="unknown"><bdi>{written}</bdi>' in step
        assert "1 token here is <code>&lt;unk&gt;</code>" in step and "这里有 1 个词元是" in step
    known = page(walk(small_translator(), "ab ba", decoding_config(max_length=3), "ba"))
    assert 'class="unknown"' not in known and "here is <code>" not in known


def test_names_of_matrices_have_their_subscript_in_the_words() -> None:
    assert both(words.join_words("post")).count("W<sub>O</sub>") == 2
    assert both(Both("`d_model` and max_positions", "`d_model` and max_positions")) == (
        "<code>d_model</code> and max_positions"
    )


def test_what_cannot_be_walked_is_refused(translator: Translator) -> None:
    with pytest.raises(InputError, match="nothing to translate"):
        walk(translator, "  ", decoding_config())
    short = Translator(translator.model, translator.tokenizers, translator.languages, max_source_length=2)
    with pytest.raises(InputError, match="takes 2 at once: give one sentence"):
        walk(short, "some plain text", decoding_config())
    with pytest.raises(InputError, match="leave out sampling"):
        walk(translator, "some", decoding_config(sampling={"temperature": 1.0}))
    for text, target, told in (
        ("some\nplain", None, "the text has a line break, at character 5"),
        ("some\r\n", None, "the text has a line break, at character 5"),
        ("some", "and\nmore", "--target has a line break, at character 4"),
    ):
        with pytest.raises(InputError, match=told):
            walk(translator, text, decoding_config(), target)
    learned = hostile_translator(positions={"kind": "learned", "max_positions": 6})
    with pytest.raises(InputError, match="--target has .* and the model can read 5"):
        walk(learned, "some", decoding_config(), "and some more of it and more")
