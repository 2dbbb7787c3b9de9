"""Tables of the paper: printed numbers, and the experiment behind each cell."""
