"""Records of the swarm as the tools answer with them."""

from __future__ import annotations

from weft import model
from weft.api.mcp import tool_results
from weft.swarm import swarm_records


def member(found: swarm_records.Member) -> tool_results.MemberResult:
    return tool_results.MemberResult(
        id=found.id,
        name=found.name,
        role=found.role,
        is_lead=found.is_lead,
        capabilities=list(found.capabilities),
        status=found.status,
        current=found.capacity.current,
        max=found.capacity.max,
        tasks=[
            tool_results.HeldResult(task=one.task, name=one.name, fence=one.fence)
            for one in found.tasks
        ],
        offers=list(found.offers),
    )


def listed(found: swarm_records.Summary) -> tool_results.ListedTask:
    return tool_results.ListedTask(
        task=found.id,
        name=found.name,
        state=found.state.value,
        reason=found.reason,
        agent=found.agent,
        worker=found.worker,
        run=found.run,
    )


def task(found: model.Task) -> tool_results.TaskResultShape:
    return tool_results.TaskResultShape(
        task=found.id,
        name=found.name,
        run=found.run,
        state=found.state.value,
        reason=found.reason,
        text=found.text,
        agent=found.agent,
        files=list(found.files),
        result=found.result,
    )


def claimed(found: swarm_records.Claimed) -> tool_results.ClaimedResult:
    return tool_results.ClaimedResult(
        task=found.task,
        name=found.name,
        fence=found.fence,
        text=found.text,
        files=list(found.files),
        needs=[
            tool_results.Needed(
                task=one.task, name=one.name, state=one.state.value, result=one.result
            )
            for one in found.needs
        ],
    )


def message(found: model.Message) -> tool_results.MessageResult:
    return tool_results.MessageResult(sender=found.sender, text=found.text)


def polled(found: swarm_records.Trigger | None) -> tuple[str, tool_results.PolledResult]:
    if found is None:
        return "There is nothing for you yet; poll again.", tool_results.PolledResult(
            kind="nothing", messages=[], finished=[]
        )
    return _said(found), tool_results.PolledResult(
        kind=found.kind,
        task=claimed(found.task) if found.task else None,
        offer=_offer(found.offer) if found.offer else None,
        messages=[message(one) for one in _messages(found)],
        finished=[_finished(one) for one in found.finished],
        ack=found.ack,
    )


def _said(found: swarm_records.Trigger) -> str:
    if found.task:
        return f"Task {found.task.task} is yours, under the fence {found.task.fence}."
    if found.offer:
        return f"You are offered task {found.offer.task}; accept or reject it with task_action."
    told = []
    if found.messages:
        told.append(f"{len(found.messages)} message(s)")
    if found.finished:
        told.append(", ".join(f"task {one.task} is {one.state}" for one in found.finished))
    return f"For you: {'; '.join(told)}."


def _messages(found: swarm_records.Trigger) -> tuple[model.Message, ...]:
    return (*found.messages, *(found.task.messages if found.task else ()))


def _offer(found: swarm_records.Offer) -> tool_results.OfferResult:
    return tool_results.OfferResult(task=found.task, name=found.name, text=found.text)


def _finished(found: model.Notice) -> tool_results.FinishedResult:
    good = found.state in model.MET
    return tool_results.FinishedResult(
        task=found.task,
        name=found.name,
        state=found.state.value,
        text=found.result if good and found.result else found.reason,
    )
