"""A row in a process of its own: `python -m benchmarks.faults ROW COUNT SEED FOLDER RESULT.json`."""

import sys
import time
from pathlib import Path

from benchmarks.faults.rows import run_here, to_json

if __name__ == "__main__":
    name, count, seed, folder, out = sys.argv[1:]
    Path(folder).mkdir(parents=True, exist_ok=True)
    begun = time.monotonic()
    result = run_here(name, int(count), int(seed), Path(folder))
    result.seconds = round(time.monotonic() - begun, 1)
    Path(out).write_text(to_json(result), "utf-8")
