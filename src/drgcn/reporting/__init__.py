"""Tables, charts and pages, for every part of the package."""
