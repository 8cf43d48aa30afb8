"""A chart of tasks and the tasks each waits for."""

from __future__ import annotations

from msgspec import Struct

from weft.charts.graph_layout import HEIGHT, NodePosition, place_nodes
from weft.charts.svg_parts import LETTER, cut, draw_route, escaped, frame, tooltip
from weft.graph import Successors


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
