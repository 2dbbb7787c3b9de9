"""Settings chosen on validation alone: spaces, the search, and what is tested after it."""
