"""One module a row of the table that `benchmarks/faults.py` prints; `rows.py` lists them."""
