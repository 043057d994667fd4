"""Damaged or foreign model files are refused with the file's name; none of them reaches the C++ reader to crash it."""

import io
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
import sentencepiece

from clearhead.base.errors import BundleError
from clearhead.text.modelfile import MAX_MODEL_BYTES, check_model_bytes, model_kind
from clearhead.text.tokenizer import Tokenizer, Tokenizers
from tests.unit.text.conftest import Pair


def field(number: int, content: bytes) -> bytes:
    """One length-prefixed field of a protobuf message."""
    length = len(content)
    prefix = bytearray()
    while length >= 0x80:
        prefix.append(length & 0x7F | 0x80)
        length >>= 7
    return bytes([number << 3 | 2, *prefix, length]) + content


def test_a_sound_model_passes(trained: dict[str, Tokenizers]) -> None:
    for tokenizers in trained.values():
        check_model_bytes(tokenizers.source.model, "x")


@pytest.mark.parametrize("kind", ["bpe", "unigram", "char", "word"])
def test_the_kind_of_a_model(kind: str) -> None:
    writer = io.BytesIO()
    text = iter(["the red door", "a green window", "the blue lamp"] * 20)
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=text, model_writer=writer, model_type=kind, vocab_size=25, hard_vocab_limit=False,
        minloglevel=3,
    )  # fmt: skip
    assert model_kind(writer.getvalue()) == kind


def test_a_kind_that_is_not_that_of_the_model_is_refused(trained: dict[str, Tokenizers]) -> None:
    for tokenizers in trained.values():
        config = tokenizers.source.config
        other = config.model_copy(update={"kind": "unigram" if config.kind == "bpe" else "bpe"})
        with pytest.raises(BundleError, match=r"not the one that its tokenizer\.toml describes"):
            Tokenizer(tokenizers.source.model, other)


@pytest.mark.parametrize(
    "damage",
    [
        lambda model: b"",
        lambda model: b"not a model at all",
        lambda model: b"\x1f\x8b\x08" + model,
        lambda model: model[:-1],
        lambda model: model[: len(model) // 2],
        lambda model: model[7:],
        lambda model: model + field(1, field(1, b"a" * 200_000)),
        lambda model: model + field(3, field(2, b"\x01\x02\x03\x04")),
        lambda model: model + field(9, b"x"),
        lambda model: field(1, field(1, b"\xff\xfe")) + model,
        lambda model: b"\x0a" + b"\xff" * 9 + b"\x7f" + model,
        lambda model: b"\0" * 1000,
    ],
)
def test_a_damaged_model_is_refused_by_name(trained: dict[str, Tokenizers], damage, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    trained["bpe"].save(tmp_path)
    path = tmp_path / "joint.model"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(BundleError, match=r"joint\.model"):
        Tokenizers.load(tmp_path)


def test_a_huge_file_is_refused_by_its_size() -> None:
    with pytest.raises(BundleError, match="huge: 67,108,865 bytes"):
        check_model_bytes(bytes(MAX_MODEL_BYTES + 1), "huge")


def test_a_model_that_folds_characters_is_refused(pairs: list[Pair]) -> None:
    """SentencePiece's default model would turn ， into a comma."""
    writer = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(side for pair in pairs for side in pair),
        model_writer=writer,
        vocab_size=300,
        minloglevel=3,
    )
    with pytest.raises(BundleError, match="changes characters"):
        check_model_bytes(writer.getvalue(), "default.model")


def test_the_largest_known_crash_is_stopped(trained: dict[str, Tokenizers]) -> None:
    """SentencePiece issue 1263: a piece of over about 100 KB."""
    tokenizer = trained["bpe"].source
    with pytest.raises(BundleError, match=r"piece 700 is 200,\d\d\d bytes long"):
        Tokenizer(tokenizer.model + field(1, field(1, b"a" * 200_000)), tokenizer.config)


def test_random_damage_never_ends_the_process(trained: dict[str, Tokenizers], tmp_path: Path) -> None:
    trained["bpe"].save(tmp_path)
    script = (
        "import sys; from pathlib import Path; from random import Random\n"
        "from tests.unit.text.test_modelfile import survive\n"
        "survive(Path(sys.argv[1]), Random(5), 500)\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, cwd=Path(__file__).parents[3]
    )
    assert result.returncode == 0, result.stderr
    refused, loaded = map(int, result.stdout.split())
    assert refused > 300
    assert refused + loaded == 500


def survive(directory: Path, rng: Random, times: int) -> None:
    """Load and use `times` damaged copies; print how many were refused and how many loaded all the same."""
    config, model = Tokenizers.load(directory).config, (directory / "joint.model").read_bytes()
    refused = 0
    for _ in range(times):
        damaged = bytearray(model)
        place = rng.randrange(len(model))
        match rng.randrange(4):
            case 0:
                damaged[place] = rng.randrange(256)
            case 1:
                del damaged[place:]
            case 2:
                del damaged[place : place + rng.randint(1, 50)]
            case 3:
                damaged = bytearray(rng.randbytes(place % 3000))
        try:
            tokenizer = Tokenizer(bytes(damaged), config)
        except BundleError:
            refused += 1
        else:
            tokenizer.decode(tokenizer.encode("ka to \u2581 日本"))
            tokenizer.pieces(range(config.vocab_size))
    print(refused, times - refused)
