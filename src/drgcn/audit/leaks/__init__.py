"""Search for labels in the texts and features of nodes."""
