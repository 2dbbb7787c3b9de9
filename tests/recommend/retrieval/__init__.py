"""Tests of exact and approximate search, and of ranking measures."""
