"""What a run stands on, and whether it may begin or go on: all that can be known before its text is read."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from clearhead.base.errors import BundleError, ConfigError, InputError
from clearhead.base.files import atomic_write, sha256_file
from clearhead.base.log import logger
from clearhead.bundle.bundle import read_info, verify_bundle
from clearhead.bundle.manifest import MANIFEST
from clearhead.bundle.resolve import BEST, CHECKPOINTS, is_bundle, resolve, steps
from clearhead.config.strict import unstructure
from clearhead.config.toml import dump_toml, merge
from clearhead.models.config import ModelConfig
from clearhead.recipes.run_average import AVERAGE
from clearhead.recipes.run_config import CONFIG, RunConfig, changed_keys, differences, resolve_model, resolved
from clearhead.recipes.training_data import check_cache, check_text, tokenizer_text
from clearhead.text.languages import is_known, likely_meant
from clearhead.text.tokenizer import Tokenizer, Tokenizers
from clearhead.training.device import Compute, choose_compute
from clearhead.training.display import TensorBoard
from clearhead.training.events import METRICS, read_metrics

__all__ = [
    "CURVE",
    "LOG",
    "TENSORBOARD",
    "Parts",
    "check_ahead",
    "check_places",
    "choose_parts",
    "clear_run",
    "learn_parts",
    "refuse_lost",
    "run_compute",
    "write_config",
]

LOG = "train.log"
CURVE = "curve.png"
TENSORBOARD = "tensorboard"
# What shows that there were checkpoints goes before them, so that a removal cut short is no sign of lost ones.
PRODUCTS = (BEST, METRICS, AVERAGE, CHECKPOINTS, TENSORBOARD, CURVE, LOG)
FOLLOWING = ("model.vocab_size", "model.source_vocab_size")  # from the tokenizer, so no change of their own


@dataclass(frozen=True)
class Parts:
    """What a run stands on: text model, network and their origin.

    `origin` is the bundle that the weights come from when the run begins; `origin_digest` says what that bundle held,
    for a resume that names another path.
    """

    config: RunConfig
    model_config: ModelConfig
    tokenizers: Tokenizers
    origin: Path | None = None
    origin_digest: str | None = None


def choose_parts(config: RunConfig, checkpoint: Path | None, state: Mapping[str, Any] | None) -> Parts | None:
    """Tokenizer and model of the checkpoint to go on from, or of `init`; None when they are yet to be made.

    Raises `ConfigError` naming each key that may not differ from what is there, with both values, and `BundleError`
    for an `init` that is not sound.
    """
    if checkpoint is not None and state is not None:
        return _of_checkpoint(config, checkpoint, state.get("identity", {}))
    return None if config.init is None else _of_origin(config, config.init)


def learn_parts(config: RunConfig) -> Parts:
    """A tokenizer learnt from the training text, and the model that `config` describes."""
    logger.info("learning the tokenizer")
    tokenizers = Tokenizers.train(config.tokenizer, lambda: tokenizer_text(config.data))
    sizes = tokenizers.source.vocab_size, tokenizers.target.vocab_size
    model_config = resolve_model(config.model, *sizes, tokenizers.joint)
    return Parts(resolved(config, model_config, tokenizers), model_config, tokenizers)


def check_ahead(config: RunConfig, run: Path) -> None:
    """Find what would stop the run later, before minutes are spent on tokenizer and token stores.

    Raises `InputError` for text that is not there, or not aligned, for a cache that cannot be written, and for an
    extra that is not installed. A language that is not known is no error: it is told.
    """
    for code in config.data.languages:
        if not is_known(code):
            meant = likely_meant(code)
            logger.warning(
                "data.languages: clearhead does not know %r%s; BLEU splits its words by the rules of 13a",
                code,
                f" (did you mean {meant!r}?)" if meant else "",
            )
    if config.training.tensorboard:
        TensorBoard(run / TENSORBOARD, config.training.log_every)  # says so if it is not installed; writes nothing yet
    check_cache(config.data, run)
    check_text(config.data)


def check_places(run: Path, *, fresh: bool) -> None:
    """Refuse what stands where the run will write its files and is none. `fresh`: most of it is about to be removed.

    Raises `InputError`.
    """
    for name in (CONFIG,) if fresh else (CONFIG, METRICS, BEST, LOG, CURVE):
        if (run / name).exists() and not (run / name).is_file():
            raise InputError(f"{run / name}: not a regular file, so the run cannot write it; remove it first")


def refuse_lost(run: Path, save_every: int) -> None:
    """Refuse to begin where the checkpoints of a trained run have gone: that must be the user's decision.

    A run that was killed before its first checkpoint begins again. Raises `BundleError`.
    """
    reached = max((line["update"] for line in read_metrics(run / METRICS)), default=0)
    signs = {
        BEST: (run / BEST).exists(),
        AVERAGE: is_bundle(run / AVERAGE),
        METRICS: 0 < save_every < reached,
    }
    if found := [name for name, there in signs.items() if there]:
        raise BundleError(
            f"{run}: there is no checkpoint, but {' and '.join(found)} of a run that was trained; "
            "bring its checkpoints back, train elsewhere (--out), or start again with --fresh"
        )


def run_compute(config: RunConfig, state: Mapping[str, Any] | None) -> Compute:
    """Device, precision and threads: for a resumed run the thread count that it began with, unless one is asked for.

    Raises `ConfigError` for a device that is not there.
    """
    training = config.training
    threads = training.threads or (int(state["threads"]) if state is not None else 0)
    try:
        compute = choose_compute(training.device, training.precision, threads)
    except ConfigError as error:
        raise ConfigError(f"training.{str(error).removeprefix('training.')}") from None
    if state is not None:
        then = {
            "device": state["device"].partition(":")[0],
            "precision": state["precision"],
            "threads": state["threads"],
            "torch": state["versions"]["torch"],
        }
        now = {
            "device": compute.device.type,
            "precision": compute.precision,
            "threads": compute.threads,
            "torch": torch.__version__,
        }
        if changed := [f"{name} {now[name]} (the run had {then[name]})" for name in then if then[name] != now[name]]:
            logger.warning("resumed with %s: results will not be equal to the bit", ", ".join(changed))
    return compute


def write_config(run: Path, config: RunConfig) -> None:
    """Write `config` as the run's config.toml, unless it says so already."""
    content = dump_toml(unstructure(config)).encode()
    where = run / CONFIG
    if not where.exists() or where.read_bytes() != content:
        atomic_write(where, content)


