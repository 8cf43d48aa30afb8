"""The register of figures, and how ratios are taken."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Figure:
    unit: str
    bound: str
    measure: Callable[[], float]


FIGURES: dict[str, Figure] = {}


def figure(
    name: str, unit: str, bound: str = ""
) -> Callable[[Callable[[], float]], Callable[[], float]]:
    def register(measure: Callable[[], float]) -> Callable[[], float]:
        FIGURES[name] = Figure(unit=unit, bound=bound, measure=measure)
        return measure

    return register


def median_ratio(
    numerator: Callable[[], float], denominator: Callable[[], float], rounds: int = 7
) -> float:
    """The median of ratios taken in turns, so that a noisy moment hits both sides."""
    return statistics.median(numerator() / denominator() for _ in range(rounds))
