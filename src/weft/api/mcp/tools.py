"""The tools of agents and members that are no operations of the registry yet, and their caller.

A caller that weft started works on a task, which is the default of its arguments. Any other caller
is a member of the swarm, by the token it joined with.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Concatenate, Final, ParamSpec, TypeVar

import anyio
from anyio.to_thread import run_sync

from weft.agents import proposal
from weft.api.mcp import arguments
from weft.api.mcp.tool_results import (
    ActionResult,
    FilesResult,
    MyMembers,
    PollResult,
    ProgressResult,
    ReportedWork,
    StepResult,
    SwarmMembers,
)
from weft.api.threads import Threads
from weft.errors import Forbidden, InputError, Refused
from weft.model import Filter, State, Task
from weft.operations import dispatch, inbox, member_work, membership, reading
from weft.operations.identity import Identity, find_own_members, sender_name
from weft.operations.long_poll import Room
from weft.operations.member_records import Dispatched, Member, Page, TaskResult, Trigger
from weft.project.project import Project
from weft.project.site import agent_names
from weft.store import Store
from weft.store.wake import wait_rung

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class Call:
    store: Store
    room: Room  # polls wait here; the server runs it
    project: Project  # for which plans are submitted
    who: Identity
    leaving: anyio.Event  # set when polls shall return at once
    threads: Threads

    async def ask(
        self,
        function: Callable[Concatenate[Store, Identity, P], T | Refused],
        /,
        *args: P.args,
        **named: P.kwargs,
    ) -> T:
        """Call an operation of the swarm as the caller, in a thread."""
        work = partial(function, self.store, self.who, *args, **named)
        done = await self.threads.run(self.who.token, work)
        if isinstance(done, Refused):  # its effects are stored by now
            raise done
        return done


async def join_swarm(call: Call, given: arguments.JoinSwarm) -> tuple[str, Member]:
    """Join the swarm as a member that takes tasks, or come back as the same member.

    Do this once, before poll_task. Joining again with the same name and token keeps your tasks.
    Agents that weft started are not members and need not join.
    """
    member = await call.ask(
        membership.join,
        **given.description(),
        id=given.me,
        usual_tasks=call.project.config.api_slots,
        agent_files=agent_names(call.project.root),
        now=time.time(),
    )
    held = f" and hold {len(member.tasks)} task(s)" if member.tasks else ""
    sentence = f"You are {member.id}, may work on {member.capacity.max} task(s) at once{held}."
    return sentence, member


async def my_agent_info(call: Call, given: arguments.MyAgentInfo) -> tuple[str, MyMembers]:
    """Show your membership, your capacity, and the tasks you hold with their fences."""
    if call.who.fence is not None:
        sentence = f"weft started you for task {call.who.task}; its fence is {call.who.fence}."
        return sentence, MyMembers(members=(), task=call.who.task, fence=call.who.fence)
    own = await call.ask(membership.find_own, now=time.time())
    own = [member for member in own if given.me in (None, member.id, member.name)]
    names = ", ".join(member.id for member in own)
    sentence = (
        f"You are {names}." if own else "You have not joined the swarm; join_swarm does that."
    )
    return sentence, MyMembers(members=tuple(own), task=None, fence=None)


async def get_swarm(call: Call, _given: arguments.GetSwarm) -> tuple[str, SwarmMembers]:
    """List the members of the swarm, with their capabilities and load."""
    present = await call.ask(membership.list_members, now=time.time())
    free = sum(member.capacity.available > 0 and member.status != "offline" for member in present)
    sentence = f"{len(present)} member(s), {free} of them with room for a task."
    return sentence, SwarmMembers(members=tuple(present))


async def send_task(call: Call, given: arguments.SendTask) -> tuple[str, Dispatched]:
    """Send a task to any free member, to an agent of weft's, or to a certain member.

    It is done when poll_task tells you that it has ended, or get_task says so. You need not wait:
    no task depends on you once it is sent. For work in the repository name the agent and the files
    it may change.
    """
    wanted = given.work(sender=await _sender(call, given.me))
    work = await run_sync(dispatch.address, call.store, call.who, call.project, wanted)
    sent = await call.ask(dispatch.send, work, now=time.time())
    return f"Task {sent.task} is {sent.state}.", sent


async def get_tasks(call: Call, given: arguments.GetTasks) -> tuple[str, Page]:
    """List tasks, oldest first, a page at a time."""
    me = await _sender(call, None) if given.mine else None
    sender = call.who.subject if me is None else sender_name(me)
    which = Filter(**given.values_for(Filter), created_by=sender if given.mine else None)
    page = await call.ask(reading.list_tasks, which, after=given.after, most=given.most)
    more = "; there are more" if page.after is not None else ""
    return f"{len(page.tasks)} task(s){more}.", page


async def get_task(call: Call, given: arguments.GetTask) -> tuple[str, Task]:
    """Show a task: its text, state, files and result."""
    task = await call.ask(reading.get_task, _task(call, given.task))
    reason = f": {task.reason}" if task.reason else ""
    return f"Task {task.id} is {task.state}{reason}.", task


async def task_action(call: Call, given: arguments.TaskAction) -> tuple[str, ActionResult]:
    """Claim a ready task, release a task you hold, accept or reject a task you were offered."""
    me = await _member(call, given.me)
    now = time.time()
    match given.action:
        case "claim" | "accept":
            take = member_work.claim if given.action == "claim" else member_work.accept
            taken = await call.ask(take, me, given.task, now=now)
            sentence = f"Task {given.task} is yours, under the fence {taken.fence}."
            return sentence, ActionResult(task=given.task, action=given.action, claimed=taken)
        case "reject":
            await call.ask(member_work.reject, me, given.task, reason=given.reason, now=now)
            sentence = f"Task {given.task} is for others."
        case "release":
            fence = await _held(call, me, given.task)
            await call.ask(member_work.release, fence, reason=given.reason, now=now)
            sentence = f"Task {given.task} is no longer yours."
    return sentence, ActionResult(task=given.task, action=given.action, claimed=None)


_LONGEST_WAIT: Final = 5.0  # seconds after which to read although no ring came
_PAUSE: Final = 0.1  # seconds between two reads: a busy store rings all the time
_NOTHING: Final = PollResult(
    kind="nothing", task=None, offer=None, messages=(), finished=(), ack=None
)


async def poll_task(call: Call, given: arguments.PollTask) -> tuple[str, PollResult]:
    """Wait for a task, an offer, messages, or news of tasks you sent.

    A task that comes is yours already; end it with store_progress, or give it back with
    task_action. Messages and news come again until you show the `ack` they came with. An agent that
    weft started gets no other tasks here.
    """
    wait = given.wait_ms / 1000
    if call.who.fence is not None:
        trigger = await _wait_news(call, wait=wait, ack=given.ack)
    else:
        me = await _member(call, given.me)
        trigger = await call.room.poll(call.who, me, wait=wait, ack=given.ack)
    if trigger is None:
        return "There is nothing for you yet; poll again.", _NOTHING
    messages = (*trigger.messages, *(trigger.task.messages if trigger.task else ()))
    return _announce(trigger), PollResult(
        kind=trigger.kind,
        task=trigger.task,
        offer=trigger.offer,
        messages=messages,
        finished=trigger.finished,
        ack=trigger.ack,
    )


async def _wait_news(call: Call, *, wait: float, ack: str | None) -> Trigger | None:
    """Wait for news of the caller's task. Only agents that weft runs wait here, so few that each
    has a listener of its own."""
    end = anyio.current_time() + wait
    with call.store.listen("events") as listener:
        while True:
            news = await call.ask(inbox.find_news, ack=ack, now=time.time())
            left = end - anyio.current_time()
            if news is not None or left <= 0 or call.leaving.is_set():
                return news
            await wait_rung(listener, seconds=min(left, _LONGEST_WAIT), event=call.leaving)
            await anyio.sleep(_PAUSE)


def _announce(trigger: Trigger) -> str:
    if trigger.task:
        return f"Task {trigger.task.task} is yours, under the fence {trigger.task.fence}."
    if trigger.offer:
        return f"You are offered task {trigger.offer.task}; accept or reject it with task_action."
    news = [f"{len(trigger.messages)} message(s)"] if trigger.messages else []
    if trigger.finished:
        news.append(", ".join(f"task {end.task} is {end.state}" for end in trigger.finished))
    return f"For you: {'; '.join(news)}."


async def store_progress(call: Call, given: arguments.StoreProgress) -> tuple[str, ProgressResult]:
    """Tell how far a task is, or end it: completed with its result, failed with the reason.

    The first end counts. Tell progress every few minutes: it is your sign of life for the task.
    An agent that weft started tells progress only; its task ends when it does.
    """
    fence = _fence(call, given.fence)
    now = time.time()
    if given.status == "progress":
        heard = await call.ask(member_work.progress, fence, text=given.text, ack=given.ack, now=now)
        number = len(heard.messages)
        news = f" There are {number} message(s) for you." if number else ""
        return f"Noted for task {heard.task}.{news}", ProgressResult(
            task=heard.task, state=State.RUNNING, messages=heard.messages, ack=heard.ack
        )
    if fence == call.who.fence:
        raise Forbidden(
            "weft started you for this task, and sees how it went when you end: say it as your "
            "last message."
        )
    result = TaskResult(status=given.status, text=given.text)
    state = await call.ask(member_work.finish, fence, result, now=now)
    return f"The task is {state}.", ProgressResult(task=None, state=state, messages=(), ack=None)


async def claim_files(call: Call, given: arguments.ClaimFiles) -> tuple[str, FilesResult]:
    """Ask for more files for a task you work on: all of them at once, or none.

    Ask before you change a file that is not yours. If another task holds it, go on without it, or
    say in your last message that you need it and stop.
    """
    held = await call.ask(
        member_work.claim_files, _fence(call, given.fence), tuple(given.files), now=time.time()
    )
    if not held:
        return "They are yours now.", FilesResult(granted=True, held={})
    who = ", ".join(
        f"{path} (task {task})" if task else path for path, task in list(held.items())[:5]
    )
    return f"Others hold {who}; nothing was granted.", FilesResult(granted=False, held=held)


async def report_work(call: Call, given: arguments.ReportWork) -> tuple[str, ReportedWork]:
    """Report work that you came across and that is not part of your task; then go on with yours.

    A person sees it as a proposed task. If the task comes from beads, it becomes a bead that was
    discovered from that of your task.
    """
    fence = _fence(call, given.fence)
    task = await call.ask(
        member_work.report_work, fence, given.work, text=given.text, now=time.time()
    )
    return "Noted. Leave it alone, and go on with your task.", ReportedWork(
        task=task, work=given.work
    )


async def hand_over(call: Call, given: arguments.HandOver) -> tuple[str, StepResult]:
    """Hand your task over to the next agent, with a note and the arguments it asks for.

    Your work so far goes with it. End your turn right after this call: the last step you proposed
    counts when you end.
    """
    return await _propose(call, {"step": "hand_over", **given.model_dump()})


async def ask(call: Call, given: arguments.Ask) -> tuple[str, StepResult]:
    """Ask a person; end your turn right after this call. You go on when the answer is there."""
    return await _propose(call, {"step": "ask", **given.model_dump()})


async def sleep(call: Call, given: arguments.Sleep) -> tuple[str, StepResult]:
    """Wait for a time or an event without holding anything; end your turn right after this call."""
    return await _propose(call, {"step": "sleep", **given.model_dump()})


async def _propose(call: Call, given: Mapping[str, object]) -> tuple[str, StepResult]:
    task = await call.ask(member_work.propose, call.project, proposal.convert(given))
    step = str(given["step"])
    return f"Noted. End your turn now, and task {task} goes on.", StepResult(task=task, step=step)


def _task(call: Call, given: int | None) -> int:
    task = given or call.who.task
    if task is None:
        raise InputError("Say which task, by its number.")
    return task


def _fence(call: Call, given: int | None) -> int:
    fence = given or call.who.fence
    if fence is None:
        raise InputError("Say which task, by the fence you were given with it.")
    return fence


async def _member(call: Call, given: str | None) -> str:
    """Return the member that the caller acts as."""
    if call.who.fence is not None:
        raise Forbidden("weft started you for one task; only members of the swarm do that.")
    if given is not None:
        return given
    own = await call.ask(find_own_members)
    if len(own) == 1:
        return own[0]
    if not own:
        raise InputError("Join the swarm first: join_swarm.")
    raise InputError(f"Name the acting member by `me`: {', '.join(own)}, … (my_agent_info).")


async def _sender(call: Call, given: str | None) -> str | None:
    """Return the sending member; None if the caller is no member, and its token is the sender."""
    if call.who.fence is not None or given is not None:
        return given
    own = await call.ask(find_own_members)
    return own[0] if len(own) == 1 else None


async def _held(call: Call, me: str, task: int) -> int:
    """Return the fence of a task that a member holds."""
    member = await call.ask(membership.get_member, me, now=time.time())
    for held in member.tasks:
        if held.task == task:
            return held.fence
    raise InputError(f"{me} does not hold task {task}.")
