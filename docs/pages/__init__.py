"""Numbers, tables and sentences that only the pages of the documentation need."""
