"""The report of a run as one HTML page; its script only highlights."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from operator import itemgetter
from typing import Final

from weft.formats import dollars, duration, listed, moment, whole_line
from weft.page import report_charts
from weft.page.gantt_chart import draw_gantt
from weft.page.graph_chart import draw_graph
from weft.page.markup import (
    HIGHLIGHT,
    Cell,
    Html,
    Part,
    colour_keys,
    dim,
    figures,
    joined,
    number,
    number_head,
    render_page,
    state_tag,
    table,
    tag,
    tr,
)
from weft.page.report_charts import describe_fate, find_kind
from weft.page.step_chart import draw_steps
from weft.runs.report_records import (
    AttemptReport,
    CheckReport,
    LimitUse,
    RunReport,
    describe_choice,
)
from weft.runs.run_figures import describe_times
from weft.words import state_word

_LARGEST: Final = 1500  # nodes or bars in a drawing
_LONGEST: Final = 400  # characters of a reason in a line
_MOST_OUTPUT: Final = 8_000  # characters of a check's output, from its end
_FATES: Final = (
    ("landed", "landed or done"),
    ("back", "sent back by the gate"),
    ("bad", "failed"),
    ("wait", "its provider was busy"),
    ("busy", "running, or at the gate"),
    ("off", "handed back"),
)


def render(report: RunReport) -> str:
    """Return a file of its own, for `weft report --html`."""
    title = report.title or report.run
    body = [tag("h1", title), render_body(report)]
    return render_page(joined(title, ": run ", report.run), body, HIGHLIGHT)


def render_body(report: RunReport) -> Html:
    """Return the parts of a report: the result first, then the way to it."""
    times = describe_times(report.figures)
    return joined(
        _head(report),
        _cards(report),
        _result(report),
        _failures(report),
        tag("p", f"The sandbox was {report.unboxed}.") if report.unboxed else None,
        tag("p", f"This run {times}.") if times else None,
        _gantt(report),
        _graph(report),
        _charts(report),
        _gate(report),
        _agents(report),
        render_attempts(report),
    )


def _head(report: RunReport) -> Iterator[Html]:
    yield dim(
        "Run ",
        tag("b", report.run),
        f", {report.state} · submitted {moment(report.submitted)} · ",
        tag("code", report.base[:12]),
        (" → ", tag("code", report.tip[:12])) if report.tip else None,
    )
    if report.blocked:
        yield tag("p", state_tag("gate", "blocked"), f" {report.blocked}")
    predicted = [task.name for task in report.tasks if task.predicted]
    if predicted:
        yield dim(f"Files were predicted for {listed(predicted)}.")
    for task in report.tasks:
        if task.state in ("blocked", "failed", "paused"):
            word = state_tag(f"{task.name} {state_word(task.state)}", task.state)
            yield tag("p", word, f" {whole_line(task.reason)}")


def _cards(report: RunReport) -> Html:
    run = report.figures
    return figures(
        (
            (f"{run.landed} of {run.tasks}", "tasks landed"),
            (f"{run.attempts}", f"attempts, {run.failed} failed"),
            (f"{run.checks}", f"checks, {run.flaky} flaky, {run.sent_back} sent back"),
            (dollars(run.micro_usd), f"{run.tokens:,} tokens"),
        )
    )


def _result(report: RunReport) -> Iterator[Html]:
    yield tag("h2", "Result")
    if not report.landings:
        yield dim("Nothing has landed.")
        return
    titles = {task.name: task.title for task in report.tasks}
    rows = [
        tr(
            tag("code", commit[:12]),
            _id(task),
            titles.get(task, ""),
            tag("code", f"weft diff {task}") if task else "",
        )
        for landing in report.landings
        for commit, task in zip_longest(landing.commits, landing.tasks, fillvalue="")
    ]
    yield table(("commit", "task", "title", "changes"), rows, caption="Landed commits")
    run = report.run
    yield tag(
        "p",
        *("All of it is on the branch ", tag("code", f"weft/{run}"), ": "),
        *(tag("code", f"weft land {run}"), " puts it onto your branch, "),
        *(tag("code", f"weft publish {run}"), " makes a pull request, "),
        *(tag("code", f"git diff {report.base[:12]} weft/{run}"), " shows it whole."),
    )


def _failures(report: RunReport) -> Iterator[Html]:
    """List failures; those with the same reason once."""
    groups: dict[tuple[str, str], list[str]] = {}
    for attempt in report.attempts:
        if attempt.failed or attempt.fate == "sent back":
            key = (attempt.fate, whole_line(attempt.reason))
            groups.setdefault(key, []).append(f"{attempt.task} #{attempt.number}")
    if not groups:
        return
    items = [
        tag(
            "li",
            state_tag(f"{len(names)} × {describe_fate(fate)}", find_kind(fate)),
            f" {reason} ",
            tag("span", listed(names, most=12), class_="dim"),
        )
        for (fate, reason), names in sorted(groups.items(), key=lambda group: -len(group[1]))
    ]
    yield tag("h2", "Failures")
    yield tag("ul", items)


def draw(chart: str) -> Html:
    """Put the drawing of a chart into a frame that scrolls."""
    return tag("div", Html(chart), class_="card scroll")


def _gantt(report: RunReport) -> Iterator[Html]:
    yield tag("h2", "What ran when")
    if not report.attempts:
        yield dim("Nothing has run yet.")
    elif len(report.attempts) + len(report.checks) > _LARGEST:
        yield dim("Too many attempts to draw; the table below has them all.")
    else:
        used = {find_kind(attempt.fate) for attempt in report.attempts}
        shown = [(kind, text) for kind, text in _FATES if kind in used]
        yield colour_keys(shown, tag("span", "○ landed, ◇ sent back"))
        yield draw(draw_gantt(report_charts.chart_times(report)))


def _graph(report: RunReport) -> Iterator[Html]:
    yield tag("h2", "What waited for what")
    if len(report.tasks) > _LARGEST:
        yield dim(f"{len(report.tasks):,} tasks are too many to draw.")
        return
    chain = [task for task in report.tasks if task.critical and not task.barrier]
    chain.sort(key=lambda task: report.seconds if task.end is None else task.end)
    names = " → ".join(task.name for task in chain)
    yield colour_keys([("hot", f"the chain that decided when the run ended: {names}")])
    yield draw(draw_graph(report_charts.chart_graph(report)))


def _charts(report: RunReport) -> Iterator[Html]:
    if not report.attempts:
        return
    yield tag("h2", "Capacity and cost over time")
    keys = (("busy", "in use by this run"), ("off", "by others"))
    yield colour_keys(keys, tag("span", "- - the limit"))
    cards = []
    for group in _alike(report.capacity):
        use = group[0]
        limit = ", no limit" if use.limit is None else f" of {use.limit}"
        cards.append(
            _card(
                ", ".join(_shorten_limit(each.resource, report.run) for each in group),
                f"at most {use.peak}{limit}, {use.average:.1f} on average",
                draw_steps(report_charts.chart_limit(use, report.seconds)),
            )
        )
    if report.figures.micro_usd:
        spent = f"{dollars(report.figures.micro_usd)} in all"
        cards.append(_card("spent", spent, draw_steps(report_charts.chart_costs(report))))
    yield tag("div", cards, class_="charts")


def _card(name: str, about: str, chart: str) -> Html:
    return tag(
        "div", tag("b", name), " ", tag("span", about, class_="dim"), Html(chart), class_="card"
    )


def _alike(uses: Iterable[LimitUse]) -> list[list[LimitUse]]:
    """Group the limits whose charts would be the same."""
    groups: dict[object, list[LimitUse]] = {}
    for use in uses:
        groups.setdefault((use.steps, use.limit, use.penalties), []).append(use)
    return list(groups.values())


def _shorten_limit(resource: str, run: str) -> str:
    """Return the name of a limit within its run: `agents`, `stage implement`."""
    if resource == f"run:{run}/agents":
        return "agents of this run"
    for prefix, name in ((f"run:{run}/", ""), (f"stage:{run}/", "stage ")):
        if resource.startswith(prefix):
            return name + resource.removeprefix(prefix)
    return resource.replace(":", " ", 1)


def _gate(report: RunReport) -> Iterator[Html]:
    yield tag("h2", "The gate")
    if not report.checks and not report.rejections:
        yield dim("Nothing has reached it.")
        return
    rows = [(check.end, _verdict(check)) for check in report.checks]
    for rejection in report.rejections:
        text = "does not merge" if rejection.kind == "conflict" else "checks fail"
        text += f" with {', '.join(rejection.with_tasks)}" if rejection.with_tasks else ""
        back = state_tag("sent back", "back")
        row = _gate_row(rejection.at, "", back, rejection.tasks, text, rejection.reason)
        rows.append((rejection.at, row))
    for choice in report.choices:
        team = state_tag("team", "passed")
        row = _gate_row(choice.at, "", team, [choice.task], describe_choice(choice))
        rows.append((choice.at, row))
    for landing in report.landings:
        commits = ", ".join(commit[:9] for commit in landing.commits)
        landed = state_tag("landed", "landed")
        rows.append((landing.at, _gate_row(landing.at, "", landed, landing.tasks, commits)))
    yield table(
        (number_head("at"), number_head("took"), "verdict", "tasks", ""),
        [row for _, row in sorted(rows, key=itemgetter(0))],
        caption="Checks",
    )


def _verdict(check: CheckReport) -> Html:
    took = "known" if check.reused else duration(check.end - check.start)
    verdict = state_tag("passed", "passed") if check.passed else state_tag("failed", "bad")
    where = f"on {check.host}" if check.host else ""
    text = ", ".join(filter(None, (check.purpose, "flaky" * check.flaky, where)))
    return _gate_row(check.end, took, verdict, check.tasks, text, check.output)


def _gate_row(
    at: float, took: str, verdict: Html, tasks: Sequence[str], text: str, more: str = ""
) -> Html:
    cell = _unfolding(text, more) if more.strip() else text
    return tr(number(duration(at)), number(took), verdict, _id(", ".join(tasks)), cell)


def _id(text: str) -> Cell:
    return Cell(tag("td", text, class_="id"))


def _agents(report: RunReport) -> Iterator[Html]:
    """Yield the time, tokens and dollars of each agent and stage."""
    groups: dict[tuple[str, str], list[AttemptReport]] = {}
    for attempt in report.attempts:
        groups.setdefault((attempt.agent or "", attempt.stage or ""), []).append(attempt)
    if not groups:
        return
    rows = [
        tr(
            _id(agent),
            stage,
            number(str(len(group))),
            number(str(sum(attempt.failed for attempt in group))),
            number(duration(sum(attempt.end - attempt.start for attempt in group))),
            number(f"{sum(attempt.tokens for attempt in group):,}"),
            number(dollars(sum(attempt.micro_usd for attempt in group))),
        )
        for (agent, stage), group in sorted(groups.items())
    ]
    heads = map(number_head, ("attempts", "failed", "time", "tokens", "dollars"))
    yield tag("h2", "Who worked")
    yield table(("agent", "stage", *heads), rows, caption="Agents")


def render_attempts(report: RunReport) -> Html:
    titles = {task.name: task.title for task in report.tasks}
    commits = {task.name: task.commit for task in report.tasks}
    rows = [
        _attempt(attempt, titles[attempt.task], commits[attempt.task])
        for attempt in report.attempts
    ]
    started, took = number_head("start"), number_head("took")
    spent = (number_head("tokens"), number_head("dollars"))
    heads = ("task", "", "agent", "stage", started, took, "outcome", *spent, "commit")
    return joined(tag("h2", "Every attempt"), table(heads, rows, caption="Attempts"))


def _attempt(attempt: AttemptReport, title: str, landed: str | None) -> Html:
    commit = landed if attempt.fate == "landed" else attempt.commit
    fate = state_tag(describe_fate(attempt.fate), find_kind(attempt.fate))
    where = tag("div", f"on {attempt.host}", class_="dim") if attempt.host else None
    return tr(
        (tag("span", attempt.task, class_="id"), " ", tag("span", title, class_="dim")),
        number(str(attempt.number)),
        (attempt.agent or "", where),
        attempt.stage or "",
        number(duration(attempt.start)),
        number(duration(attempt.end - attempt.start)),
        (fate, _reason(attempt.reason) if attempt.reason.strip() else None),
        number(f"{attempt.tokens:,}"),
        number(dollars(attempt.micro_usd)),
        tag("code", (commit or "")[:9]),
        data_t=attempt.task,
    )


def _reason(text: str) -> Html:
    first = whole_line(text)
    whole = first == text.strip() and len(first) <= _LONGEST
    return tag("div", first if whole else _unfolding(first, text), class_="dim")


def _unfolding(first: str, text: str) -> Part:
    """Show the first line; the whole text unfolds beneath it."""
    return tag("details", tag("summary", first[:_LONGEST]), tag("pre", text[-_MOST_OUTPUT:]))
