"""A chart of tasks and the tasks each waits for: nodes in columns, each behind those it waits for.

Large nodes are tasks; small nodes, dots, stand for the end or the start of a phase. A line that
crosses a column has a bend there, and bends take room among the nodes: no line runs behind a task.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from msgspec import Struct

from weft import graph
from weft.graph import Successors
from weft.page.markup import escaped
from weft.page.svg_parts import LETTER, cut, frame, tooltip

WIDTH: Final = 168  # of a task
HEIGHT: Final = 38
_GAP: Final = 10
_AISLE: Final = 56  # between columns, for the lines
_TALLEST: Final = 24  # tasks in a column; a larger level is split into several
_SWEEPS: Final = 6
_MOST_BENDS: Final = 20_000


class GraphNode(Struct, frozen=True, kw_only=True):
    name: str
    text: str
    note: str  # beside the name: a duration or a state
    kind: str  # classes in the style sheet
    critical: bool
    hover: tuple[str, ...]  # lines of the tooltip
    address: str = ""  # of the view that a click opens


class GraphChart(Struct, frozen=True, kw_only=True):
    label: str
    nodes: tuple[GraphNode, ...]
    successors: Successors  # of the nodes, then of the dots that stand for barriers
    critical: frozenset[tuple[int, int]]  # edges of the critical path
    overlaps: tuple[tuple[int, int, str], ...] = ()  # nodes that share files, and a tooltip


def draw_graph(chart: GraphChart) -> str:
    """Draw nodes in columns, each behind the nodes it waits for; overlaps are dashed."""
    layout = place_nodes(chart.successors, len(chart.nodes))
    critical = chart.critical
    # Edges of the critical path are drawn last, above all other edges.
    routes = sorted(layout.lines, key=lambda line: line[0] in critical)
    parts = [
        draw_route(route, "line hot" if ends in critical else "line", _reason(chart, ends))
        for ends, route in routes
    ]
    parts += (
        draw_route((layout.places[before], layout.places[after]), "line turns", title)
        for before, after, title in chart.overlaps
    )
    parts += map(_node, chart.nodes, layout.places)
    parts += (
        f'<path class="line" d="M{dot.x:.0f} {dot.y:.0f}H{dot.x + dot.width:.0f}"/>'
        f'<circle class="dot" cx="{dot.x:.0f}" cy="{dot.y:.0f}" r="4"/>'
        for dot in layout.places[len(chart.nodes) :]
    )
    return frame(layout.width, layout.height, parts, chart.label)


def _reason(chart: GraphChart, ends: tuple[int, int]) -> str:
    """Return the tooltip of an edge; edges of a barrier have none."""
    before, after = ends
    if max(ends) >= len(chart.nodes):
        return ""
    return f"{chart.nodes[after].name} waits for {chart.nodes[before].name}"


def _node(node: GraphNode, place: NodePosition) -> str:
    room = int((place.width - 14) / LETTER)
    top = place.y - HEIGHT / 2
    kind = f"node {node.kind} hot" if node.critical else f"node {node.kind}"
    drawn = (
        f'<g class="{kind}" data-t="{escaped(node.name)}">{tooltip(node.hover)}'
        f'<rect x="{place.x:.0f}" y="{top:.0f}" width="{place.width:.0f}" height="{HEIGHT}" '
        f'rx="6"/><text x="{place.x + 8:.0f}" y="{top + 15:.0f}"><tspan class="id">'
        f'{cut(node.name, room - 9)}</tspan> <tspan class="dim">{escaped(node.note)}</tspan></text>'
        f'<text x="{place.x + 8:.0f}" y="{top + 31:.0f}">{cut(node.text, room)}</text></g>'
    )
    return f'<a href="#/{escaped(node.address)}">{drawn}</a>' if node.address else drawn


def draw_route(route: Sequence[NodePosition], kind: str, title: str = "") -> str:
    """Draw a curve through the positions, straight where it crosses a column."""
    tooltip = f"<title>{escaped(title)}</title>" if title else ""
    first, last = route[0], route[-1]
    if first.x == last.x:
        # Both ends stand in the same column: the curve goes round its outside.
        x, out = first.x + first.width, first.x + first.width + 26
        curve = f"M{x:.0f} {first.y:.0f}C{out:.0f} {first.y:.0f} {out:.0f} {last.y:.0f} "
        return f'<path class="{kind}" d="{curve}{x:.0f} {last.y:.0f}">{tooltip}</path>'
    if last.x < first.x:
        route = route[::-1]
    curve = f"M{route[0].x + route[0].width:.0f} {route[0].y:.0f}"
    for start, end in pairwise(route):
        x1, x2 = start.x + start.width, end.x
        bend = (x2 - x1) / 2
        curve += f"C{x1 + bend:.0f} {start.y:.0f} {x2 - bend:.0f} {end.y:.0f} "
        curve += f"{x2:.0f} {end.y:.0f}"
        if end is not route[-1]:
            curve += f"H{end.x + end.width:.0f}"
    return f'<path class="{kind}" d="{curve}">{tooltip}</path>'


class NodePosition(Struct, frozen=True, kw_only=True):
    x: float  # left edge
    y: float  # middle
    width: float


class GraphLayout(Struct, frozen=True, kw_only=True):
    places: tuple[NodePosition, ...]
    lines: tuple[tuple[tuple[int, int], tuple[NodePosition, ...]], ...]  # ends, then positions
    width: float
    height: float


def place_nodes(successors: Successors, tasks: int) -> GraphLayout:
    """Place the nodes of an acyclic graph; nodes from number `tasks` on are dots."""
    lines = _without_shortcuts(successors)
    columns = _columns(successors, lines)
    routes = _routes(columns, lines, len(successors))
    steps = [step for route in routes for step in pairwise(route)]
    _untangle(columns, steps)
    places, width, height = _places(columns, tasks)
    return GraphLayout(
        places=tuple(places[node] for node in range(len(successors))),
        lines=tuple(
            ((route[0], route[-1]), tuple(places[node] for node in route)) for route in routes
        ),
        width=width,
        height=height,
    )


def _without_shortcuts(successors: Successors) -> list[tuple[int, int]]:
    """List the edges that no longer path implies; a node's reach is the bits of a number."""
    reach = [0] * len(successors)
    kept = []
    order = graph.order(successors)
    rank = {node: number for number, node in enumerate(order)}
    for node in reversed(order):
        seen = 0
        for after in sorted(set(successors[node]), key=rank.__getitem__):
            if not seen >> after & 1:
                kept.append((node, after))
                seen |= reach[after] | 1 << after
        reach[node] = seen
    return sorted(kept)


