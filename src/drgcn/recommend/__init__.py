"""Recommendation from clicks: users, items, and who clicked what on which day."""
