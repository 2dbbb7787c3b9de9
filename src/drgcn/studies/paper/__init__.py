"""What the paper prints, and our numbers beside it."""
