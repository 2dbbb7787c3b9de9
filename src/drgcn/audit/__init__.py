"""Audit of a dataset for duplicates, label leaks and faults, and refining without duplicates."""
