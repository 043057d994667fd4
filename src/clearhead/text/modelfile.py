"""Look over the bytes of a SentencePiece model before its C++ reader sees them.

The reader crashes the process on some damaged or hostile files (a piece above about 100 KB, SentencePiece issue
1263; a broken normalisation table). Here the outer structure of the protobuf message is walked in plain Python and
everything that a model made by clearhead never contains is refused with a `BundleError`.
"""

from collections.abc import Iterator

from clearhead.base.errors import BundleError
from clearhead.text.charactermap import check_character_map

__all__ = ["MAX_MODEL_BYTES", "check_model_bytes", "model_kind", "with_leading_space"]

MAX_MODEL_BYTES = 64 * 1024 * 1024
_MAX_PIECE_BYTES = 4096  # 512 characters of 4 bytes, score and type with room to spare
_LENGTH_PREFIXED = 2
# Field numbers of ModelProto (sentencepiece_model.proto).
_PIECES, _TRAINER, _NORMALIZER, _SELF_TEST, _DENORMALIZER = 1, 2, 3, 4, 5
_KNOWN = frozenset({_PIECES, _TRAINER, _NORMALIZER, _SELF_TEST, _DENORMALIZER})
_KIND = 3  # TrainerSpec.model_type
_KINDS = {1: "unigram", 2: "bpe", 3: "word", 4: "char"}
_CHARACTER_MAP, _DUMMY_PREFIX = 2, 3  # NormalizerSpec.precompiled_charsmap, add_dummy_prefix
_FIXED_SIZES = {1: 8, 5: 4}


def check_model_bytes(model: bytes, where: str, *, foreign: bool = False) -> None:
    """Refuse a model file that is too large, damaged or not of clearhead's making.

    A `foreign` one may change characters (Unicode normalisation), by a table that is looked over, too.

    Raises:
        BundleError: naming `where` (the file) and what is wrong with it.
    """
    if len(model) > MAX_MODEL_BYTES:
        raise BundleError(f"{where}: {len(model):,} bytes; a tokenizer model has at most {MAX_MODEL_BYTES:,}")
    pieces = 0
    try:
        for number, wire, start, end in _fields(model, 0, len(model)):
            if number not in _KNOWN or wire != _LENGTH_PREFIXED:
                raise ValueError(f"unknown field {number}")
            if number == _PIECES:
                pieces += 1
                if end - start > _MAX_PIECE_BYTES:
                    raise ValueError(f"piece {pieces - 1} is {end - start:,} bytes long")
            elif number in (_NORMALIZER, _DENORMALIZER):
                _check_normaliser(model, start, end, foreign)
    except ValueError as problem:
        raise BundleError(
            f"{where}: not a tokenizer model{'' if foreign else ' of clearhead'}, or damaged ({problem}); restore the "
            "file from its origin"
        ) from None
    if pieces == 0:
        raise BundleError(f"{where}: holds no pieces; restore the file from its origin")


def model_kind(model: bytes) -> str:
    """How a model that passed `check_model_bytes` was learnt: "bpe", "unigram" (also when it does not say), …

    Raises:
        ValueError: it is damaged.
    """
    kind = 1
    for number, _, start, end in _fields(model, 0, len(model)):
        if number == _TRAINER:
            for inner, wire, value, after in _fields(model, start, end):
                if inner == _KIND and wire == 0:
                    kind, _ = _varint(model, value, after)
    return _KINDS.get(kind, "unknown")


def with_leading_space(model: bytes) -> bytes:
    """The same model, but that it puts a space before every text by itself, as `Tokenizer` does for its own.

    Raises:
        ValueError: it is damaged.
    """
    parts = [b""]
    for number, _, start, end in _fields(model, 0, len(model)):
        value = model[start:end]
        if number == _NORMALIZER:
            value += _written_varint(_DUMMY_PREFIX << 3) + b"\1"  # of a field that stands there twice the last counts
        parts += [_written_varint(number << 3 | _LENGTH_PREFIXED), _written_varint(len(value)), value]
    return b"".join(parts)


def _check_normaliser(model: bytes, start: int, end: int, foreign: bool) -> None:
    for number, wire, inner, inner_end in _fields(model, start, end):
        if number == _CHARACTER_MAP and (wire != _LENGTH_PREFIXED or inner_end > inner):
            if wire != _LENGTH_PREFIXED or not foreign:
                raise ValueError("it changes characters before it splits them")
            check_character_map(model[inner:inner_end])


def _fields(model: bytes, start: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """Yield (field number, wire type, start, end) of each field's value in a protobuf message."""
    position = start
    while position < end:
        key, position = _varint(model, position, end)
        wire = key & 7
        if wire == _LENGTH_PREFIXED:
            length, position = _varint(model, position, end)
            after = position + length
        elif wire == 0:
            _, after = _varint(model, position, end)
        elif wire in _FIXED_SIZES:
            after = position + _FIXED_SIZES[wire]
        else:
            raise ValueError(f"wire type {wire} at byte {position}")
        if after > end:
            raise ValueError(f"cut short at byte {position}")
        yield key >> 3, wire, position, after
        position = after


def _written_varint(value: int) -> bytes:
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*written, value])


def _varint(model: bytes, position: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while position < end and shift < 64:
        byte = model[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    raise ValueError(f"cut short at byte {position}")
