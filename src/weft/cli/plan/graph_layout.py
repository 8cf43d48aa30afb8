"""Where the nodes of a graph stand in its drawing: in columns, each behind what it waits for.

Pure: numbers in, places out. The larger nodes are tasks; the small ones, dots, stand for the
end or the start of a phase. A line that is longer than one column has a bend in every column it
crosses, and bends take room among the nodes: no line runs behind a task.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from msgspec import Struct

from weft import graph

WIDTH: Final = 168  # of a task
HEIGHT: Final = 38
_GAP: Final = 10
_AISLE: Final = 56  # between columns, for the lines
_TALLEST: Final = 24  # tasks in a column; a wider level is broken into several
_SWEEPS: Final = 6
_MOST_BENDS: Final = 20_000


class NodePosition(Struct, frozen=True, kw_only=True):
    x: float  # of the left edge
    y: float  # of the middle
    width: float


class Layout(Struct, frozen=True, kw_only=True):
    places: tuple[NodePosition, ...]
    lines: tuple[tuple[tuple[int, int], tuple[NodePosition, ...]], ...]  # ends, and all on the way
    width: float
    height: float


def layout(successors: graph.Successors, tasks: int) -> Layout:
    """Place the nodes of an acyclic graph; those from `tasks` on are dots."""
    lines = _without_shortcuts(successors)
    columns = _columns(successors, lines)
    routes = _routes(columns, lines, len(successors))
    steps = [step for route in routes for step in pairwise(route)]
    _untangle(columns, steps)
    places, width, height = _places(columns, tasks)
    return Layout(
        places=tuple(places[node] for node in range(len(successors))),
        lines=tuple(
            ((route[0], route[-1]), tuple(places[node] for node in route)) for route in routes
        ),
        width=width,
        height=height,
    )


def _without_shortcuts(successors: graph.Successors) -> list[tuple[int, int]]:
    """The edges that do not follow from others; a node's reach is the bits of a number."""
    reach = [0] * len(successors)
    kept = []
    order = graph.order(successors)
    rank = {node: number for number, node in enumerate(order)}
    for node in reversed(order):
        seen = 0
        for after in sorted(set(successors[node]), key=lambda one: rank[one]):
            if not seen >> after & 1:
                kept.append((node, after))
                seen |= reach[after] | 1 << after
        reach[node] = seen
    return sorted(kept)


def _columns(successors: graph.Successors, lines: Sequence[tuple[int, int]]) -> list[list[int]]:
    level = [0] * len(successors)
    behind: dict[int, list[int]] = {}
    for before, after in lines:
        behind.setdefault(before, []).append(after)
    for node in graph.order(successors):
        for after in behind.get(node, ()):
            level[after] = max(level[after], level[node] + 1)
    levels: dict[int, list[int]] = {}
    for node in range(len(successors)):
        levels.setdefault(level[node], []).append(node)
    return [
        nodes[start : start + _TALLEST]
        for _, nodes in sorted(levels.items())
        for start in range(0, len(nodes), _TALLEST)
    ]


def _routes(
    columns: list[list[int]], lines: Sequence[tuple[int, int]], nodes: int
) -> list[list[int]]:
    """Give each line a bend in every column it crosses; bends are numbered after the nodes."""
    column_of = {node: number for number, column in enumerate(columns) for node in column}
    bend = nodes
    routes = []
    for a, b in lines:
        crossed = range(column_of[a] + 1, column_of[b])
        if bend - nodes + len(crossed) > _MOST_BENDS:
            crossed = range(0)
        for number in crossed:
            columns[number].append(bend + number - crossed.start)
        routes.append([a, *range(bend, bend + len(crossed)), b])
        bend += len(crossed)
    return routes


def _untangle(columns: list[list[int]], steps: Sequence[tuple[int, int]]) -> None:
    """Sort each column by where the neighbours of its nodes stand, back and forth."""
    before: dict[int, list[int]] = {}
    after: dict[int, list[int]] = {}
    for a, b in steps:
        before.setdefault(b, []).append(a)
        after.setdefault(a, []).append(b)
    height: dict[int, float] = {}
    for column in columns:
        _stand(column, height)
    for sweep in range(_SWEEPS):
        neighbours, order = (after, reversed(columns)) if sweep % 2 else (before, iter(columns))
        for column in order:
            wanted = {node: _middle(neighbours.get(node), height, node) for node in column}
            column.sort(key=lambda node: (wanted[node], node))
            _stand(column, height)


def _stand(column: Sequence[int], height: dict[int, float]) -> None:
    for number, node in enumerate(column):
        height[node] = number - len(column) / 2


def _middle(neighbours: Sequence[int] | None, height: dict[int, float], node: int) -> float:
    if not neighbours:
        return height[node]
    return sum(height[one] for one in neighbours) / len(neighbours)


def _places(columns: list[list[int]], tasks: int) -> tuple[dict[int, NodePosition], float, float]:
    highs = [[HEIGHT if node < tasks else 0 for node in column] for column in columns]
    tallest = max((sum(high) + _GAP * (len(high) - 1) for high in highs), default=0)
    places = {}
    x = 0.0
    for column, high in zip(columns, highs, strict=True):
        wide = WIDTH if any(high) else 0
        y = (tallest - sum(high) - _GAP * (len(high) - 1)) / 2
        for node, own in zip(column, high, strict=True):
            # A dot stands where its column begins, a bend lasts as long as the column is wide.
            places[node] = NodePosition(x=x, y=y + own / 2, width=wide)
            y += own + _GAP
        x += wide + _AISLE
    return places, max(0.0, x - _AISLE), tallest
