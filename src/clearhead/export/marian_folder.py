"""What a folder of a Marian model in Hugging Face format holds beside its weights, read without executing anything."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clearhead.base.errors import BundleError
from clearhead.bundle.regular import read_regular
from clearhead.text.mapped import language_codes
from clearhead.text.modelfile import MAX_MODEL_BYTES

__all__ = ["MarianFolder", "Side", "read_folder"]

WEIGHTS, PICKLED = "model.safetensors", "pytorch_model.bin"
LARGEST_JSON = 64 * 1024 * 1024  # bytes
NEW = -1
"""The place of a row that the folder lacks."""


@dataclass(frozen=True)
class Side:
    """One language's tokenizer: the SentencePiece model, and the pieces in the order of our ids.

    `ids` says which id of theirs each of ours is, `NEW` for PAD where theirs is our BOS.
    """

    model: bytes
    pieces: tuple[str, ...]
    ids: tuple[int, ...]


@dataclass(frozen=True)
class MarianFolder:
    """`figures` is config.json; `languages` what tokenizer_config.json says of them, "" where it says nothing."""

    path: Path
    figures: Mapping[str, Any]
    source: Side
    target: Side
    languages: tuple[str, str]
    shared: bool
    """One vocabulary for both sides."""
    forbidden: tuple[int, ...] = ()
    """What generation_config.json never lets be written, in their ids; of several tokens in a row the first."""

    @property
    def weights(self) -> Path:
        """The file of the parameters."""
        return self.path / WEIGHTS

    def whole(self, key: str) -> int:
        """The whole number that config.json has under `key`; BundleError if it has none."""
        value = self.figures.get(key)
        if type(value) is not int or value < 0:
            raise BundleError(f"{self.path / 'config.json'}: {key}: expected a whole number, got {value!r}")
        return value

    def flag(self, key: str, default: bool) -> bool:
        """What config.json says under `key`; BundleError if that is neither true nor false."""
        return _flag(self.figures, key, default, self.path / "config.json")


def read_folder(path: Path) -> MarianFolder:
    """Read everything but the weights. Raises BundleError for what is missing, damaged, or cannot be used."""
    if not path.is_dir():
        raise BundleError(f"{path}: there is no such folder")
    figures = _table(path / "config.json")
    if figures.get("model_type") != "marian":
        raise BundleError(
            f"{path / 'config.json'}: model_type is {figures.get('model_type')!r}; only models of 'marian' are imported"
        )
    if not (path / WEIGHTS).exists():
        pickled = (path / PICKLED).exists()
        raise BundleError(
            f"{path}: no {WEIGHTS}"
            + (
                f", only {PICKLED}, which is pickled and could run anything when it is read; where you trust it, load "
                "it with transformers and save it anew (MarianMTModel.from_pretrained(…).save_pretrained(…))"
                if pickled
                else ""
            )
        )
    settings = _table(path / "tokenizer_config.json")
    generation = _table(path / "generation_config.json") if (path / "generation_config.json").exists() else {}
    shared = not _flag(settings, "separate_vocabs", False, path / "tokenizer_config.json")
    folder = MarianFolder(path, figures, _EMPTY, _EMPTY, ("", ""), shared)
    # Of two files that say it, transformers heeds the second.
    begins = "generation_config.json" if generation.get("decoder_start_token_id") is not None else "config.json"
    start = (generation if begins != "config.json" else figures).get("decoder_start_token_id")
    target_file = path / ("vocab.json" if shared else "target_vocab.json")
    names = tuple(_name(settings, key, default, path) for key, default in _SPECIAL_NAMES)
    specials = (folder.whole("pad_token_id"), folder.whole("eos_token_id"), start, begins)
    target, start_name = _side(path / "target.spm", target_file, names, specials, path)
    if shared:
        source = Side(_model(path / "source.spm"), target.pieces, target.ids)
    else:
        source, _ = _side(path / "source.spm", path / "vocab.json", (*names, start_name), None, path)
    sizes = (("vocab_size", source), ("decoder_vocab_size", target))
    for key, side in sizes:
        declared = folder.whole(key) if figures.get(key) is not None else folder.whole("vocab_size")
        found = sum(place != NEW for place in side.ids)
        if declared != found:
            raise BundleError(f"{path / 'config.json'}: {key} is {declared}, but the vocabulary has {found} pieces")
    languages = (str(settings.get("source_lang") or ""), str(settings.get("target_lang") or ""))
    return MarianFolder(path, figures, source, target, languages, shared, _forbidden(generation))


_EMPTY = Side(b"", (), ())
_SPECIAL_NAMES = (("pad_token", "<pad>"), ("unk_token", "<unk>"), ("eos_token", "</s>"))


def _side(
    model: Path, table: Path, names: tuple[str, ...], specials: tuple[int, int, Any, str] | None, folder: Path
) -> tuple[Side, str]:
    """One side, and the name of the piece that the decoder starts from.

    `names` are those of PAD, UNK and EOS; of a source, which has no `specials`, also of the start if it has it.
    `specials` are the ids of PAD and EOS and of the decoder's start, and the file that says the last.
    """
    vocabulary = _table(table)
    numbered = all(type(place) is int for place in vocabulary.values())
    by_id = {place: piece for piece, place in vocabulary.items()} if numbered else {}
    if not numbered or sorted(by_id) != list(range(len(vocabulary))):
        raise BundleError(f"{table}: its ids do not go from 0 to {len(vocabulary) - 1}, each once")
    lacking = [name for name in names[:3] if name not in vocabulary]
    if lacking:
        raise BundleError(f"{table}: has no {lacking[0]!r}")
    pad, unk, eos = (vocabulary[name] for name in names[:3])
    if specials is None:
        start = vocabulary.get(names[3], pad)
    else:
        start = _checked_start(specials, (pad, unk, eos), by_id, folder, table)
    first = (NEW if start == pad else pad, unk, start, eos)
    others = [by_id[place] for place in range(len(by_id)) if place not in first]
    codes = language_codes(others)
    known = set(codes)
    pieces = (*codes, *(piece for piece in others if piece not in known))
    ids = (*first, *(vocabulary[piece] for piece in pieces))
    return Side(_model(model), ("<pad>", "<unk>", "<s>", "</s>", *pieces), ids), by_id[start]


def _checked_start(
    told: tuple[int, int, Any, str], found: tuple[int, int, int], by_id: Mapping[int, str], folder: Path, table: Path
) -> int:
    """Where the decoder starts, once config.json and the vocabulary agree about PAD and EOS."""
    where, (pad, unk, eos) = folder / "config.json", found
    for key, said, place in (("pad_token_id", told[0], pad), ("eos_token_id", told[1], eos)):
        if said != place:
            raise BundleError(f"{where}: {key} is {said}, but {table.name} has {place} for it")
    start = told[2]
    if type(start) is not int or start not in by_id or start in (unk, eos):
        raise BundleError(
            f"{folder / told[3]}: decoder_start_token_id is {start!r}; expected that of {by_id[pad]!r}, or a piece of "
            "its own"
        )
    return start


def _flag(settings: Mapping[str, Any], key: str, default: bool, where: Path) -> bool:
    value = settings.get(key, default)
    if type(value) is not bool:
        raise BundleError(f"{where}: {key}: expected true or false, got {value!r}")
    return value


def _name(settings: Mapping[str, Any], key: str, default: str, folder: Path) -> str:
    value = settings.get(key, default)
    name = value.get("content") if isinstance(value, dict) else value
    if not isinstance(name, str):
        raise BundleError(f"{folder / 'tokenizer_config.json'}: {key}: expected a piece, got {value!r}")
    return name


def _forbidden(generation: Mapping[str, Any]) -> tuple[int, ...]:
    words = generation.get("bad_words_ids")
    listed = words if isinstance(words, list) else []
    return tuple(word[0] for word in listed if isinstance(word, list) and word and type(word[0]) is int)


def _model(path: Path) -> bytes:
    try:
        return read_regular(path, MAX_MODEL_BYTES)
    except FileNotFoundError:
        raise BundleError(f"{path}: missing") from None
    except OSError as error:
        raise BundleError(f"{path}: cannot be read ({error.strerror})") from None


def _table(path: Path) -> dict[str, Any]:
    try:
        table = json.loads(read_regular(path, LARGEST_JSON))
    except FileNotFoundError:
        raise BundleError(f"{path}: missing") from None
    except OSError as error:
        raise BundleError(f"{path}: cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError):
        raise BundleError(f"{path}: damaged (not JSON)") from None
    if not isinstance(table, dict):
        raise BundleError(f"{path}: damaged (not a JSON object)")
    return table
