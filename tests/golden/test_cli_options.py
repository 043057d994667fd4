"""Every command and option is pinned: scripts in the field depend on them.

After a wanted change, write the golden file anew and say so in the changelog:

    .venv/bin/python -m tests.golden.test_cli_options > tests/golden/cli_options.txt
"""

from pathlib import Path

from clearhead.cli.main import app
from tests.shape.command_line import commands, describe

GOLDEN = Path(__file__).with_name("cli_options.txt")


def options() -> list[str]:
    return [line for path, command in commands(app) for line in describe(path, command)]


def test_cli_options_are_the_pinned_ones() -> None:
    pinned = GOLDEN.read_text(encoding="utf-8").split("\n")[:-1]
    assert options() == pinned, f"if this is wanted: {(__doc__ or '').strip().splitlines()[-1].strip()}"


if __name__ == "__main__":
    print("\n".join(options()))
