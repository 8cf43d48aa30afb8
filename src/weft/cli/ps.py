"""`weft ps`"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

import click

from weft.cli.command_arguments import pass_project, run_argument
from weft.cli.output import json_option, print_json, print_table, say, show
from weft.errors import InputError
from weft.formats import clock, count, dollars, duration, first_line, first_sentence
from weft.model import Task, Worker
from weft.project.project import Project
from weft.runs.attention import Attention, read_attention
from weft.runs.attention import as_dict as need_as_dict
from weft.runs.host_list import HostStatus, describe_host_labels, describe_seen, read_hosts
from weft.runs.host_list import as_dict as host_as_dict
from weft.store import Store
from weft.store.overview import Overview, TaskAtWork, overview
from weft.store.probe import count_wanted
from weft.store.workers import list_silent
from weft.words import (
    IN_REVIEW,
    STATE_WORDS,
    count_states,
    entry_word,
    full_label,
    progress_text,
    task_label,
    task_state,
)

if TYPE_CHECKING:
    from weft.runs.explanation import QueueView

_MOST: Final = 200  # tasks shown
_MOST_NEXT: Final = 100  # tasks of the queue
_ORDER: Final = ("running", "gating", "offered", "parked", "paused")


@click.command(name="ps")
@run_argument
@click.option("--tasks", "each", is_flag=True, help="A line for each task, ended ones included.")
@click.option("--queue", is_flag=True, help="The next tasks, why they wait, and the gate's queue.")
@json_option
@pass_project
def command(project: Project, run: str | None, each: bool, queue: bool, as_json: bool) -> None:
    """Show what needs you, tasks at work, runs and hosts.

    Of ended runs the last three, and whether the branch of your checkout has their work. With RUN
    or --tasks the tasks of RUN, or of all unfinished runs and of no run; if no run is unfinished,
    those of the newest run.
    """
    if queue and (run is not None or each):
        raise InputError("--queue is about all runs: give neither RUN nor --tasks with it.")
    with project.open_store() as store:
        if queue:
            _print_queue(store, as_json=as_json)
        elif run is not None or each:
            _print_tasks(store, run, as_json=as_json)
        else:
            _print_overview(project, store, as_json=as_json)


def _print_overview(project: Project, store: Store, *, as_json: bool) -> None:
    now = time.time()
    seen = overview(store, most=_MOST)
    needs = read_attention(store, now=now)
    silent = list_silent(store, now=now)
    hosts = read_hosts(store, now=now)
    merged = find_merged(project, seen)
    if as_json:
        about_hosts = {
            "hosts": [host_as_dict(status) for status in hosts],
            "wanted_slots": count_wanted(store, now=now),
        }
        print_json(as_dict(seen, needs, silent, merged) | about_hosts)
        return
    for line in [*lines(seen, needs, silent, merged, now), *host_lines(hosts, now)]:
        say(line)


def _print_tasks(store: Store, run: str | None, *, as_json: bool) -> None:
    from weft.runs.task_list import list_listed  # late: `weft ps` alone is quicker

    listed = list_listed(store, run)
    if as_json:
        print_json(
            {
                "tasks": [
                    {
                        **_name_dict(line.task),
                        "state": line.task.state.value,
                        "since": line.task.since,
                        "until": line.task.until,
                        "reason": line.task.reason,
                        "agent": line.task.agent,
                        "stage": line.task.stage,
                        "attempts": line.attempts,
                        "tokens": line.tokens,
                        "micro_usd": line.micro_usd,
                    }
                    for line in listed
                ]
            }
        )
    elif not listed:
        say("There are no tasks yet: `weft run FILE` makes some.")
    else:
        print_table(
            ("TASK", "STATE", "AGENT", "TRIES", "COST", "TITLE"),
            [
                (
                    full_label(line.task),
                    task_state(line.task),
                    line.task.agent or "",
                    line.attempts,
                    dollars(line.micro_usd) if line.micro_usd else "",
                    _title(line.task),
                )
                for line in listed
            ],
        )


def _print_queue(store: Store, *, as_json: bool) -> None:
    from weft.runs.explanation import read_queue  # late: `weft ps` alone is quicker

    queue = read_queue(store, now=time.time(), most=_MOST_NEXT)
    fields = {
        "ready": [{**_name_dict(task), "waits": waits} for task, waits in queue.ready],
        "count": queue.count,
        "gates": [
            {"run": e.run, "entry": e.id, "state": e.state, "tasks": e.tasks} for e in queue.entries
        ],
    }
    show(fields, _queue_lines(queue), as_json=as_json)


def _queue_lines(queue: QueueView) -> Iterator[str]:
    if not queue.ready and not queue.entries:
        yield "No task is ready, and none waits for the gate."
    for number, (task, waits) in enumerate(queue.ready, 1):
        held = "; ".join(wait.text for wait in waits) or "starts next"
        yield f"{number:>4}  {full_label(task)}  {_title(task)}  [{held}]"
    if queue.count > len(queue.ready):
        yield f"      … and {queue.count - len(queue.ready)} more"
    for run, entries in groupby(queue.entries, key=lambda entry: entry.run):
        yield f"gate of {run}"
        for number, entry in enumerate(entries, 1):
            alone = ", tested alone" if entry.alone else ""
            yield f"{number:>4}  {queue.names[entry.id]}  {entry_word(entry.state)}{alone}"


def _title(task: Task) -> str:
    return task.request.title or first_sentence(task.text)


def _name_dict(task: Task) -> dict[str, Any]:
    return {"task": task.id, "run": task.run, "name": task.name, "title": _title(task)}


def find_merged(here: Project, seen: Overview) -> Mapping[str, bool | None]:
    """Tell of each ended run whether a branch of the user has its work; None: not known."""
    unknown = [run for run in seen.ended if not seen.landed[run]]
    if not unknown:
        return dict.fromkeys(seen.ended, True)
    if here.server is not None:
        return {run: True if seen.landed[run] else None for run in seen.ended}
    from weft import git  # late: a third of the time of `weft ps`, needed for ended runs alone
    from weft.workspace.names import TRUNKS, trunk_ref  # late: most of a command's start-up time

    trunks = git.list_merged(here.root, TRUNKS)
    there = git.list_refs(here.root, TRUNKS)  # `weft clean` removes those that are merged
    return {
        run: bool(seen.landed[run]) or trunk_ref(run) in trunks or trunk_ref(run) not in there
        for run in seen.ended
    }


def as_dict(
    seen: Overview, needs: Attention, silent: Sequence[Worker], merged: Mapping[str, bool | None]
) -> dict[str, Any]:
    return {
        "needs_you": [need_as_dict(need) for need in needs.all],
        "tasks": seen.tasks,
        "runs": [
            {
                "run": run or None,
                "waiting": run in seen.waiting,
                "gate": seen.gates.get(run),
                "tasks": counts,
            }
            for run, counts in seen.runs.items()
        ],
        "ended": [
            {"run": run, "tasks": counts, "merged": merged[run], "branches": list(seen.landed[run])}
            for run, counts in seen.ended.items()
        ],
        "stopped_agents": seen.stopped,
        "drained": seen.drained,
        "silent_workers": [
            {
                "worker": worker.id,
                "host": worker.host,
                "pid": worker.pid,
                "silent_since": worker.silent_since,
                "tasks": worker.capacity.current,
            }
            for worker in silent
        ],
    }


def lines(
    seen: Overview,
    needs: Attention,
    silent: Sequence[Worker],
    merged: Mapping[str, bool | None],
    now: float,
) -> list[str]:
    shown = ["NEEDS YOU"] if needs.all else []
    for need in needs.all:
        since = f", since {clock(need.since or now)}" if need.kind == "drained" else ""
        shown.append(f"  ! {need.subject} {need.text}{since}")
        shown.append(f"      {' or '.join(f'`{cure}`' for cure in need.do)}")
    if silent:
        from weft.cli.task_lines import list_silence_lines  # late: it imports anyio

        shown += [*_gap(shown), "SILENT"]
        shown += [line for worker in silent for line in list_silence_lines(worker)]
    for state in _ORDER:
        tasks = [task for task in seen.tasks if _shown_as(task) == state]
        if tasks:
            shown += [*_gap(shown), STATE_WORDS[state].upper()]
            shown += [f"  {called(task)}  {_doing(task, now)}  {task.title}" for task in tasks]
    if seen.runs:
        shown += [*_gap(shown), "RUNS"]
        shown += [f"  {_progress(run, counts, seen)}" for run, counts in seen.runs.items()]
    if seen.ended:
        shown += [*_gap(shown), "ENDED"]
        shown += [f"  {_ended(run, seen, merged[run])}" for run in seen.ended]
    if len(seen.tasks) >= _MOST:
        shown.append(f"  … only the first {_MOST} tasks are shown.")
    return shown or ["No task is under way."]


def host_lines(hosts: Sequence[HostStatus], now: float) -> list[str]:
    if not hosts:
        return []
    shown = ["", "HOSTS"]
    for status in hosts:
        slots = f"{status.slots.current} of {count(status.slots.max, 'slot')}"
        labels = [describe_host_labels(status)] if status.labels else []
        parts = [slots, *labels, status.duties, describe_seen(status, now)]
        shown.append(f"  {status.host}  {' · '.join(parts)}")
    return shown


def called(task: TaskAtWork) -> str:
    return task_label(task.id, task.run, task.name)


def _shown_as(task: TaskAtWork) -> str:
    """Return the state to show: a paused task whose agent goes on is running. A task in review is
    shown as a need only."""
    if task.reason == IN_REVIEW:
        return IN_REVIEW
    return "running" if task.state == "paused" and task.started is not None else task.state


def _doing(task: TaskAtWork, now: float) -> str:
    if task.started is not None and task.state in ("running", "paused"):
        who = task.agent or task.worker or ""
        stage = f"{who}{f', {task.stage}' if task.stage not in (None, task.agent) else ''}"
        handed = f", hand-over {task.hops}" if task.hops else ""
        again = handed or (f", attempt {task.attempt}" if task.attempt > 1 else "")
        paused = ", then paused" if task.state == "paused" else ""
        return f"{stage}{again}, {duration(now - task.started)}{paused}"
    if task.state == "parked" and task.until is not None:
        return f"until {clock(task.until)} ({first_line(task.reason) or 'backing off'})"
    if task.state == "offered":
        return f"to {task.worker}"
    return f"for {duration(now - task.since)}"


def _progress(run: str, counts: Mapping[str, int], seen: Overview) -> str:
    if not run:
        return f"without a run: {count_states(counts)}"
    place = ", waiting for a place among the runs" if run in seen.waiting else ""
    return f"{run}: {progress_text(counts)}{place}"


def _ended(run: str, seen: Overview, merged: bool | None) -> str:
    counts = seen.ended[run]
    text = f"{run}: {progress_text(counts)}"
    if not counts.get("done"):
        return text
    if merged is None:
        return text
    branches = f" into {', '.join(seen.landed[run])}" if seen.landed[run] else ""
    return f"{text}, " + (f"merged{branches}" if merged else f"not merged (`weft land {run}`)")


def _gap(shown: list[str]) -> list[str]:
    return [""] if shown else []
