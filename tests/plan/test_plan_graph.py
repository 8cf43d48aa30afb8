"""The graph functions, against tables of cases and naive algorithms."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from cases import each_case
from weft import graph

DIAMOND = [[1, 2], [3], [3], []]


@st.composite
def graphs(draw: st.DrawFn) -> list[list[int]]:
    count = draw(st.integers(0, 8))
    if not count:
        return []
    nodes = st.integers(0, count - 1)
    return [sorted(draw(st.sets(nodes, max_size=3))) for _ in range(count)]


@st.composite
def acyclic_graphs(draw: st.DrawFn) -> list[list[int]]:
    """Edges point forward in some order of the nodes, which need not be that of their numbers."""
    count = draw(st.integers(1, 9))
    shuffled = draw(st.permutations(range(count)))
    place = {node: at for at, node in enumerate(shuffled)}
    chosen = [sorted(draw(st.sets(st.integers(0, count - 1), max_size=3))) for _ in range(count)]
    return [
        [after for after in following if place[after] > place[node]]
        for node, following in enumerate(chosen)
    ]


def test_an_order_keeps_to_the_numbers_where_it_can() -> None:
    assert graph.order([[], [], []]) == [0, 1, 2]
    assert graph.order([[], [0], []]) == [1, 0, 2]
    assert graph.order(DIAMOND) == [0, 1, 2, 3]


def test_what_is_on_or_behind_a_cycle_is_left_out_of_the_order() -> None:
    assert graph.order([[1], [0, 2], [], []]) == [3]


@given(acyclic_graphs())
def test_both_orders_hold_every_node_and_every_edge_points_forward(
    successors: list[list[int]],
) -> None:
    for nodes in (graph.order(successors), graph.late_order(successors)):
        rank = {node: at for at, node in enumerate(nodes)}
        assert sorted(nodes) == list(range(len(successors)))
        assert all(rank[a] < rank[b] for a, following in enumerate(successors) for b in following)


def test_the_late_order_disagrees_about_what_is_unrelated() -> None:
    assert graph.late_order([[], [], []]) == [2, 1, 0]


def test_predecessors_turn_every_edge_round() -> None:
    assert graph.predecessors(DIAMOND) == [[], [0], [0], [1, 2]]


@each_case(
    ("successors", "sizes", "width"),
    [
        ([], None, 0),
        (DIAMOND, None, 2),
        ([[1], [2], []], None, 1),
        ([[2], [2], [3, 4], [], []], [1, 1, 0, 1, 1], 2),
    ],
)
def test_the_width_is_the_largest_level(
    successors: list[list[int]], sizes: list[int] | None, width: int
) -> None:
    assert graph.width(successors, sizes) == width


def test_the_longest_remaining_path_includes_the_node_itself() -> None:
    assert graph.remaining_paths(DIAMOND, [1, 5, 2, 1]) == [7, 6, 3, 1]
    assert graph.heaviest_path(DIAMOND, [1, 5, 2, 1]) == [0, 1, 3]
    assert graph.heaviest_path([], []) == []


def test_the_cycle_is_returned_whole() -> None:
    assert graph.find_cycle(DIAMOND) is None
    assert graph.find_cycle([[0]]) == [0]
    assert graph.find_cycle([[1], [2], [0, 3], []]) == [0, 1, 2]
    assert graph.find_cycle([[1], [2], [1]]) == [1, 2]


def test_a_short_cycle_is_preferred_to_the_way_round() -> None:
    # 0 → 1 → 2 → 3 → 0, and 1 → 0.
    assert graph.find_cycle([[1], [2, 0], [3], [0]]) == [0, 1]


@given(graphs())
def test_a_cycle_is_found_exactly_if_the_nodes_cannot_be_ordered(
    successors: list[list[int]],
) -> None:
    cycle = graph.find_cycle(successors)
    assert (cycle is None) == (len(graph.order(successors)) == len(successors))
    if cycle is not None:
        assert len(set(cycle)) == len(cycle)
        assert all(b in successors[a] for a, b in pairwise([*cycle, cycle[0]]))


def test_long_chains_take_no_recursion() -> None:
    count = 50_000
    chain = [[at + 1] for at in range(count - 1)] + [[]]
    assert graph.remaining_paths(chain, [1.0] * count)[0] == count
    assert graph.late_order(chain) == list(range(count))
    ring = [[(at + 1) % count] for at in range(count)]
    assert graph.find_cycle(ring) == list(range(count))
