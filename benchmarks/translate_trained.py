"""A trained model in `translate_speed.py`: free stopping, quality by engine and precision, whole files.

Here translations end where the model ends them, so how long each side goes on matters as much as how quick a step is.
Ours stops when no live hypothesis can overtake the best finished one any more. CTranslate2 stops when as many
hypotheses as the beam is wide have finished (its `patience` of 1). Both rank by log P(Y|X) / |Y|^0.6. CTranslate2 does
not tell its steps; asked, in a run that is not timed, for all hypotheses that it finished, the longest of them tells.
"""

from __future__ import annotations

import lzma
import statistics
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import ROOT, Side, alternate, ratios
from translate_corpus import EOS, name, transformer
from translate_ours import BATCH_TOKENS, Ours, clock, forced
from translate_peers import CTranslate2, missing
from translate_tables import COMPUTE, compare
from translate_ties import near_ties

__all__ = ["STOPPING", "Text", "files", "trained", "where"]

STOPPING = {
    "clearhead": "stops when no live hypothesis can score better than the best finished one",
    "ctranslate2": "stops when as many hypotheses as the beam is wide have finished (patience 1)",
}
MULTI30K = ROOT.parent / "shared" / "data" / "multi30k"
CONTROL = 100
"""Sentences that show how rare a near-tie is."""


@dataclass(frozen=True)
class Text:
    """Lines to translate and, if there are any, their references."""

    sources: list[str]
    references: list[str] | None


def where(arguments: Any) -> tuple[Path, Text] | str:
    """The bundle and the text that the options name, or the first of the defaults that are there; else why not."""
    long, demo = ROOT / "runs" / "multi30k-long", ROOT / "runs" / "demo-en-de"
    bundle = arguments.bundle or next((each for each in (long, demo) if each.exists()), None)
    if bundle is None:
        return f"no trained model: neither {long} nor {demo} is there; `make demo` trains one, --bundle names another"
    if arguments.source is not None:
        return bundle, Text(_lines(arguments.source), arguments.target and _lines(arguments.target))
    paths = [MULTI30K / f"test_2016_flickr.{code}.xz" for code in ("en", "de")]
    if bundle == demo or not paths[0].exists():
        folder = ROOT / "data" / "home-assistant" / "en-de" / "strict"
        paths = [folder / f"test.{code}" for code in ("en", "de")]
    if not paths[0].exists():
        return f"no text: {paths[0]} is not there; `make demo` fetches it, --source and --target name another"
    return bundle, Text(*map(_lines, paths))


def _lines(path: Path) -> list[str]:
    data = path.read_bytes()
    text = (lzma.decompress(data) if path.suffix == ".xz" else data).decode("utf-8")
    return text.removesuffix("\n").split("\n")


class Free:
    """A trained model's engines and CTranslate2, translating the same ids; everything once, to be looked at."""

    def __init__(self, bundle: Path, text: Text, arguments: Any, folder: Path) -> None:
        from clearhead.bundle.bundle import load_bundle

        self.path, self.text, self.arguments = bundle, text, arguments
        self.bundle = load_bundle(bundle)
        self.model = self.bundle.model.eval()
        source = self.bundle.tokenizers.source
        self.sources = [source.encode(line) for line in text.sources]
        self.ended = [[*ids, EOS] for ids in self.sources]
        self.config = _config(arguments.beam)
        self.quality: dict[str, Any] = {}
        self.tokens: dict[str, list[tuple[int, ...]]] = {}
        self.ctranslate2 = None
        if missing("ctranslate2") is None and "ctranslate2" not in arguments.without:
            self.ctranslate2 = CTranslate2(self.model, self.bundle.config, folder)

    def ours(self, kind: str, precision: str) -> Ours:
        """An engine of its own copy of the model."""
        from clearhead.bundle.bundle import load_bundle
        from clearhead.engine.choose import choose_engine

        model = load_bundle(self.path).model.eval()
        return Ours(choose_engine(model, kind, precision, consume=kind == "fast"), self.arguments.threads)

    def look(self, side: str, tokens: Sequence[Sequence[int]], steps: float) -> None:
        """Note quality, steps, and the share of texts that are those of the first side that was looked at."""
        from clearhead.metrics.scores import score_corpus

        target = self.bundle.tokenizers.target
        texts = [target.decode(each) for each in tokens]
        self.tokens[side] = [tuple(each) for each in tokens]
        first = next(iter(self.quality), None)
        base = texts if first is None else self.quality[first]["texts"]
        note: dict[str, Any] = {"texts": texts, "steps a sentence": steps}
        note["same text"] = sum(one == other for one, other in zip(texts, base, strict=True)) / len(texts)
        note["tokens"] = sum(len(each) + 1 for each in tokens)
        if self.text.references:
            code = self.bundle.languages[1]
            note["bleu"] = score_corpus(texts, self.text.references, target_language=code).bleu.value
        self.quality[side] = note


def _config(beam: int) -> Any:
    from clearhead.decoding import DecodingConfig

    return DecodingConfig(beam=beam, penalty="length", alpha=0.6)


