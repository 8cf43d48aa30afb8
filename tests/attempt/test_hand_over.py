"""Hand-over: an agent ends with a step, and its task goes on with the next agent."""

from __future__ import annotations

import json
import signal
import time
from functools import partial

import pytest

from attempt.attempt_project import AttemptProject
from databases import look
from repositories import git
from wait_until import wait_until
from weft import config
from weft.errors import InputError, Refused
from weft.model import State, TaskRequest
from weft.operations.registry import ask
from weft.operations.steering import AnswerGiven
from weft.project.project import Project
from weft.runs.attention import read_attention
from weft.store.attempt_end import list_hops
from weft.store.leases import list_open
from weft.store.tasks import cancel, retry


def step(kind: str, **fields: object) -> str:
    """A script line that ends an agent's answer with a block."""
    block = json.dumps({"step": kind, **fields}).replace("\\", "\\\\")
    return f"script: answer Done.\\n```weft\\n{block}\\n```"


def add_agent(
    project: AttemptProject, name: str, *lines: str, front: str = "", body: str = ""
) -> None:
    """An agent with a script of its own."""
    args = f"args: [{project.token}, {{issue: text}}]\n"
    text = f"---\nruns: scripted\ncommands: yes\n{args}{front}---\n"
    path = project.root / ".weft" / "agents" / f"{name}.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + body + "\n".join(lines) + "\n")


def hand(agent: str, issue: str = "7", note: str = "go on") -> str:
    return step("hand_over", agent=agent, note=note, args={"issue": issue})


def answer(project: AttemptProject, task: int, text: str) -> None:
    place = Project(
        root=project.root, config=config.parse("", {}), environment={}, store_url=project.url
    )
    ask(place, project.store, "answer", AnswerGiven(task=task, text=text))


def make_loop(project: AttemptProject) -> None:
    """Three agents: each adds a line, and the last finishes."""
    add_agent(project, "dispatch", hand("develop"), front="hands_to: [develop]\n")
    add_agent(
        project,
        "develop",
        "script: write a made for {{ args.issue }}",
        hand("review", note="look at a"),
        front="hands_to: [review]\n",
    )
    add_agent(project, "review", "script: append a seen, {{ note }}")


def test_three_agents_hand_a_task_around_until_it_is_done(either: AttemptProject) -> None:
    make_loop(either)
    task = either.submit(agent="dispatch", text="Do issue 7.")
    either.serve()
    assert either.state(task) is State.DONE
    assert [(one.agent, one.outcome) for one in either.attempts(task)] == [
        ("dispatch", "handed_over"),
        ("develop", "handed_over"),
        ("review", "success"),
    ]
    assert either.content(task, "a") == "made for 7\nseen, look at a\n"
    hops = list_hops(either.store, task)
    assert [(hop.number, hop.giver, hop.agent, hop.args) for hop in hops] == [
        (1, "dispatch", "develop", {"issue": "7"}),
        (2, "develop", "review", {"issue": "7"}),
    ]
    assert hops[0].candidate is None
    assert hops[1].candidate == either.attempts(task)[1].candidate
    assert either.task(task).result == "Carried out 1 script lines."
    either.assert_nothing_left()


def test_the_next_agent_takes_its_own_amounts_and_the_claims_stay(
    either: AttemptProject,
) -> None:
    either.agent("slow", "max_concurrency: 0\n")
    add_agent(
        either,
        "first",
        "script: write a x",
        step("hand_over", agent="slow"),
        front="hands_to: [slow]\n",
    )
    task = either.submit(agent="first", files=("a",), text="t")
    either.serve(lambda: list_hops(either.store, task))
    waiting = either.task(task)
    assert (waiting.state, waiting.agent) == (State.READY, "slow")
    assert "agent:slow" in waiting.demand
    assert "agent:first" not in waiting.demand
    assert list_open(either.store) == []
    assert [row["pattern"] for row in look(either.url, "SELECT pattern FROM claims")] == ["a"]


def test_agents_that_hand_a_task_back_and_forth_are_stopped(project: AttemptProject) -> None:
    add_agent(project, "ping", "script: write a x", hand("pong"), front="hands_to: [pong]\n")
    add_agent(project, "pong", hand("ping"), front="hands_to: [ping]\n")
    task = project.submit(agent="ping", text="t")
    project.serve()
    assert project.state(task) is State.BLOCKED
    assert "without a change" in project.task(task).reason
    assert len(list_hops(project.store, task)) == 2
    assert project.attempts(task)[-1].candidate, "the work is kept"


