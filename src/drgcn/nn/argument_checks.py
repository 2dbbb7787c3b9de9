"""What every model asks of its arguments."""

from __future__ import annotations


def check_sizes(owner: str, **sizes: int) -> None:
    """Refuses widths and counts that are not whole numbers from 1 on."""
    for name, value in sizes.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(f"{owner} expects {name} >= 1; found {value!r}.")


def check_rates(owner: str, **rates: float) -> None:
    """Refuses dropout rates outside ``[0, 1)``."""
    for name, value in rates.items():
        if not isinstance(value, int | float) or not 0 <= value < 1:
            words = name.replace("_", " ")
            raise ValueError(f"{owner} expects a {words} rate in [0, 1); found {value!r}.")
