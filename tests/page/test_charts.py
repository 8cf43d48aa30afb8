"""Charts as SVG and as text, from plain records."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from cases import each_case
from weft import plan
from weft.cli import text_gantt
from weft.formats import cells
from weft.page import gantt_chart, graph_chart
from weft.page.gantt_chart import GanttBar, GanttChart, GanttRow
from weft.runs.run_figures import pack_lanes

PLANS = Path(__file__).parent.parent / "plans"


def make_chart(rows: int, bars: int = 1) -> GanttChart:
    return GanttChart(
        label="times",
        seconds=100.0,
        groups=(
            tuple(
                GanttRow(
                    name=f"{number} 課題 <b>" * 3,
                    bars=tuple(
                        GanttBar(start=start, end=start + 7, labels=("<i>long label</i>", "<i>"))
                        for start in range(0, 10 * bars, 10)
                    ),
                    note="7 s",
                )
                for number in range(rows)
            ),
        ),
    )


@each_case("width", [10, 60, 100, 300])
@each_case(("rows", "bars"), [(1, 1), (3, 9), (60, 2), (200, 9)])
@each_case("draw", [text_gantt.draw_bars, text_gantt.draw_load])
def test_a_text_chart_fits_the_terminal(
    rows: int, bars: int, width: int, draw: Callable[[GanttChart, int], Iterator[str]]
) -> None:
    lines = list(draw(make_chart(rows, bars), width))
    assert all(cells(line) <= max(40, width) for line in lines)
    drawn = [line for line in lines if line.count("│") == 2]
    assert len({cells(line) for line in drawn}) == 1
    assert len(drawn) == min(rows, text_gantt.MOST_LINES)


def test_a_chart_without_rows_has_no_lines() -> None:
    assert list(text_gantt.draw_bars(make_chart(0), 80)) == []
    assert gantt_chart.draw_gantt(make_chart(0)) == ""


def test_labels_of_bars_are_escaped_and_cut() -> None:
    drawn = gantt_chart.draw_gantt(make_chart(2))
    assert "<i>" not in drawn
    assert "&lt;i&gt;" in drawn
    assert drawn.count("<rect") == 2


@each_case(
    ("spans", "lanes"),
    [
        ([], []),
        ([(0, 2), (1, 3), (2, 4)], [0, 1, 0]),
        ([(1, 3), (0, 2), (2, 4)], [1, 0, 0]),
        ([(0, 1), (1, 2)], [0, 0]),
    ],
)
def test_spans_take_the_lowest_free_lane(
    spans: list[tuple[float, float]], lanes: list[int]
) -> None:
    assert pack_lanes(spans) == lanes


def test_nodes_stand_behind_the_nodes_they_wait_for_and_clear_of_each_other() -> None:
    data = (PLANS / "authentication_track.md").read_bytes()
    compiled = plan.compile(plan.read("plan.md", data).plan)
    tasks = len(compiled.plan.tasks)
    layout = graph_chart.place_nodes(compiled.successors, tasks)
    for (before, after), _ in layout.lines:
        assert layout.places[before].x + graph_chart.WIDTH < layout.places[after].x
    boxes = layout.places[:tasks]
    for number, box in enumerate(boxes):
        assert 0 <= box.x <= layout.width - graph_chart.WIDTH
        assert graph_chart.HEIGHT / 2 <= box.y <= layout.height - graph_chart.HEIGHT / 2
        for earlier in boxes[:number]:
            assert box.x != earlier.x or abs(box.y - earlier.y) > graph_chart.HEIGHT
