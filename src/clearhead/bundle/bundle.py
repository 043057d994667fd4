"""A bundle: one directory that holds all a translator needs, written atomically, read without executing anything.

bundle.toml            format version, languages, model configuration, tokenizer, versions, training summary
weights.safetensors    the parameters by their readable names, tied ones once
ema.safetensors        their exponential moving average, if one was kept
tokenizer/             as `Tokenizers.save` wrote it
training/              in a checkpoint only: optimizer and state
MANIFEST.json          size and SHA-256 of every file, written last
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from clearhead.base.errors import BundleError, ConfigError, InputError
from clearhead.base.files import atomic_directory
from clearhead.bundle.manifest import require_listed, verify_manifest, write_manifest
from clearhead.bundle.weights import TensorFile, expected, read_tensors, state_tensors, write_tensors
from clearhead.config.strict import structure, unstructure
from clearhead.config.toml import dump_toml, load_toml
from clearhead.models.build import build
from clearhead.models.config import ModelConfig
from clearhead.models.seq2seq import Seq2Seq
from clearhead.text.languages import translation_pair
from clearhead.text.tokenizer import Tokenizers

__all__ = [
    "Bundle",
    "BundleInfo",
    "WeightReader",
    "Weights",
    "load_bundle",
    "load_tensors",
    "read_info",
    "save_bundle",
    "verify_bundle",
    "versions",
]

FORMAT = 1
DESCRIPTION = "bundle.toml"
WEIGHTS = "weights.safetensors"
EMA = "ema.safetensors"
TOKENIZER = "tokenizer"
MOST_TOLD = 2000  # characters of what is wrong with a configuration

Weights = Literal["auto", "raw", "ema"]


class WeightReader:
    """Reads the weights of a model that was built on the meta device, part by part; tied ones are shared again."""

    def __init__(self, model: Seq2Seq, path: Path, device: torch.device) -> None:
        """The file must be as the model calls for, which its header shows. Raises `BundleError`."""
        self.device = device
        self._model = model
        tensors, tied = state_tensors(model)
        self._file = TensorFile(path, expected(tensors))
        self._left = {first: [first, *(name for name, other in tied.items() if other == first)] for first in tensors}
        self._names = {module: name for name, module in model.named_modules(remove_duplicate=False)}

    def __call__(self, part: nn.Module) -> None:
        """Read what `part` of the model has and was not read yet. Raises `BundleError`."""
        own = f"{self._names[part]}." if self._names[part] else ""
        for first, names in list(self._left.items()):
            if any(name.startswith(own) for name in names):
                del self._left[first]
                self._put(names, self._file.read([first], device=self.device)[first])

    def _put(self, names: list[str], tensor: Tensor) -> None:
        owner, _, leaf = names[0].rpartition(".")
        before = getattr(self._model.get_submodule(owner), leaf)
        if isinstance(before, nn.Parameter):
            tensor = nn.Parameter(tensor, requires_grad=before.requires_grad)
        for name in names:
            owner, _, leaf = name.rpartition(".")
            setattr(self._model.get_submodule(owner), leaf, tensor)


@dataclass(frozen=True)
class Bundle:
    """A saved model in memory. `languages` is (source, target); `training` the summary of how it came to be.

    `reader` reads the weights of a part of the model, if they were not all read at once.
    """

    model: Seq2Seq
    tokenizers: Tokenizers
    languages: tuple[str, str]
    config: ModelConfig
    training: dict[str, Any] = field(default_factory=dict)
    path: Path | None = None
    reader: WeightReader | None = None


@dataclass(frozen=True)
class BundleInfo:
    """What `bundle.toml` says. `weights` is what "auto" loads: "raw" or "ema"."""

    languages: tuple[str, str]
    config: ModelConfig
    weights: str
    tokenizer: dict[str, Any]
    training: dict[str, Any]
    versions: dict[str, str]


def versions() -> dict[str, str]:
    """The versions that wrote a bundle."""
    return {
        "clearhead": metadata.version("clearhead"),
        "torch": torch.__version__,
        "python": platform.python_version(),
    }


def save_bundle(
    path: Path,
    bundle: Bundle,
    *,
    ema: Mapping[str, Tensor] | None = None,
    extra: Callable[[Path], None] | None = None,
    replace: bool = False,
) -> None:
    """Write `bundle` as the directory `path`, which appears whole or not at all.

    `ema` maps parameter names to averaged values; a bundle that has them is loaded with them by default. `extra`
    is called with the unfinished directory to add files of its own (a checkpoint's optimizer). Raises `BundleError`
    if `path` exists, unless `replace`: then what is there goes once the new one is whole.
    """
    if path.exists() and not replace:
        raise BundleError(f"{path}: exists already; choose another directory or remove it first")
    tensors, _ = state_tensors(bundle.model)
    description = {
        "format": FORMAT,
        "languages": list(bundle.languages),
        "weights": "raw" if ema is None else "ema",
        "model": unstructure(bundle.config),
        "tokenizer": {
            "joint": bundle.tokenizers.joint,
            "source_vocabulary": bundle.tokenizers.source.vocab_size,
            "target_vocabulary": bundle.tokenizers.target.vocab_size,
            "fingerprint": bundle.tokenizers.fingerprint,
        },
        "training": bundle.training,
        "versions": versions(),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_directory(path, replace=replace) as unfinished:
        (unfinished / DESCRIPTION).write_text(dump_toml(description), encoding="utf-8")
        write_tensors(unfinished / WEIGHTS, tensors)
        if ema is not None:
            write_tensors(unfinished / EMA, {name: ema.get(name, tensor) for name, tensor in tensors.items()})
        bundle.tokenizers.save(unfinished / TOKENIZER)
        if extra is not None:
            extra(unfinished)
        write_manifest(unfinished)


def read_info(path: Path) -> BundleInfo:
    """Read `bundle.toml` alone (nothing is verified and no tensor is read): for `clearhead info`.

    Raises `BundleError` when there is none or it does not say what it must.
    """
    where = path / DESCRIPTION
    if not where.is_file():
        raise BundleError(f"{path}: not a bundle (it has no {DESCRIPTION})")
    try:
        description = load_toml(where)
        found = description.get("format")
        if found != FORMAT:
            raise BundleError(f"{where}: format {_cut(repr(found))}; this version of clearhead reads format {FORMAT}")
        languages = _languages(description["languages"], where)
        weights = description["weights"]
        if weights not in ("raw", "ema"):
            raise BundleError(f"{where}: weights: expected 'raw' or 'ema', got {_cut(repr(weights))}")
        config = structure(ModelConfig, description["model"], where=str(where), under="model")
        return BundleInfo(
            languages,
            config,
            weights,
            dict(description["tokenizer"]),
            dict(description["training"]),
            {name: str(version) for name, version in description["versions"].items()},
        )
    except ConfigError as error:  # says where by itself
        raise BundleError(_cut(str(error), MOST_TOLD)) from None
    except KeyError as error:
        raise BundleError(f"{where}: damaged (it lacks {error})") from None
    except (TypeError, ValueError, AttributeError):
        raise BundleError(f"{where}: damaged (not as clearhead writes it)") from None


def _languages(codes: Any, where: Path) -> tuple[str, str]:
    try:
        return translation_pair([_cut(str(code), 40) for code in codes])
    except InputError as error:
        raise BundleError(f"{where}: languages: {_cut(str(error), 300)}") from None


def _cut(text: str, most: int = 100) -> str:
    """At most so many characters: what a file says is told, but not a page of it."""
    return text if len(text) <= most else text[: most - 1] + "…"


def load_bundle(
    path: Path | str, *, weights: Weights = "auto", device: torch.device | str | None = None, whole: bool = True
) -> Bundle:
    """Verify and load the bundle at `path` (see `resolve` for run directories); the model is in eval mode.

    `weights`: "raw" the parameters as trained, "ema" their moving average, "auto" the average when the bundle has
    one. Every file must be as it was written, and every tensor as the configuration calls for. If not `whole`, the
    weights are left in their file for the bundle's `reader`. Raises `BundleError`.
    """
    from clearhead.bundle.resolve import resolve

    directory = resolve(path)
    listed = verify_bundle(directory)
    info = read_info(directory)
    chosen = info.weights if weights == "auto" else weights
    if chosen == "ema" and EMA not in listed:
        raise BundleError(f"{directory}: has no moving average ({EMA}); ask for the raw weights")
    model = build(info.config, device="meta")
    reader = WeightReader(model, directory / (EMA if chosen == "ema" else WEIGHTS), torch.device(device or "cpu"))
    if whole:
        reader(model)
    model.eval()
    tokenizers = Tokenizers.load(directory / TOKENIZER)
    if tokenizers.fingerprint != info.tokenizer.get("fingerprint"):
        raise BundleError(f"{directory / TOKENIZER}: not the tokenizer that the model was trained with")
    whole_or_reader = None if whole else reader
    return Bundle(model, tokenizers, info.languages, info.config, info.training, directory, whole_or_reader)


def verify_bundle(directory: Path) -> frozenset[str]:
    """Verify the manifest, and that it covers what is read of every bundle; return the names that may be read.

    Raises `BundleError`.
    """
    listed = verify_manifest(directory)
    require_listed(directory, listed, DESCRIPTION, WEIGHTS, folder=TOKENIZER)
    return listed


def load_tensors(model: Seq2Seq, directory: Path) -> None:
    """Copy the weights of a verified bundle, those that it would be used with, into a model that has its shapes.

    Raises `BundleError`.
    """
    listed = verify_bundle(directory)
    chosen = EMA if read_info(directory).weights == "ema" else WEIGHTS
    require_listed(directory, listed, chosen)
    tensors, _ = state_tensors(model)
    with torch.no_grad():
        for name, tensor in read_tensors(directory / chosen, expected(tensors)).items():
            tensors[name].copy_(tensor)
