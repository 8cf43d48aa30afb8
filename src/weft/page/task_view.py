"""The view of a task: its log, attempts, checks, prompt, events and messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final
from urllib.parse import urlencode

from msgspec import Struct

from weft.formats import clock, count, dollars, duration, first_line
from weft.model import TERMINAL, Attempt, State, Task
from weft.page.act_forms import act_button, retry_form, select, send_form, text_area
from weft.page.markup import (
    Html,
    Part,
    article,
    described,
    escaped,
    joined,
    link,
    since,
    state_tag,
    table,
    tag,
    tr,
)
from weft.runs.explanation import Explanation
from weft.store.messages import TaskMessage
from weft.store.team_rows import EntrantView, StepView, TeamView
from weft.words import ENTRANT_RESULTS, full_label, task_state

_ENTRANT_HEADS: Final = ("Entrant", "Result", "Diff", "New tests", "Time", "Cost")
TABS: Final = ("log", "attempts", "checks", "team", "prompt", "events", "messages")
WINDOW: Final = 500  # lines of a window
_LONGEST: Final = 2_000  # characters of a line that are shown


class TaskView(Struct, frozen=True, kw_only=True):
    explanation: Explanation
    tab: str
    attempt: Attempt | None  # the attempt whose log or prompt is shown
    messages: Sequence[TaskMessage] = ()
    log: LogWindow | None = None
    stream: str = "stdout"
    words: str = ""  # searched in the log
    matches: Sequence[LogMatch] = ()
    more_matches: int = 0
    prompt: str = ""
    event_lines: Sequence[tuple[float, str]] = ()
    agents: Sequence[str] = ()
    may_act: bool = False
    may_write: bool = False  # messages
    now: float = 0.0


def render_task(view: TaskView) -> Html:
    task = view.explanation.task
    label = full_label(task)
    running = view.attempt is not None and view.attempt.ended is None
    return article(
        label,
        tag("p", task.request.title or first_line(task.text), class_="lead"),
        described(_facts(view)),
        tag("div", list(_acts(view)), class_="acts") if view.may_act else None,
        _tabs(view),
        tag("section", _body(view), id=f"task-{view.tab}"),
        heading=[label, " ", state_tag(task_state(task), task.state)],
        data_task=task.id,
        data_poll=running and view.tab == "log",
    )


def _facts(view: TaskView) -> Iterator[tuple[str, Part]]:
    explained = view.explanation
    task = explained.task
    yield "State", [task_state(task), " for ", since(task.since, view.now)]
    if task.reason:
        yield "Reason", first_line(task.reason)
    waits = [wait.text for wait in explained.waits]
    for wait in [*waits, *explained.obstacles][:5]:
        yield "Waits", wait
    if explained.place is not None:
        yield "Place", f"{explained.place.number} of {explained.place.of} ready tasks"
    yield "Agent", f"{task.agent or 'none'}{f', {task.stage}' if task.stage else ''}"
    if task.run is not None:
        yield "Run", link(f"now?run={task.run}", task.run)
    if task.files:
        yield "Files", ", ".join(task.files[:20])
    if explained.gate is not None:
        yield (
            "Gate",
            link(f"landing?{urlencode({'run': task.run or ''})}", explained.gate.entry.state),
        )
    cost = sum(attempt.micro_usd for attempt in explained.attempts)
    if cost:
        yield "Cost", dollars(cost)
    yield "Command", tag("code", f"weft why {full_label(task)}")


def _acts(view: TaskView) -> Iterator[Html]:
    task = view.explanation.task
    name = full_label(task)
    if task.state is not State.DONE and (task.state in TERMINAL or task.state is State.BLOCKED):
        yield retry_form(task, view.agents, "Note for the agent")
    if task.state not in TERMINAL:
        if task.state is State.PAUSED:
            yield act_button("resume", "Resume", f"weft resume {name}", {"name": str(task.id)})
        elif task.state is not State.GATING:
            yield act_button("pause", "Pause", f"weft pause {name}", {"name": str(task.id)})
        yield act_button("skip", "Skip", f"weft skip {name}", {"task": task.id}, key="s")
        yield act_button("cancel", "Cancel", f"weft cancel {name}", {"name": str(task.id)})
    if view.explanation.attempts:
        yield link(f"diff/{task.id}", "Diff", class_="button")


def _tabs(view: TaskView) -> Html:
    task = view.explanation.task.id
    links = [
        link(
            f"task/{task}/{tab}",
            tab.capitalize(),
            aria_current="page" if tab == view.tab else None,
            data_key="m" if tab == "messages" and view.tab != tab else None,
        )
        for tab in TABS
        if tab != "team" or view.explanation.team is not None
    ]
    return tag("nav", links, class_="tabs", aria_label="Parts of the task")


def _body(view: TaskView) -> Part:
    match view.tab:
        case "log":
            return _log(view)
        case "attempts":
            return _attempts(view)
        case "checks":
            return _checks(view)
        case "team":
            return _team(view)
        case "prompt":
            return tag("pre", view.prompt or "No prompt: the task has not been started yet.")
        case "events":
            rows = [tr(clock(at), text) for at, text in view.event_lines]
            return table(("Time", "Event"), rows, caption="Events")
        case _:
            return _messages(view)


def _team(view: TaskView) -> Part:
    team, task = view.explanation.team, view.explanation.task
    if team is None:
        return tag("p", "No team: a single agent works on this task.", class_="dim")
    return render_team(team, task, may_choose=view.may_act)


def _log(view: TaskView) -> Part:
    if view.attempt is None or view.log is None:
        return tag("p", "No output: the task has not been started yet.", class_="dim")
    task, number = view.explanation.task, view.attempt.number
    numbers = [
        (str(attempt.number), f"{attempt.number} ({attempt.agent})")
        for attempt in view.explanation.attempts
    ]
    streams = [("stdout", "output"), ("stderr", "errors")]
    about = {"attempt": number, "stream": view.stream}
    address = f"task/{task.id}/log?{urlencode(about)}&"
    search = tag(
        "form",
        tag(
            "label",
            "Search the log",
            tag("input", type="search", name="q", id="log-search", value=view.words, maxlength=200),
        ),
        select("attempt", "Attempt", numbers, str(number)),
        select("stream", "Stream", streams, view.stream),
        tag(
            "a",
            "Download",
            href=f"#/task/{task.id}/log",
            class_="button",
            data_download=f"task/{task.id}/download?{urlencode(about)}",
            data_name=f"task-{task.id}-{number}.log",
        ),
        data_address=f"task/{task.id}/log",
        class_="filter",
        role="search",
    )
    matches = render_matches(view.matches, view.more_matches, address) if view.words else None
    return [search, matches, render_log(view.log, address)]


def _place(view: TaskView, attempt: Attempt) -> str:
    host = view.explanation.hosts.get(attempt.worker)
    return f" on {host}" if host else ""


def _attempts(view: TaskView) -> Html:
    task = view.explanation.task.id
    rows = [
        tr(
            link(f"task/{task}/log?attempt={attempt.number}", str(attempt.number)),
            f"{attempt.agent or ''}{_place(view, attempt)}",
            attempt.stage or "",
            attempt.outcome or ("under way" if attempt.ended is None else ""),
            clock(attempt.started),
            duration((attempt.ended or view.now) - attempt.started),
            f"{attempt.tokens:,}",
            dollars(attempt.micro_usd),
            data_row=True,
        )
        for attempt in reversed(view.explanation.attempts)
    ]
    heads = ("Attempt", "Agent", "Stage", "Outcome", "Started", "Took", "Tokens", "Cost")
    return table(heads, rows, caption="Attempts")


def _checks(view: TaskView) -> Part:
    gate = view.explanation.gate
    if gate is None or not (gate.verdicts or gate.conflicts or gate.check):
        return tag("p", "No check yet: the task has no candidate at the gate.", class_="dim")
    parts: list[Part] = []
    if gate.check is not None:
        parts.append(tag("p", "A check is under way for ", since(gate.check.since, view.now), "."))
    for verdict in reversed(gate.verdicts):
        word = "passed" if verdict.passed else "failed"
        names = " + ".join(gate.names.get(entry, entry) for entry in verdict.combination)
        flaky = (
            " (the same tree also got the opposite verdict)" if verdict.number in gate.flaky else ""
        )
        where = f" on {verdict.host}" if verdict.host else ""
        head = [state_tag(word, word), f" {names}, {duration(verdict.seconds)}{where}{flaky}"]
        output = gate.outputs.get(verdict.number)
        again = gate.reproductions.get(verdict.number)
        parts.append(
            tag(
                "details",
                tag("summary", head),
                tag("p", "Again: ", tag("code", again.line)) if again else None,
                tag("pre", output[-20_000:]) if output else None,
                id=f"check-{verdict.number}",
            )
        )
    parts += [tag("pre", conflict.report) for conflict in gate.conflicts]
    return parts


def _messages(view: TaskView) -> Part:
    task = view.explanation.task
    items = [
        tag(
            "li",
            tag("p", message.text, class_="text"),
            tag("p", f"{message.sender}, {clock(message.at)} · {_way(message)}", class_="dim"),
            id=f"message-{message.id}",
        )
        for message in view.messages
    ]
    form = None
    if view.may_write and task.state not in TERMINAL:
        form = send_form(
            "message",
            "Send",
            f"weft send {full_label(task)} TEXT",
            {"task": task.id},
            text_area(
                "text",
                "Message to the agent",
                draft=f"message-{task.id}",
                required=True,
                key="m",
            ),
        )
    listing = (
        tag("ul", items, class_="messages") if items else tag("p", "No message yet.", class_="dim")
    )
    return [listing, form, tag("p", count(len(items), "message"), class_="unseen")]


def _way(message: TaskMessage) -> str:
    if message.delivered is None:
        return "waits for the agent"
    if message.heard is None:
        return f"delivered {clock(message.delivered)}"
    return f"delivered {clock(message.delivered)}, heard {clock(message.heard)}"


def render_team(team: TeamView, task: Task, *, may_choose: bool) -> Html:
    """Show a team; `may_choose` adds the buttons to entrants that have a candidate."""
    choose = may_choose and team.state in ("open", "undecided")
    heads = (*_ENTRANT_HEADS, "Choose") if choose else _ENTRANT_HEADS
    rows = [tr(*_entrant_cells(entrant, team, task, choose=choose)) for entrant in team.entrants]
    steps = [tr(*_step(step)) for step in team.steps]
    return joined(
        tag("p", _team_summary(team), class_="dim"),
        table(heads, rows, caption="Entrants"),
        table(("Step", "Left", "Out"), steps, caption="Steps of the choice") if steps else None,
    )


def _team_summary(team: TeamView) -> str:
    chosen = "" if team.winner is None else f"; entrant {team.winner} was chosen"
    return f"{team.strategy}, {count(len(team.entrants), 'entrant')}{chosen}."


def _entrant_cells(
    entrant: EntrantView, team: TeamView, task: Task, *, choose: bool
) -> Iterator[Part]:
    star = " ★" if entrant.number == team.winner else ""
    yield link(f"task/{entrant.task}", f"{entrant.number} {entrant.agent}{star}")
    result = ENTRANT_RESULTS[entrant.result]
    yield f"{result}: {first_line(entrant.report)}" if entrant.report else result
    lines = count(entrant.lines, "line") if entrant.lines else "open"
    yield link(f"diff/{entrant.task}", lines) if entrant.commit else "no change"
    yield str(len(entrant.tests))
    yield duration(entrant.seconds)
    yield dollars(entrant.micro_usd)
    if choose and entrant.commit:
        yield act_button(
            "choose",
            f"Choose {entrant.number}",
            f"weft review {full_label(task)} --choose {entrant.number}",
            {"task": task.id, "entrant": entrant.number},
        )
    elif choose:
        yield ""


def _step(step: StepView) -> Iterator[Part]:
    yield step.step
    yield ", ".join(map(str, step.left)) or "none"
    yield "; ".join(f"{number} {reason}" for number, reason in step.out.items())


class LogWindow(Struct, frozen=True, kw_only=True):
    first: int  # number of the first line, from 1
    lines: Sequence[str]
    total: int  # lines so far
    target: int | None = None  # the line that a link names
    at_end: bool = True  # the window follows the end
    problem: str = ""  # why there are no lines


class LogMatch(Struct, frozen=True, kw_only=True):
    line: int
    text: str


def render_log(window: LogWindow, address: str) -> Html:
    """Show the window; `address` is that of the view, and ends with `?` or `&`."""
    if window.problem:
        return tag("p", window.problem, class_="dim")
    last = window.first + len(window.lines) - 1
    rows = Html("".join(_lines(window, address)))
    earlier = max(1, window.first - WINDOW)
    return joined(
        link(f"{address}first={earlier}", "Earlier lines") if window.first > 1 else None,
        tag(
            "ol",
            rows,
            class_="log",
            id="log",
            start=window.first,
            tabindex=0,
            role="log",
            aria_live="off",
            aria_label="Output",
            data_log=True,
            data_first=window.first,
            data_last=last,
            data_total=window.total,
            data_from="end" if window.at_end else "start",
        ),
        tag("button", "To the end", type="button", data_log_end=True, id="log-end", hidden=True),
        link(f"{address}first={last + 1}", "Later lines")
        if not window.at_end and last < window.total
        else None,
    )


def _lines(window: LogWindow, address: str) -> list[str]:
    """Write the lines as text: there are hundreds, at each update."""
    shown = []
    for number, text in enumerate(window.lines, window.first):
        target = " data-target" if number == window.target else ""
        where = f'<a href="#/{address}line={number}" aria-label="Line {number}">{number}</a>'
        shown.append(f'<li id="L{number}"{target}>{where}<span>{_cut(text)}</span></li>')
    return shown


def _cut(text: str) -> Html:
    if len(text) <= _LONGEST:
        return escaped(text)
    return escaped(f"{text[:_LONGEST]}… ({len(text):,} characters)")


def render_matches(matches: Sequence[LogMatch], more: int, address: str) -> Html:
    """Show the lines that contain the searched words."""
    items = [
        tag(
            "li",
            link(f"{address}line={match.line}", str(match.line)),
            " ",
            tag("code", _cut(match.text)),
        )
        for match in matches
    ]
    count = "No line" if not items else f"{len(items) + more} lines"
    return joined(
        tag("p", f"{count} found." + (f" The first {len(items)} are shown." if more else "")),
        tag("ol", items, class_="matches") if items else None,
    )
