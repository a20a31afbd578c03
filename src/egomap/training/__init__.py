"""A training run: the trainer, its files, its metrics, many ranks."""
