"""Refining of a dataset: duplicates merged, with an account of every node."""
