"""Malformed files for every reader; `make fuzz` runs them for as long as one likes."""
