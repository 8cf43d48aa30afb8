"""Forms that act: each button shows the command that it stands for."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from weft.admission.capacity import is_consumable
from weft.model import Task
from weft.page.markup import Html, Part, joined, tag
from weft.words import full_label


def send_form(
    act: str, label: str, command: str, fields: Mapping[str, object], *inputs: Part, go: str = ""
) -> Html:
    """Make a form with inputs that is always open. `go` is the address to show afterwards."""
    return _form(act, fields, *inputs, _button(label, command, ""), go=go)


def act_button(
    act: str, label: str, command: str, fields: Mapping[str, object], *, key: str = "", go: str = ""
) -> Html:
    """Make a form of a single button. `act` is an operation, `fields` its request."""
    return _form(act, fields, _button(label, command, key), go=go)


def act_form(
    act: str,
    label: str,
    command: str,
    fields: Mapping[str, object],
    *inputs: Part,
    key: str = "",
    go: str = "",
) -> Html:
    """Make a form with inputs, folded behind its label. `go` is the address to show afterwards."""
    name = f"{act}-{'-'.join(str(value) for value in fields.values())}"
    return tag(
        "details",
        tag("summary", _label(label, command), data_key=key or None),
        _form(act, fields, *inputs, tag("button", label.rstrip("…"), type="submit"), go=go),
        class_="act",
        id=f"form-{name}",
    )


def _form(act: str, fields: Mapping[str, object], *parts: Part, go: str = "") -> Html:
    return tag(
        "form",
        *parts,
        data_act=f"v1/{act}",
        data_fields=json.dumps(dict(fields)),
        data_go=f"#/{go}" if go else None,
    )


def _button(label: str, command: str, key: str) -> Html:
    return tag("button", _label(label, command), type="submit", data_key=key or None)


def _label(label: str, command: str) -> Html:
    return joined(tag("span", label), tag("code", command, class_="cli"))


def text_area(name: str, label: str, *, draft: str, required: bool = False, key: str = "") -> Html:
    """Make a field for a text that survives a reload until it is sent."""
    area = tag(
        "textarea", name=name, rows=3, data_draft=draft, required=required, data_key=key or None
    )
    return tag("label", label, area)


def select(name: str, label: str, options: Iterable[tuple[str, str]], chosen: str = "") -> Html:
    choices = [
        tag("option", text, value=value, selected=value == chosen) for value, text in options
    ]
    return tag("label", label, tag("select", choices, name=name))


def bulk_button(act: str, label: str, command: str) -> Html:
    """Make a button that carries out the act of every picked row."""
    return tag("button", _label(label, command), type="button", data_bulk=f"v1/{act}")


def retry_form(task: Task, agents: Iterable[str], label: str) -> Html:
    """Make the form that tries a task again, with another agent or with a note of this label."""
    choices = [("", f"the same ({task.agent})"), *((agent, agent) for agent in agents)]
    return act_form(
        "retry",
        "Retry…",
        f"weft retry {full_label(task)} [--agent NAME] [--note TEXT]",
        {"task": task.id},
        select("agent", "Agent", choices),
        text_area("note", label, draft=f"retry-{task.id}"),
        key="r",
    )


def pick_run(view: str, runs: Iterable[str], chosen: str, *more: Part) -> Html:
    """Make the form that puts `?run=` into the address of a view."""
    return tag(
        "form",
        select("run", "Run", [(run, run) for run in runs], chosen),
        *more,
        data_address=view,
        class_="filter",
    )


def limit_form(resource: str, amount: int, label: str, *, key: str = "") -> Html:
    """Make the form that sets a limit; that of a budget takes dollars."""
    money = is_consumable(resource)
    value = f"{amount / 1_000_000:.2f}" if money else str(amount)
    field = tag(
        "input",
        type="number",
        name="capacity",
        value=value,
        min="0",
        step="0.01" if money else "1",
        id=f"value-{resource}",
        required=True,
    )
    return act_form(
        "set_limit",
        label,
        f"weft limits set {resource} {value}",
        {"resource": resource},
        tag("label", "Dollars" if money else "New value", field),
        key=key,
    )
