"""The register of figures, and how ratios are taken."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Figure:
    unit: str
    measure: Callable[[], float]
    at_least: float = -math.inf
    at_most: float = math.inf
    seconds: float = 600.0  # the time limit of the measurement

    def holds(self, value: float) -> bool:
        return self.at_least <= value <= self.at_most


FIGURES: dict[str, Figure] = {}


def figure(
    name: str, unit: str, *, at_least: float = -math.inf, at_most: float = math.inf
) -> Callable[[Callable[[], float]], Callable[[], float]]:
    """Register a measurement under a name, with the bound it has to keep."""

    def register(measure: Callable[[], float]) -> Callable[[], float]:
        FIGURES[name] = Figure(unit=unit, measure=measure, at_least=at_least, at_most=at_most)
        return measure

    return register


def median_ratio(
    numerator: Callable[[], float], denominator: Callable[[], float], rounds: int = 7
) -> float:
    """The median of ratios taken in turns, so that a noisy moment hits both sides."""
    return statistics.median(numerator() / denominator() for _ in range(rounds))
