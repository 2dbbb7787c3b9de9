"""What is wrong with a dataset: duplicates, label leaks, hygiene; and a dataset without it."""