def test_a_chain_has_no_more_hops_than_its_first_agent_allows(project: AttemptProject) -> None:
    line = "script: append a x"
    add_agent(project, "ping", line, hand("pong"), front="hands_to: [pong]\nhops: 3\n")
    add_agent(project, "pong", line, hand("ping"), front="hands_to: [ping]\nhops: 9\n")
    task = project.submit(agent="ping", text="t")
    project.serve()
    assert project.state(task) is State.BLOCKED
    assert "`hops: 3`" in project.task(task).reason
    assert len(list_hops(project.store, task)) == 3
    assert len(project.attempts(task)) == 4
    retry(project.store, task, now=time.time())
    project.serve(lambda: len(list_hops(project.store, task)) > 3)


def test_a_chain_has_one_budget(project: AttemptProject) -> None:
    line = ("script: append a x", "script: use 10 5 0.25")
    add_agent(project, "ping", *line, hand("pong"), front="hands_to: [pong]\nbudget: $0.60\n")
    add_agent(project, "pong", *line, hand("ping"), front="hands_to: [ping]\nbudget: $9\n")
    task = project.submit(agent="ping", text="t")
    project.serve()
    assert project.state(task) is State.BLOCKED
    spent = [one.micro_usd for one in project.attempts(task)]
    assert spent == [250_000] * 3
    assert "budget" in project.task(task).reason


def test_the_budget_of_a_task_bounds_the_whole_chain(project: AttemptProject) -> None:
    line = ("script: append a x", "script: use 10 5 0.25")
    add_agent(project, "ping", *line, hand("pong"), front="hands_to: [pong]\n")
    add_agent(project, "pong", *line, hand("ping"), front="hands_to: [ping]\n")
    task = project.submit(agent="ping", text="t", request=TaskRequest(budget=250_000))
    project.serve()
    assert len(project.attempts(task)) == 1
    assert "budget of the chain is used up" in project.task(task).reason


@pytest.mark.parametrize(
    ("proposal", "problem"),
    [
        ({"step": "hand_over", "agent": "stranger"}, "may not hand over to 'stranger'"),
        ({"step": "hand_over", "agent": "next"}, "needs the argument 'issue'"),
        ({"step": "hand_over", "agent": "next", "args": {"issue": 7}}, "is a text"),
        ({"step": "jump"}, "cannot be read"),
        ({"step": "sleep", "until": "next week"}, "is no end of a sleep"),
        ({"step": "sleep", "until": "trunk moved"}, "belongs to no run"),
    ],
)
def test_an_invalid_proposal_goes_back_three_times_and_then_needs_a_person(
    project: AttemptProject, proposal: dict[str, object], problem: str
) -> None:
    kind = str(proposal.pop("step"))
    lines = ("script: append a x", step(kind, **proposal))
    add_agent(project, "giver", *lines, front="hands_to: [next]\n")
    add_agent(project, "next")
    task = project.submit(agent="giver", text="t")
    project.serve()
    assert project.outcomes(task) == ["proposal"] * 4
    assert project.state(task) is State.BLOCKED
    assert problem in project.task(task).reason
    first, *rest = project.attempts(task)
    assert {one.session for one in rest} == {first.session}
    prompt = (project.directory(task, 2) / "stdin").read_text()
    assert problem in prompt
    assert list_hops(project.store, task) == []


def test_an_agent_asks_and_goes_on_with_the_answer(either: AttemptProject) -> None:
    question = step("ask", question="Which port?", options=["8080", "9090"])
    add_agent(
        either,
        "asker",
        "script: attempt 1: write a half",
        question.replace("script:", "script: attempt 1:", 1),
        "script: attempt 2: append a rest",
        "script: attempt 2: answer Finished.",
        front="hands_to: [asker]\n",
    )
    task = either.submit(agent="asker", text="t")
    either.serve()
    asked = either.task(task)
    assert (asked.state, asked.reason) == (State.BLOCKED, "Which port? (8080 or 9090)")
    [need] = read_attention(either.store, now=time.time()).all
    assert str(need).startswith(f"task {task} asks you: Which port?")
    assert need.do == (f'weft answer {task} "…"',)
    assert list_open(either.store) == []
    with pytest.raises(InputError, match="There is no option 7"):
        answer(either, task, "7")
    answer(either, task, "1")
    either.serve()
    assert either.state(task) is State.DONE
    assert either.content(task, "a") == "half\nrest\n"
    prompt = (either.directory(task, 2) / "stdin").read_text()
    assert "> Which port? (8080 or 9090)" in prompt, "its program may have no sessions"
    assert prompt.index("Which port?") < prompt.rindex("8080")
    with pytest.raises(Refused, match="asked no question"):
        answer(either, task, "1")


def sleeper(project: AttemptProject, until: str) -> None:
    slept = step("sleep", until=until).replace("script:", "script: attempt 1:", 1)
    add_agent(
        project,
        "sleeper",
        "script: attempt 1: write a half",
        slept,
        "script: attempt 2: append a rest",
        "script: attempt 2: answer Finished.",
        front="hands_to: [sleeper]\n",
    )


