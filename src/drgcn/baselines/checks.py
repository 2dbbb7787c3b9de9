"""Checks of settings that several baselines share."""

from __future__ import annotations

from drgcn.errors import InputError


def expect_at_least(least: int, settings: object, *names: str) -> None:
    """Refuses settings that are no whole numbers, or too small."""
    for name in names:
        value = getattr(settings, name)
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise InputError(
                f"Expected {name} of {type(settings).__name__} to be a whole number from {least} "
                f"on; found {value!r}. Change it."
            )


def expect_positive(settings: object, *names: str) -> None:
    """Refuses settings that are not numbers above zero, or lists of such numbers."""
    for name in names:
        value = getattr(settings, name)
        values = value if isinstance(value, tuple) else (value,)
        if not values or not all(isinstance(one, int | float) and one > 0 for one in values):
            raise InputError(
                f"Expected {name} of {type(settings).__name__} to be above zero; found {value!r}. "
                f"Change it."
            )
