"""Records of the swarm as the tools answer with them."""

from __future__ import annotations

from weft import model
from weft.mcp import answers
from weft.operations.swarm import records


def member(found: records.Member) -> answers.Member:
    return answers.Member(
        id=found.id,
        name=found.name,
        role=found.role,
        is_lead=found.is_lead,
        capabilities=list(found.capabilities),
        status=found.status,
        current=found.capacity.current,
        max=found.capacity.max,
        tasks=[answers.Held(task=one.task, name=one.name, fence=one.fence) for one in found.tasks],
        offers=list(found.offers),
    )


def listed(found: records.Summary) -> answers.Listed:
    return answers.Listed(
        task=found.id,
        name=found.name,
        state=found.state.value,
        reason=found.reason,
        agent=found.agent,
        worker=found.worker,
        run=found.run,
    )


def task(found: model.Task) -> answers.Task:
    return answers.Task(
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


def claimed(found: records.Claimed) -> answers.Claimed:
    return answers.Claimed(
        task=found.task,
        name=found.name,
        fence=found.fence,
        text=found.text,
        files=list(found.files),
        needs=[
            answers.Needed(task=one.task, name=one.name, state=one.state.value, result=one.result)
            for one in found.needs
        ],
    )


def message(found: model.Message) -> answers.Message:
    return answers.Message(sender=found.sender, text=found.text)


def polled(found: records.Trigger | None) -> tuple[str, answers.Polled]:
    if found is None:
        return "There is nothing for you yet; poll again.", answers.Polled(
            kind="nothing", messages=[], finished=[]
        )
    return _said(found), answers.Polled(
        kind=found.kind,
        task=claimed(found.task) if found.task else None,
        offer=_offer(found.offer) if found.offer else None,
        messages=[message(one) for one in _messages(found)],
        finished=[_finished(one) for one in found.finished],
        ack=found.ack,
    )


def _said(found: records.Trigger) -> str:
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


def _messages(found: records.Trigger) -> tuple[model.Message, ...]:
    return (*found.messages, *(found.task.messages if found.task else ()))


def _offer(found: records.Offer) -> answers.Offer:
    return answers.Offer(task=found.task, name=found.name, text=found.text)


def _finished(found: model.Notice) -> answers.Finished:
    good = found.state in model.MET
    return answers.Finished(
        task=found.task,
        name=found.name,
        state=found.state.value,
        text=found.result if good and found.result else found.reason,
    )