def clear_run(run: Path) -> None:
    """Remove what an earlier run left, but for its cache, which is keyed by content, and its configuration.

    The configuration must be the new run's by now: cut short, a removal then leaves checkpoints that do not fit it,
    which nothing goes on from by mistake.
    """
    if steps(run):
        logger.warning("--fresh: removing the %d checkpoints in %s", len(steps(run)), run)
    for name in PRODUCTS:
        path = run / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


# ------------------------------------------------------------------------------------------ from a checkpoint, or init


def _of_checkpoint(config: RunConfig, checkpoint: Path, identity: Mapping[str, Any]) -> Parts:
    """Those of the run itself, if `config` is what it was begun with."""
    tokenizers = Tokenizers.load(checkpoint / "tokenizer")
    if config.init is None:
        # The model for the tokenizer that is asked for, so that a changed tokenizer is told as such.
        size, joint = config.tokenizer.vocab_size, config.tokenizer.joint
        model_config = resolve_model(config.model, size, size, joint)
        asked = config.model_copy(update={"model": unstructure(model_config)})
    else:
        _refuse_tokenizer(config, tokenizers, config.init)
        tokenizers = _with_sampling(tokenizers, config.tokenizer.sampling)
        model_config = _model_like(config, read_info(checkpoint).config, tokenizers)
        asked = resolved(config, model_config, tokenizers)
    _refuse_changes(config, unstructure(asked), identity)
    return Parts(resolved(config, model_config, tokenizers), model_config, tokenizers, None, identity.get("init"))


def _of_origin(config: RunConfig, init: str) -> Parts:
    """Those of the bundle `init`, with this run's rates of dropout and sampling."""
    origin = resolve(init)
    verify_bundle(origin)
    info = read_info(origin)
    tokenizers = Tokenizers.load(origin / "tokenizer")
    _refuse_tokenizer(config, tokenizers, init)
    _refuse_tags(config, tokenizers, init)
    tokenizers = _with_sampling(tokenizers, config.tokenizer.sampling)
    model_config = _model_like(config, info.config, tokenizers)
    _refuse(
        "a fine-tuned model is that of init, but for its dropout:",
        [
            f"model.{key}: {old!r} in {init}, {new!r} asked for"
            for key, old, new in differences(unstructure(info.config), unstructure(model_config))
            if key.rpartition(".")[2] != "dropout"
        ],
        "leave these out, or train a new model (without --init)",
    )
    if info.languages != config.data.languages:
        logger.warning("%s translates %s, this run %s", init, info.languages, config.data.languages)
    return Parts(resolved(config, model_config, tokenizers), model_config, tokenizers, origin, _digest(origin))


