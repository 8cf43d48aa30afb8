"""What happened, in a line: the events of the store as people read them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.cli.words import first_line

if TYPE_CHECKING:
    from weft.model import Event

_SIMPLE = {
    "attempt_adopted": "▶ goes on, adopted from a weft that is gone",
    "capacity_reserved": "  was passed over often: capacity is kept free for it",
    "drain_undone": "work starts again",
    "drained": "! drained: nothing starts any more",
    "entry_withdrawn": "↩ withdrawn from the gate",
    "offer_withdrawn": "the offer was not answered",
    "gate_unblocked": "the gate goes on",
    "run_ended": "■ run ended",
    "run_started": "▶ run started",
    "task_paused": "‖ paused",
    "task_resumed": "▶ resumed",
    "task_submitted": "submitted",
    "task_unparked": "▶ its time has come",
}


def text(event: Event) -> str:
    """One event in a line; empty for what only programs care about."""
    data = event.data
    if event.kind in _SIMPLE:
        return _SIMPLE[event.kind]
    match event.kind:
        case "task_admitted":
            return f"▶ attempt {data['attempt']} at {data['worker']}"
        case "attempt_finished" if data["outcome"] == "success":
            return f"✓ attempt {data['attempt']} → {data['state']}"
        case "attempt_finished":
            why = first_line(data["reason"])
            return f"✗ attempt {data['attempt']}: {data['outcome']}: {why} → {data['state']}"
        case "attempt_released":
            return f"✗ attempt {data['attempt']} handed back: {first_line(data['reason'])}"
        case "claims_extended":
            return f"  claims more: {', '.join(data['files'])}"
        case "lease_reaped":
            return f"✗ its process is gone: {data['proof']}"
        case "task_sent_back":
            return f"↩ sent back: {first_line(data['reason'])}"
        case "task_rejected":
            return f"↩ rejected: {first_line(data['reason'])}"
        case "task_blocked" | "gate_blocked":
            return f"! needs you: {first_line(data['reason'])}"
        case "task_approved":
            return f"✓ approved {data['note']}".rstrip()
        case "task_reopened":
            return f"▶ reopened (it was {data['was']})"
        case "task_cancelled" | "task_skipped" | "task_evicted":
            state = event.kind.removeprefix("task_")
            return state if data["reason"] == state else f"{state}: {first_line(data['reason'])}"
        case "task_landed":
            return f"● landed as {data['commit'][:12]}"
        case "task_offered" | "task_assigned":
            return f"{event.kind.removeprefix('task_')} to {data['worker']}"
        case "offer_rejected":
            return f"the offer was turned down by {data['worker']}"
        case "entry_queued":
            return "  asks to land"
        case "entry_rejected":
            return f"↩ entry {data['entry']} goes back ({data['why']})"
        case "task_passed_on":
            return f"✓ passed its checks; on to {data['stage']}"
        case "checked":
            verdict = "passed" if data["passed"] else "failed"
            return f"  check of {', '.join(data['entries'])} {verdict} in {data['seconds']:.1f} s"
        case "run_submitted":
            return f"run submitted, {data['tasks']} tasks"
        case "message_sent":
            return f"  a message from {data['sender']}"
        case "preference_ended":
            return f"{data['worker']} did not take it; whoever can may"
        case "token_created":
            return f"token {data['token']} made for {data['name']}: {', '.join(data['scopes'])}"
        case "token_revoked":
            return f"token {data['token']} revoked"
        case "limit_set":
            return f"limit {data['resource']} is {data['capacity']}"
        case "worker_registered":
            return f"worker {data['worker']} came, with {data['slots']} slots"
        case "worker_departed":
            return f"worker {data['worker']} left"
        case "agent_stopped":
            return f"! agent {data['agent']} is stopped: {first_line(data['reason'])}"
        case "agent_resumed":
            return f"agent {data['agent']} may run again"
        case "mirror_failed":
            return f"  its issue is not up to date: {first_line(data['reason'])}"
        case "provider_penalised":
            return f"{data['provider']} is rate limited; fewer agents at a time"
    return ""