def test_a_sleeping_task_holds_no_amounts_and_wakes_in_another_process(
    either: AttemptProject,
) -> None:
    sleeper(either, "2s")
    task = either.submit(agent="sleeper", text="t")
    either.serve(lambda: either.state(task) is State.PARKED)
    assert list_open(either.store) == []
    program = either.engine()
    wait_until(lambda: either.state(task) is State.DONE, "the task woke")
    program.send_signal(signal.SIGTERM)
    assert program.wait(60) == 0
    assert either.outcomes(task) == ["slept", "success"]
    assert either.content(task, "a") == "half\nrest\n"
    assert "You slept" in (either.directory(task, 2) / "stdin").read_text()


def test_the_end_of_a_task_wakes_its_sleeper(either: AttemptProject) -> None:
    other = either.submit("write b x", files=("b",))
    cancel(either.store, other, now=time.time())
    waited = either.submit("wait go", "write b y", files=("b",))
    sleeper(either, f"task {waited} done")
    task = either.submit(agent="sleeper", text="t", files=("a",))
    either.serve(lambda: either.state(task) is State.PARKED)
    cancel(either.store, waited, now=time.time())
    assert either.state(task) is State.READY
    [woken] = either.events(task, "task_woken")
    assert woken.data == {"event": "task_ended", "subject": str(waited)}
    either.serve()
    assert either.state(task) is State.DONE
    assert f"task {waited} has ended" in (either.directory(task, 2) / "stdin").read_text()


def test_a_task_does_not_sleep_for_an_end_that_has_come(project: AttemptProject) -> None:
    other = project.submit("write b x", files=("b",))
    cancel(project.store, other, now=time.time())
    sleeper(project, f"task {other} done")
    task = project.submit(agent="sleeper", text="t")
    project.serve()
    assert project.outcomes(task) == ["slept", "success"]
    assert project.state(task) is State.DONE


def test_a_cancelled_sleeper_stays_cancelled(project: AttemptProject) -> None:
    waited = project.submit("write b x", agent="scripted", files=("b",))
    project.serve()
    other = project.submit("wait go", files=("b",))
    sleeper(project, f"task {other} done")
    task = project.submit(agent="sleeper", text="t", files=("a",))
    project.serve(lambda: project.state(task) is State.PARKED)
    cancel(project.store, task, now=time.time())
    cancel(project.store, other, now=time.time())
    assert project.state(task) is State.CANCELLED
    assert look(project.url, "SELECT * FROM sleeps") == []
    assert project.state(waited) is State.DONE


def test_a_program_without_tools_hands_over_by_its_last_lines(project: AttemptProject) -> None:
    project.shell(
        "plain",
        """echo work > a
cat <<'END'
I did it.

```weft
{"step": "hand_over", "agent": "finish", "note": "your turn"}
```
END
""",
        "hands_to: [finish]\n",
    )
    add_agent(project, "finish", "script: append a done")
    (project.root / ".weft/agents/finish.md").write_text(
        "---\nruns: scripted\n---\nscript: append a done\n"
    )
    task = project.submit(agent="plain", text="t")
    project.serve()
    assert project.outcomes(task) == ["handed_over", "success"]
    assert project.content(task, "a") == "work\ndone\n"
    message = git(
        project.root, "log", "-1", "--format=%B", str(project.attempts(task)[0].candidate)
    )
    assert message.startswith("t\n\nI did it.\n\nAssisted-by: ")


def test_a_hand_over_claims_the_files_of_its_arguments(project: AttemptProject) -> None:
    add_agent(
        project,
        "route",
        step("hand_over", agent="make", args={"files": ["src/"]}),
        front="hands_to: [make]\n",
    )
    path = project.root / ".weft" / "agents" / "make.md"
    path.write_text("---\nruns: scripted\nargs: {files: files}\n---\nscript: write src/x y\n")
    task = project.submit(agent="route", text="t", files=())
    project.serve()
    assert project.state(task) is State.DONE
    assert project.task(task).files == ("src/**",)
    assert project.content(task, "src/x") == "y\n"


def has_hops(project: AttemptProject, task: int, number: int) -> bool:
    return len(list_hops(project.store, task)) >= number


@pytest.mark.each_store
def test_no_kill_between_hops_loses_or_doubles_a_step(either: AttemptProject) -> None:
    make_loop(either)
    task = either.submit(agent="dispatch", text="t")
    for number in (1, 2):
        program = either.engine()
        wait_until(partial(has_hops, either, task, number), "a hop")
        program.kill()
        program.wait()
    either.serve()
    wait_until(lambda: either.state(task) is State.DONE, "the chain ended")
    assert [hop.number for hop in list_hops(either.store, task)] == [1, 2]
    outcomes = [one for one in either.outcomes(task) if one not in ("stopped", "reaped")]
    assert outcomes == ["handed_over", "handed_over", "success"]
    assert either.content(task, "a") == "made for 7\nseen, look at a\n"
