"""Experiments as data: what is run, what came out, and what the paper printed."""
