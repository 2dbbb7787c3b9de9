"""A dataset without its duplicates, with an account of every node."""
