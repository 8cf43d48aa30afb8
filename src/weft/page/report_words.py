"""Names, colours and signs of the fates of attempts, and names of limits."""

from __future__ import annotations

from typing import Final

from weft.model import ASKED, HANDED_OVER, PROPOSAL, SLEPT
from weft.runs.report.report_records import ChoiceReport

PRESSURE: Final = frozenset({"rate_limit", "overload", "capacity"})
_FAILURES: Final = frozenset(
    {
        *("timeout", "context", "auth", "config", "crash"),
        *("no_change", "scope", "other", "red", "conflict"),
    }
)
_KINDS: Final = {
    "landed": ("landed", "✓"),
    "done": ("landed", "✓"),
    "at the gate": ("busy", "·"),
    "running": ("busy", "▸"),
    "sent back": ("back", "↩"),
    HANDED_OVER: ("landed", "⇢"),
    ASKED: ("busy", "?"),
    SLEPT: ("busy", "·"),
    PROPOSAL: ("bad", "✗"),
}
KEYS: Final = (
    ("landed", "landed or done"),
    ("back", "sent back by the gate"),
    ("bad", "failed"),
    ("wait", "its provider was busy"),
    ("busy", "running, or at the gate"),
    ("off", "handed back"),
)


def find_kind(fate: str) -> str:
    """Return the class of a fate in the style sheet."""
    if fate in PRESSURE:
        return "wait"
    return "bad" if fate in _FAILURES else _KINDS.get(fate, ("off", ""))[0]


def find_sign(fate: str) -> str:
    """Return the sign of a fate, for people who do not see colours."""
    if fate in PRESSURE:
        return "…"
    return "✗" if fate in _FAILURES else _KINDS.get(fate, ("", "–"))[1]


def describe_choice(choice: ChoiceReport) -> str:
    """Return a step of a team's choice as a clause: `gate check: 2 left (1 fails …)`."""
    left = ", ".join(map(str, choice.left)) or "none"
    if choice.step == "chosen":
        return f"entrant {left} was chosen"
    out = "; ".join(f"{number} {reason}" for number, reason in choice.out.items())
    return f"{choice.step}: {left} left{f' ({out})' if out else ''}"


def describe_fate(fate: str) -> str:
    return fate.replace("_", " ")


def shorten_limit(resource: str, run: str) -> str:
    """Return the name of a limit within its run: `agents`, `stage implement`."""
    if resource == f"run:{run}/agents":
        return "agents of this run"
    for prefix, name in ((f"run:{run}/", ""), (f"stage:{run}/", "stage ")):
        if resource.startswith(prefix):
            return name + resource.removeprefix(prefix)
    return resource.replace(":", " ", 1)
