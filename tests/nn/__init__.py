"""Tests of drgcn.nn; a package, since test_features.py has a namesake in tests/data."""