def _model_like(config: RunConfig, model: ModelConfig, tokenizers: Tokenizers) -> ModelConfig:
    """`model` with what `config` says otherwise."""
    sizes = tokenizers.source.vocab_size, tokenizers.target.vocab_size
    return resolve_model(merge(unstructure(model), config.model), *sizes, tokenizers.joint)


def _with_sampling(tokenizers: Tokenizers, sampling: float) -> Tokenizers:
    """The same pieces with this run's subword sampling, which is a matter of training and not of the vocabulary."""

    def renewed(tokenizer: Tokenizer) -> Tokenizer:
        return Tokenizer(tokenizer.model, tokenizer.config.model_copy(update={"sampling": sampling}))

    if tokenizers.config.sampling == sampling:
        return tokenizers
    source = renewed(tokenizers.source)
    return Tokenizers(source, source if tokenizers.joint else renewed(tokenizers.target), tokenizers.report)


# ---------------------------------------------------------------------------------------------------------- refusals


def _refuse(what: str, lines: list[str], remedy: str) -> None:
    if lines:
        listed = "\n  ".join(lines)
        raise ConfigError(f"{what}\n  {listed}\n  {remedy}")


def _refuse_tokenizer(config: RunConfig, tokenizers: Tokenizers, init: str) -> None:
    """The tokenizer is that of `init`: keys that were given beside it must say the same; sampling may differ."""
    given, have = unstructure(config.tokenizer), unstructure(tokenizers.config)
    _refuse(
        "a fine-tuned model keeps the tokenizer of init:",
        [
            f"tokenizer.{key}: {have[key]!r} in {init}, {given[key]!r} asked for"
            for key in given
            if key in config.tokenizer.model_fields_set and key != "sampling" and given[key] != have[key]
        ],
        "leave these out, or train a new model (without --init)",
    )


def _refuse_tags(config: RunConfig, tokenizers: Tokenizers, init: str) -> None:
    """A tag must be a symbol of the tokenizer of `init`, which cannot get any more."""
    known = tokenizers.config.symbols
    _refuse(
        f"a fine-tuned model has the tags of init, {', '.join(known) or 'none'}:",
        [
            f"{key}.tag: {corpus.tag!r} is no symbol of the tokenizer of {init}"
            for key, corpus in config.data.named
            if corpus.tag is not None and corpus.tag not in known
        ],
        "leave these out, or train a new model (without --init)",
    )


def _refuse_changes(config: RunConfig, asked: dict[str, Any], identity: Mapping[str, Any]) -> None:
    """Refuse to go on if what the run is made of differs from `asked`, which is `config` with its whole model."""
    before = dict(identity.get("config", {}))
    first = _changed_init(before.pop("init", None), asked.pop("init", None), identity.get("init"))
    lines = [*first, *(line for line in changed_keys(before, asked) if not line.startswith(FOLLOWING))]
    if "preset" in config.model:
        chosen = {f"model.{key}" for key, _, _ in differences({}, config.model)}
        figures = {line.partition(":")[0] for line in lines if line.startswith("model.")}
        if figures - chosen:
            name = config.model["preset"]
            lines.append(
                f"model.preset: {name!r} is another model than the run was begun with; leave it out (--preset)"
            )
    _refuse(
        f"{config.out}: a run cannot go on with another configuration:",
        lines,
        "restore these, train elsewhere (--out), or start again with --fresh",
    )


def _changed_init(before: str | None, now: str | None, digest: str | None) -> list[str]:
    """The line that refuses another origin.

    The same path is not looked at again: the run has begun, and its origin may be gone or trained further. Another
    path must lead to what the run was begun with, by content, since bundles move.
    """
    if before == now:
        return []
    line = f"init: {before or 'not set'!r} → {now or 'not set'!r}"
    if before is None or now is None:
        return [line]
    try:
        found = _digest(resolve(now))
    except BundleError as error:
        return [f"{line} ({error})"]
    return [] if found == digest else [f"{line} (another model)"]


def _digest(bundle: Path) -> str:
    """What a bundle holds, down to the last byte: its manifest lists every file with its SHA-256."""
    return sha256_file(bundle / MANIFEST)
