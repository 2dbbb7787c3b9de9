"""Experiments of the paper: recipes, runs, records, reproduction and reports."""
