"""Agents that cannot run as they are: stopped for every process until a person has looked."""

from __future__ import annotations

from collections.abc import Iterable

from weft.admission.capacity import MOST
from weft.model import AgentUse
from weft.store.database import Transaction
from weft.store.ledger import Ledger
from weft.store.store import reads, writes


def stop_agent(tx: Transaction, agent: str, reason: str, *, now: float) -> None:
    """Admit no more tasks for this agent; its running attempts continue."""
    tx.run("stop_agent", agent=agent, reason=tx.redact(reason), since=now)
    tx.event("agent_stopped", now=now, agent=agent, reason=reason)


@writes
def resume_agent(tx: Transaction, agent: str, *, now: float) -> bool:
    """Let an agent be started again; False if it was not stopped."""
    if not tx.count("resume_agent", agent=agent):
        return False
    tx.event("agent_resumed", now=now, agent=agent)
    tx.wake()
    return True


@reads
def list_stopped(tx: Transaction, *, now: float) -> dict[str, str]:
    """The stopped agents, and why."""
    return dict(Ledger(tx, now).stopped)


@reads
def use_of_agents(tx: Transaction, agents: Iterable[str], *, now: float) -> dict[str, AgentUse]:
    """How many of each agent run, out of how many, and whether more may start."""
    ledger = Ledger(tx, now)
    return {agent: _use(ledger, agent) for agent in agents}


def _use(ledger: Ledger, agent: str) -> AgentUse:
    resource = f"agent:{agent}"
    limit = ledger.nominal.get(resource, MOST)
    return AgentUse(
        running=ledger.used.get(resource, 0),
        limit=None if limit == MOST else limit,  # a stopped agent without a limit has the most
        stopped=ledger.stopped.get(agent),
    )
