"""Malformed input for every reader, verb and request; `make fuzz` runs it as long as one likes."""
