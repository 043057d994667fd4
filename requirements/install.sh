#!/usr/bin/env bash
# Makes or completes .venv for one of the locks: requirements/install.sh runtime|dev
# Called by make, which passes PYTHON (the interpreter to build on) and TORCH (what to ask pip for). Idempotent: what is
# already there in the pinned version stays. Only a finished environment gets its stamp, so an interrupted run is resumed.
set -euo pipefail
cd "$(dirname "$0")/.."
lock=$1
python=${PYTHON:-python3}
torch=${TORCH:-torch==2.13.0}

fail() { printf '%s\n' "$@" >&2; exit 1; }

# Two makes at once: the second waits here, then finds everything installed.
if command -v flock >/dev/null; then
  exec 9>.venv.lock
  flock 9
fi

command -v "$python" >/dev/null || fail "no '$python' on this machine: install Python 3.11 or newer, or say which one: make PYTHON=/path/to/python3"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
  fail "clearhead needs Python 3.11 or newer, and '$python' is $("$python" -V 2>&1): make PYTHON=/path/to/python3"

fresh=
if ! .venv/bin/python -m pip --version >/dev/null 2>&1; then
  "$python" -c 'import ensurepip, venv' 2>/dev/null ||
    fail "'$python' cannot make virtual environments (its ensurepip module is missing)." \
      "On Debian and Ubuntu: apt-get install python3-venv   (or name another interpreter: make PYTHON=/path/to/python3)"
  rm -rf .venv # half-made, or made by an interpreter that is gone
  "$python" -m venv .venv || { rm -rf .venv; fail "'$python' -m venv .venv failed"; }
  fresh=yes
fi

rm -f ".venv/$lock.stamp"
pip() { .venv/bin/python -m pip --disable-pip-version-check "$@"; }

echo "installing requirements/$lock.txt (hashes checked) ..."
pip install --quiet --require-hashes -r "requirements/$lock.txt"
echo "installing $torch (the largest download of all) ..."
# TORCH may carry options of its own ("torch==2.13.0 --index-url ..."), hence no quotes.
# shellcheck disable=SC2086
pip install $torch # not quiet: on a slow line a silent download looks like a hang
echo "installing clearhead, and compiling its native library if there is a C++ compiler ..."
pip install --quiet --no-deps --no-build-isolation --editable .
# pip keeps the warnings of an installation that succeeds to itself: here stands whether there is a library.
.venv/bin/python -c 'from clearhead.cli.versions import surroundings; print(surroundings())'
# Later the owner may have added packages of their own (the benchmarks' peers), which are not ours to judge.
if [ -n "$fresh" ]; then pip check; fi

touch ".venv/$lock.stamp"
if [ "$lock" = dev ]; then touch .venv/runtime.stamp; fi # the development lock holds all of the runtime lock
