"""The program `clearhead`: its commands, and how every failure of theirs ends.

Exit codes: 0 done · 1 failure at run time · 2 usage or bad input · 130 interrupted · 143 ended by SIGTERM, 129 by
SIGHUP. A user's mistake never shows a traceback; a fault of ours does.
"""

from __future__ import annotations

import codecs
import io
import os
import sys
from typing import Annotated, Any, NoReturn

import typer
import typer.core

from clearhead.base.errors import ClearheadError
from clearhead.base.log import printable
from clearhead.cli import data
from clearhead.cli.account import account
from clearhead.cli.average import average
from clearhead.cli.compare import compare
from clearhead.cli.ending import Ended, end_at_once, unwinding_on_signals
from clearhead.cli.evaluate import evaluate
from clearhead.cli.export import export
from clearhead.cli.import_ import import_
from clearhead.cli.info import info
from clearhead.cli.inspect import inspect
from clearhead.cli.score import score
from clearhead.cli.train import train
from clearhead.cli.translate import translate
from clearhead.cli.verify import verify
from clearhead.cli.walk import walk

__all__ = ["app", "main"]

USAGE: Any = typer.BadParameter.__base__  # what typer raises for wrong arguments; it has no public name


class Program(typer.core.TyperGroup):
    """The commands, with one place where their failures become messages and exit codes."""

    def make_context(self, *arguments: Any, **named: Any) -> Any:
        """Read what comes before the command."""
        try:
            return super().make_context(*arguments, **named)
        except USAGE as error:
            error.message = printable(error.message)  # it quotes what was typed
            raise

    def invoke(self, ctx: Any) -> Any:
        """Run the command. Usage errors (exit code 2) are typer's own."""
        try:
            with unwinding_on_signals():
                result = super().invoke(ctx)
                if sys.stdout is not None:
                    sys.stdout.flush()
        except ClearheadError as error:
            _fail(str(error), error.exit_code)
        except Ended as ended:
            _fail(f"ended by {ended.name}", ended.exit_code)
        except KeyboardInterrupt:
            _fail("interrupted", 130)
        except (MemoryError, RuntimeError) as error:  # PyTorch has no class for it on a CPU
            if not isinstance(error, MemoryError) and "allocate memory" not in str(error):
                raise
            known = f" ({error})" if isinstance(error, MemoryError) and str(error) else ""
            _fail(f"memory ran out{known}: free some, or ask for less at once", 1)
        except BrokenPipeError:
            # The reader of our output has gone, as in `… | head`: no failure of ours, and nobody is left to tell.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise SystemExit(0) from None
        except USAGE as error:
            error.message = printable(error.message)
            raise
        except OSError as error:
            # What no recipe expected of the disk: a name too long, a file where a folder should be. Files that are
            # written say their own names, so that an error without one is that of standard output.
            if error.filename is None:
                _fail(f"standard output: cannot be written: {error.strerror or error}", 1)
            from clearhead.base.files import file_error

            told = file_error(error.filename, "used", error)
            _fail(str(told), told.exit_code)
        return result


def _fail(message: str, code: int) -> NoReturn:
    print(f"error: {printable(message)}", file=sys.stderr)
    raise SystemExit(code)


# Plain help and plain errors: rich costs a tenth of a second at every start.
app = typer.Typer(
    name="clearhead",
    cls=Program,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Train a translator on your own parallel text, translate with it, and trust it.",
)
app.add_typer(data.app, name="data")
for command in (
    train, translate, evaluate, score, average, info, account, verify, walk, inspect, compare, export, import_
):  # fmt: skip
    app.command(command.__name__.rstrip("_"))(command)


def _print_version(wanted: bool) -> None:
    if wanted:
        from clearhead import __version__
        from clearhead.cli.versions import surroundings

        print(f"clearhead {__version__} ({surroundings()})")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Say more on standard error.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing but warnings and errors.")] = False,
) -> None:
    from clearhead.base import log

    log.setup(verbose, quiet)


def _escaped(error: UnicodeError) -> tuple[str, int]:
    """What an encoding lacks as the escapes of JSON, which a report in JSON stays readable with."""
    assert isinstance(error, UnicodeEncodeError)
    lacking = error.object[error.start : error.end].encode("utf-16-be", "surrogatepass")
    halves = (int.from_bytes(lacking[at : at + 2], "big") for at in range(0, len(lacking), 2))
    return "".join(f"\\u{half:04x}" for half in halves), error.end


def main() -> None:
    """Run the program with the arguments of the process, and exit with its code."""
    codecs.register_error("clearhead.escaped", _escaped)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # file names need not be text, and a terminal may know ASCII only
            stream.reconfigure(errors="clearhead.escaped")
    end_at_once()
    app()
