"""The facts of the handbook, recomputed by the modules that train: one module a chapter (docs/design/0007)."""
