"""Directed graphs over the numbers 0 … n-1: orders, cycles, longest paths.

A graph is a list of successor lists: `successors[a]` holds every node that comes after `a`. All
functions take time linear in nodes plus edges, except `order`, which needs a heap if an edge points
backward. Nodes on a cycle, and nodes behind a cycle, are left out of every order.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Sequence
from typing import TypeAlias

Successors: TypeAlias = Sequence[Sequence[int]]


def predecessors(successors: Successors) -> list[list[int]]:
    """Turn every edge round."""
    before: list[list[int]] = [[] for _ in successors]
    for node, following in enumerate(successors):
        for after in following:
            before[after].append(node)
    return before


def waiting_counts(successors: Successors) -> list[int]:
    """Count how many edges lead into each node."""
    counts = [0] * len(successors)
    for following in successors:
        for after in following:
            counts[after] += 1
    return counts


def order(successors: Successors) -> list[int]:
    """Sort the nodes so that every edge points forward, keeping to their numbers where it can."""
    if all(node < after for node, following in enumerate(successors) for after in following):
        return list(range(len(successors)))
    counts = waiting_counts(successors)
    # In ascending order already, which is a heap.
    ready = [node for node, count in enumerate(counts) if count == 0]
    nodes = []
    while ready:
        node = heapq.heappop(ready)
        nodes.append(node)
        for after in successors[node]:
            counts[after] -= 1
            if counts[after] == 0:
                heapq.heappush(ready, after)
    return nodes


def late_order(successors: Successors) -> list[int]:
    """Sort an acyclic graph so that every edge points forward, high numbers first.

    Together with `order` this tells most unrelated nodes apart: the two disagree about them.
    """
    nodes: list[int] = []
    seen = bytearray(len(successors))
    for root in range(len(successors)):
        if seen[root]:
            continue
        seen[root] = 1
        stack = [(root, iter(successors[root]))]
        while stack:
            node, following = stack[-1]
            for after in following:
                if not seen[after]:
                    seen[after] = 1
                    stack.append((after, iter(successors[after])))
                    break
            else:
                stack.pop()
                nodes.append(node)
    nodes.reverse()
    return nodes


def width(successors: Successors, sizes: Sequence[int] | None = None) -> int:
    """Return the size of the largest level; a node's level is the longest path that leads to it.

    A node of size 0 takes no room and makes no level of its own.
    """
    sizes = sizes or [1] * len(successors)
    level = [0] * len(successors)
    levels: dict[int, int] = {}
    for node in order(successors):
        levels[level[node]] = levels.get(level[node], 0) + sizes[node]
        behind = level[node] + (1 if sizes[node] else 0)
        for after in successors[node]:
            level[after] = max(level[after], behind)
    return max(levels.values(), default=0)


def remaining_paths(successors: Successors, weights: Sequence[float]) -> list[float]:
    """Return for each node the weight of the heaviest path that starts with it, itself included."""
    remaining = [float(weight) for weight in weights]
    for node in reversed(order(successors)):
        following = successors[node]
        if following:
            remaining[node] += max(remaining[after] for after in following)
    return remaining


def heaviest_path(successors: Successors, weights: Sequence[float]) -> list[int]:
    """Return a heaviest path through an acyclic graph; the smallest numbers win a tie."""
    if not successors:
        return []
    remaining = remaining_paths(successors, weights)
    best = [remaining[node] for node in range(len(successors))]
    node = best.index(max(best))
    path = [node]
    while successors[node]:
        node = max(successors[node], key=lambda after: (remaining[after], -after))
        path.append(node)
    return path


def find_cycle(successors: Successors) -> list[int] | None:
    """Return the nodes of a cycle, each before the next and the last before the first.

    The cycle is a shortest cycle through its first node.
    """
    in_order = bytearray(len(successors))
    for node in order(successors):
        in_order[node] = 1
    left = [node for node in range(len(successors)) if not in_order[node]]
    if not left:
        return None
    return _shortest_cycle(successors, _on_a_cycle(successors, left, in_order))


def _on_a_cycle(successors: Successors, left: Iterable[int], in_order: bytearray) -> int:
    """Walk back among the nodes that could not be ordered until a node repeats."""
    # Each of them waits for another of them, so there is always a step back.
    before = {after: node for node in left for after in successors[node] if not in_order[after]}
    node = min(before)
    seen: set[int] = set()
    while node not in seen:
        seen.add(node)
        node = before[node]
    # The smallest node of that loop, so that the answer does not depend on where the walk began.
    smallest, step = node, before[node]
    while step != node:
        smallest = min(smallest, step)
        step = before[step]
    return smallest


def _shortest_cycle(successors: Successors, start: int) -> list[int]:
    came_from: dict[int, int] = {}
    queue = deque([start])
    while queue:
        node = queue.popleft()
        for after in successors[node]:
            if after == start:
                path = [node]
                while path[-1] != start:
                    path.append(came_from[path[-1]])
                path.reverse()
                return path
            if after not in came_from:
                came_from[after] = node
                queue.append(after)
    raise ValueError(f"node {start} is on no cycle")
