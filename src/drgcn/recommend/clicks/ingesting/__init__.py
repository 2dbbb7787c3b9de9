"""Tables of clicks of any size into a folder, by DuckDB under a memory limit."""