def _columns(successors: Successors, lines: Sequence[tuple[int, int]]) -> list[list[int]]:
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
    """Give each line a bend in every column it crosses; number bends after the nodes."""
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
    """Sort each column by the heights of its nodes' neighbours, back and forth."""
    before: dict[int, list[int]] = {}
    after: dict[int, list[int]] = {}
    for a, b in steps:
        before.setdefault(b, []).append(a)
        after.setdefault(a, []).append(b)
    height: dict[int, float] = {}
    for column in columns:
        _set_heights(column, height)
    for sweep in range(_SWEEPS):
        neighbours, order = (after, reversed(columns)) if sweep % 2 else (before, iter(columns))
        for column in order:
            wanted = {node: _middle(neighbours.get(node), height, node) for node in column}
            column.sort(key=lambda node: (wanted[node], node))
            _set_heights(column, height)


def _set_heights(column: Sequence[int], height: dict[int, float]) -> None:
    for number, node in enumerate(column):
        height[node] = number - len(column) / 2


def _middle(neighbours: Sequence[int] | None, height: dict[int, float], node: int) -> float:
    if not neighbours:
        return height[node]
    return sum(height[neighbour] for neighbour in neighbours) / len(neighbours)


def _places(columns: list[list[int]], tasks: int) -> tuple[dict[int, NodePosition], float, float]:
    highs = [[HEIGHT if node < tasks else 0 for node in column] for column in columns]
    tallest = max((sum(high) + _GAP * (len(high) - 1) for high in highs), default=0)
    places = {}
    x = 0.0
    for column, high in zip(columns, highs, strict=True):
        wide = WIDTH if any(high) else 0
        y = (tallest - sum(high) - _GAP * (len(high) - 1)) / 2
        for node, own in zip(column, high, strict=True):
            # A dot stands at the left edge of its column; a bend crosses the whole column.
            places[node] = NodePosition(x=x, y=y + own / 2, width=wide)
            y += own + _GAP
        x += wide + _AISLE
    return places, max(0.0, x - _AISLE), tallest
