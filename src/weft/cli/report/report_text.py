"""What a report calls things."""

from __future__ import annotations

from typing import Final

PRESSURE: Final = frozenset({"rate_limit", "overload", "capacity"})
_FAILURES: Final = frozenset(
    {
        "timeout",
        "context",
        "auth",
        "config",
        "crash",
        "no_change",
        "scope",
        "other",
        "red",
        "conflict",
    }
)
_KINDS: Final = {
    "landed": ("landed", "✓"),
    "done": ("landed", "✓"),
    "at the gate": ("busy", "·"),
    "running": ("busy", "▸"),
    "sent back": ("back", "↩"),
}
KEYS: Final = (
    ("landed", "landed or done"),
    ("back", "sent back by the gate"),
    ("bad", "failed"),
    ("wait", "its provider was busy"),
    ("busy", "running, or at the gate"),
    ("off", "handed back"),
)


def kind(fate: str) -> str:
    """The class, in the style sheet, of what became of an attempt."""
    if fate in PRESSURE:
        return "wait"
    return "bad" if fate in _FAILURES else _KINDS.get(fate, ("off", ""))[0]


def sign(fate: str) -> str:
    """The same for those who do not see colours."""
    if fate in PRESSURE:
        return "…"
    return "✗" if fate in _FAILURES else _KINDS.get(fate, ("", "–"))[1]


def said(fate: str) -> str:
    return fate.replace("_", " ")


def length(seconds: float) -> str:
    """`12.4 s`, `3 min 05 s`, `2 h 10 min`."""
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"


def dollars(micro_usd: int) -> str:
    amount = micro_usd / 1e6
    return f"${amount:,.2f}" if amount >= 1 or not amount else f"${amount:.3f}"


def first_line(text: str) -> str:
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def short(resource: str, run: str) -> str:
    """A limit as it is called within its run: `agents`, `stage implement`."""
    if resource == f"run:{run}/agents":
        return "agents of this run"
    for prefix, name in ((f"run:{run}/", ""), (f"stage:{run}/", "stage ")):
        if resource.startswith(prefix):
            return name + resource.removeprefix(prefix)
    return resource.replace(":", " ", 1)
