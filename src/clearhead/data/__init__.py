"""From text on disk to batches: corpora, splits, checks, token stores, batch plans. Only `collate` imports torch."""
