"""Claims of the paper, the findings of their checks, and the random matrices these use."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

Verdict = Literal["holds", "holds after repair", "fails"]


@dataclass(frozen=True)
class Finding:
    """Result of a check.

    Args:
        as_printed (bool): Whether the claim is true as the paper has it.
        repaired (bool): Whether the repaired claim is true.
        words (str): The repair, or the counter-example.
        numbers (dict): Everything the verdict rests on.
    """

    as_printed: bool
    repaired: bool
    words: str
    numbers: dict[str, float]

    @property
    def verdict(self) -> Verdict:
        """Verdict on the claim: true as printed, true once repaired, or false."""
        if self.as_printed:
            return "holds"
        return "holds after repair" if self.repaired else "fails"


@dataclass(frozen=True)
class Evidence:
    """One row of the table that ``drgcn theory`` prints."""

    name: str
    where: str
    claim: str
    verdict: Verdict
    words: str
    numbers: dict[str, float]
    seconds: float


@dataclass(frozen=True)
class Claim:
    """A statement of the paper with a program that checks it.

    Args:
        name (str): A short name, unique among claims.
        where (str): Equation, theorem or appendix.
        claim (str): What the paper says, in one sentence.
        check (Callable): Runs the check.
    """

    name: str
    where: str
    claim: str
    check: Callable[[], Finding] = field(repr=False)

    def run(self) -> Evidence:
        """Run the check and time it."""
        start = time.perf_counter()
        found = self.check()
        seconds = time.perf_counter() - start
        return Evidence(
            name=self.name,
            where=self.where,
            claim=self.claim,
            verdict=found.verdict,
            words=found.words,
            numbers={name: float(value) for name, value in found.numbers.items()},
            seconds=round(seconds, 3),
        )


class Draws:
    """Random matrices and gates from one seed, so that every run sees the same ones."""

    def __init__(self, seed: int = 0) -> None:
        self.generator = torch.Generator().manual_seed(seed)

    def normal(self, *shape: int) -> Tensor:
        """Independent standard normal entries."""
        return torch.randn(*shape, dtype=torch.float64, generator=self.generator)

    def symmetric(self, d: int) -> Tensor:
        """A symmetric matrix of any signature."""
        x = self.normal(d, d)
        return (x + x.T) / 2

    def covariance(self, d: int, spread: float = 0.0) -> Tensor:
        """A positive definite matrix; ``spread`` scatters the logarithms of the variances."""
        x = self.normal(d, 2 * d) * (spread * self.normal(d, 1)).exp()
        return x @ x.T / (2 * d)

    def gate(self, d: int, spread: float = 0.3) -> Tensor:
        """A positive s with mean square one."""
        s = (spread * self.normal(d)).exp()
        return s / s.square().mean().sqrt()