def trained(bundle: Path, text: Text, arguments: Any) -> dict[str, Any]:
    """Quality of every engine and precision, proofs of near-ties, and speed beside CTranslate2."""
    with tempfile.TemporaryDirectory() as folder:
        free = Free(bundle, text, arguments, Path(folder) / "ctranslate2")
        sides = {}
        for kind, precision in (("plain", "fp32"), ("fast", "fp32"), ("fast", "bf16"), ("fast", "int8")):
            ours = free.ours(kind, precision)
            found = ours.search(free.sources, free.config)
            free.look(f"{kind} {precision}", [each.tokens for each in found], ours.steps or 0.0)
            if kind == "fast":
                sides[precision] = ours
        theirs = {precision: _ctranslate2(free, precision) for precision in COMPUTE} if free.ctranslate2 else {}
        result: dict[str, Any] = {
            "sentences": len(free.sources),
            "stopping": STOPPING,
            "near ties": _proofs(free),
            "engine": str(sides["int8"].engine.description),
        }
        for precision in COMPUTE:
            mine = Side(
                f"clearhead {precision}",
                _free_run(sides[precision], free.sources, free.config),
                float(free.quality[f"fast {precision}"]["tokens"]),
                "target tokens/s",
            )
            peers = {"ctranslate2": theirs.get(precision, [])}
            result[precision] = compare([mine], peers, arguments.rounds, warmup=arguments.warmup)
        if text.references:
            result["int8 loses"] = free.quality["plain fp32"]["bleu"] - free.quality["fast int8"]["bleu"]
        result["quality"] = {
            side: {key: value for key, value in note.items() if key != "texts"} for side, note in free.quality.items()
        }
    return result


def _free_run(ours: Ours, sources: Sequence[Sequence[int]], config: Any) -> Callable[[], float]:
    now = clock(ours.threads)

    def run() -> float:
        start = now()
        ours.search(sources, config)
        return now() - start

    return run


def _ctranslate2(free: Free, precision: str) -> list[Side]:
    """Look at its translations, then its two quickest settings."""
    assert free.ctranslate2 is not None
    threads, beam = free.arguments.threads, free.config.beam
    named = [name(ids) for ids in free.sources]
    options = {"beam_size": beam, "length_penalty": 0.6}
    now = clock(threads)
    trials = []
    for workers, each in dict.fromkeys([(threads, 1), (1, threads)]):
        translator = free.ctranslate2.translator(COMPUTE[precision], workers, each)
        if not trials:
            told = translator.translate_batch(named, max_batch_size=32, num_hypotheses=beam, **options)
            ids = [[int(token[1:]) for token in one.hypotheses[0]] for one in told]
            steps = statistics.mean(max(len(tokens) + 1 for tokens in one.hypotheses) for one in told)
            free.look(f"ctranslate2 {precision}", ids, steps)

        for batch in (16, 32, 64):

            def run(translator: Any = translator, batch: int = batch) -> float:
                start = now()
                translator.translate_batch(named, max_batch_size=batch, **options)
                return now() - start

            title = f"ctranslate2 {precision} {workers}x{each}, batch {batch}"
            work = float(free.quality[f"ctranslate2 {precision}"]["tokens"])
            trials.append(Side(title, run, work, "target tokens/s"))
    trials[0].run()
    return sorted(trials, key=lambda side: side.run())[:2]


def _proofs(free: Free) -> dict[str, Any]:
    """What the plain model in float64 says where fast fp32 and plain differ."""
    plain, fast = free.tokens["plain fp32"], free.tokens["fast fp32"]
    apart = [place for place, (one, other) in enumerate(zip(plain, fast, strict=True)) if one != other]
    alike = [place for place in range(len(plain)) if plain[place] == fast[place]][:CONTROL]
    return near_ties(
        free.model.double(),
        [free.ended[place] for place in apart],
        [(plain[place], fast[place]) for place in apart],
        [free.ended[place] for place in alike],
        free.config,
    )


def files(bundle: Path, text: Text, arguments: Any) -> dict[str, Any]:
    """`translate_file`, from a file to a file, beside the bare engine on the same ids, int8.

    The trained model, and one of bench-tiny's size with the same tokenizer, random weights and forced lengths.
    """
    from clearhead.bundle.bundle import Bundle, load_bundle, save_bundle
    from clearhead.models import build

    first = load_bundle(bundle)
    size = arguments.sizes["bench-tiny"] | {"vocab": first.tokenizers.target.vocab_size}
    result = {}
    with tempfile.TemporaryDirectory() as scratch:
        other = Path(scratch) / "bench-tiny"
        config = transformer(size)
        save_bundle(other, Bundle(build(config, seed=arguments.seed), first.tokenizers, first.languages, config))
        lines = (text.sources * (1 + arguments.lines // len(text.sources)))[: arguments.lines]
        source = Path(scratch) / "source.txt"
        source.write_text("".join(f"{line}\n" for line in lines), "utf-8")
        for title, path in (("trained", bundle), ("bench-tiny", other)):
            for beam in (arguments.beam, 1):
                search = _config(beam) if title == "trained" else forced(beam)
                result[f"{title}, beam {beam}"] = _end_to_end(path, source, lines, search, arguments)
    return result


def _end_to_end(path: Path, source: Path, lines: list[str], config: Any, arguments: Any) -> dict[str, Any]:
    import torch

    from clearhead.bundle.bundle import load_bundle
    from clearhead.engine.choose import choose_engine
    from clearhead.recipes.translate import load, translate_file

    torch.set_num_threads(arguments.threads)
    whole = load_bundle(path)
    ids = [whole.tokenizers.source.encode(line) for line in lines]
    ours = Ours(choose_engine(whole.model.eval(), "fast", "int8", consume=True), arguments.threads)
    translator = load(path, device="cpu", engine="fast", precision="int8")
    now = clock(arguments.threads)

    def file() -> float:
        start = now()
        translate_file(translator, config, source, source.with_suffix(".out"), batch_tokens=BATCH_TOKENS)
        return now() - start

    work = float(len(lines))
    sides = [Side("file to file", file, work, "lines/s"), Side("bare engine", _free_run(ours, ids, config), work)]
    alternate(sides, arguments.rounds)
    return {
        "sides": {side.name: {"seconds": side.seconds, "rate": side.rate, "work": side.work} for side in sides},
        "ratios": {"bare engine": ratios(*sides)},
    }
