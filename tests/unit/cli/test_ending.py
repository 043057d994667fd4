"""How signals end a block: whatever becomes of the exception on its way, and never in the midst of an import."""

import contextlib
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from clearhead.cli.ending import Ended, unwinding_on_signals
from tests.unit.recipes.tiny import save_tiny

# A signal at the moment that numpy, which torch's own start-up wants, is half there: torch swallows what is raised.
DURING_IMPORT = """
import os, signal, sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "{module}":
            os.kill(os.getpid(), signal.{name})
sys.meta_path.insert(0, Finder())
from clearhead.cli.main import main
main()
"""


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    numbers = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGALRM)
    before = {number: signal.getsignal(number) for number in numbers}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save_tiny(tmp_path_factory.mktemp("bundles") / "tiny"))


@pytest.mark.parametrize("module", ["numpy.lib._arrayterator_impl", "clearhead.recipes.translator"])
@pytest.mark.parametrize(("name", "code"), [("SIGTERM", 143), ("SIGINT", 130)])
def test_a_signal_during_an_import_is_not_lost(bundle: str, module: str, name: str, code: int) -> None:
    """It ends the command soon, not after its work."""
    program = [sys.executable, "-c", DURING_IMPORT.format(module=module, name=name)]
    command = [*program, "--quiet", "translate", bundle, "--max-length", "50"]
    done = subprocess.run(command, capture_output=True, text=True, input="the cat\n" * 200)
    assert done.returncode == code, done.stderr
    assert done.stderr in ("error: ended by SIGTERM\n", "error: interrupted\n")
    assert done.stdout == ""


BEFORE_COMMAND = """
import os, signal
from clearhead.cli import main
def signalled(*_, **__):
    os.kill(os.getpid(), signal.{name})
    return make(*_, **__)
make, main.Program.make_context = main.Program.make_context, signalled
main.main()
"""


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_before_the_command_a_signal_simply_kills(name: str) -> None:
    program = [sys.executable, "-c", BEFORE_COMMAND.format(name=name), "--version"]
    done = subprocess.run(program, capture_output=True, text=True)
    assert done.returncode == -signal.Signals[name]
    assert done.stderr == done.stdout == ""


@pytest.mark.parametrize("kind", [signal.SIGTERM, signal.SIGINT])
def test_what_swallows_or_renames_the_exception_does_not_keep_the_block_from_ending(kind: signal.Signals) -> None:
    def swallowing() -> None:
        with contextlib.suppress(BaseException):
            signal.raise_signal(kind)

    def renaming() -> None:
        try:
            signal.raise_signal(kind)
        except BaseException as error:
            raise RuntimeError("INTERNAL") from error  # as SentencePiece does

    for body in (swallowing, renaming):
        signal.signal(kind, signal.default_int_handler if kind == signal.SIGINT else signal.SIG_DFL)
        with pytest.raises(KeyboardInterrupt) as caught, unwinding_on_signals():
            body()
        assert isinstance(caught.value, Ended) == (kind == signal.SIGTERM)


def test_a_second_one_does_not_cut_the_unwinding_short() -> None:
    unwound = []

    @unwinding_on_signals()
    def command() -> None:
        try:
            signal.raise_signal(signal.SIGTERM)
        finally:
            signal.raise_signal(signal.SIGTERM)
            unwound.append(True)

    with pytest.raises(Ended, match="15"):
        command()
    assert unwound
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN  # until the message is told


def test_what_was_ignored_stays_ignored_and_all_is_put_back() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    before = signal.getsignal(signal.SIGTERM)
    with unwinding_on_signals():
        signal.raise_signal(signal.SIGHUP)
        assert signal.getsignal(signal.SIGTERM) is not before
    assert signal.getsignal(signal.SIGTERM) is before
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
