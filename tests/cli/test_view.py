"""The live view: what it shows, on terminals of any size, and that it leaves them as they were."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from cases import each_case
from cli.plan_project import Project, plan
from cli.terminal import Terminal
from databases import sqlite_store
from wait_until import PATIENCE, wait_until
from weft.cli.view.draw import about, draw
from weft.cli.view.picture import AgentLine, Panel, Picture, RunPicture

BROKEN = Path(__file__).with_name("broken_view_program.py")


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "project", sqlite_store(tmp_path / "weft.db"))


@pytest.fixture
def go(project: Project) -> Iterator[Path]:
    """What agents wait for."""
    path = project.root.parent / "go"
    yield path
    path.touch()


def terminal(project: Project, *arguments: str, columns: int = 110, lines: int = 30) -> Terminal:
    return Terminal(
        project.command(*arguments),
        directory=project.root,
        environment=project.environment,
        columns=columns,
        lines=lines,
    )


def assert_restored(screen: Terminal) -> None:
    assert not screen.alternate
    assert not screen.cursor_hidden
    assert screen.keys_now() == screen.keys


def busy_plan(go: Path) -> str:
    return plan(
        f"Long: one.txt: use 1000 10 0.25; tool Edit one.txt; wait {go}; write one.txt 1",
        "Shared: one.txt: append one.txt 2",
        "Bad: three.txt: fail other I cannot",
    ) + (
        "\n## Phase 2: After\n\n- [ ] Task 2.1: Last\n  <!-- files: four.txt -->\n"
        "  - script: write four.txt 4\n"
    )


def test_a_run_is_shown_survives_resizing_and_leaves_the_terminal_as_it_was(
    project: Project, go: Path
) -> None:
    project.settings('[gate]\nrun = "true"\n')
    project.write(busy_plan(go))
    with terminal(project, "run", "plan.md", "--slots", "2") as screen:
        seen = screen.wait_for(
            "Edit one.txt",
            "weft retry",
            "1.2: waiting for one.txt, which 1.1 is changing",
            "2.1: waiting for 1.1 (working), 1.3 (needs you)",
        )
        run = project.run_id()
        assert screen.alternate
        assert screen.cursor_hidden
        assert f"{run} · " in seen
        assert "0/4 done" in seen
        assert "1 needs you" in seen
        [agent] = [line for line in seen.splitlines() if "Edit one.txt" in line]
        assert all(word in agent for word in ("1.1", "implement", "$0.25"))

        screen.resize(36, 7)
        small = screen.wait(lambda text: len(text.splitlines()[0]) <= 36 and "done" in text)
        assert run in small.splitlines()[0]
        screen.resize(120, 40)
        screen.wait_for("Edit one.txt", "waits", "recent", "weft retry")
        screen.resize(8, 1)
        screen.wait(lambda text: text.startswith(run[:7]))
        screen.resize(110, 40)
        screen.wait_for("waits")

        go.touch()
        screen.wait_for("1 needs you", "● 1.2 landed")
        assert screen.process.poll() is None, "it stays while a person is needed"
        assert b"\x07\x1b]9;weft: " + run.encode() + b" needs you\x07" in screen.raw
        screen.type(b"q")
        assert screen.wait_end() == 1
        assert_restored(screen)
        end = screen.text()
        assert f"weft run --resume {run}" in end
        assert "attempts" in end
        assert "agents" not in end, "nothing of the view is left"


def test_keys_show_help_and_logs_and_steer_the_chosen_task(project: Project, go: Path) -> None:
    project.write(
        plan(f"Bad: one.txt: say I wonder; attempt 1: fail other No; wait {go}; write one.txt 1")
    )
    with terminal(project, "run", "plan.md", columns=80) as screen:
        screen.wait_for("It said: No", "weft skip", "▸ 1.1: Bad", "? help")
        screen.type(b"?")
        screen.wait_for("keys (Esc closes)", "leave the view")
        screen.type(b"\x1b")
        screen.wait(lambda text: "Esc closes" not in text)
        screen.type(b"l")
        screen.wait_for("logs of 1.1", "I wonder")
        screen.type(b"a")
        screen.wait_for("asks you nothing")
        screen.type(b"r")
        screen.wait_for("is reopened")
        screen.type(b"d")
        screen.wait_for("has left no commit")
        go.touch()
        assert screen.wait_end() == 0
        assert_restored(screen)
    assert project.states() == {"1.1": "done"}


def test_detaching_leaves_the_agents_to_a_process_in_the_background(
    project: Project, go: Path
) -> None:
    project.write(plan(f"Waits: one.txt: say working; wait {go}; write one.txt 1"))
    with terminal(project, "run", "plan.md") as screen:
        screen.wait_for("working")
        run = project.run_id()
        screen.type(b"q")
        assert screen.wait_end() == 0
        assert_restored(screen)
        assert f"weft watch {run}" in " ".join(screen.text().split())
    go.touch()
    wait_until(lambda: project.states() == {"1.1": "done"})
    assert len(project.rows("SELECT * FROM attempts")) == 1, "the agent was adopted"
    log = project.root / ".git" / "weft" / f"detached-{run}.log"
    wait_until(lambda: "1 of 1 done" in log.read_text())


def test_what_agents_say_cannot_steer_the_terminal(project: Project, go: Path) -> None:
    script = project.root.parent / "agent.sh"
    script.write_text(
        r"printf '\033[2J\033]0;owned\007[red]hi[/red] \302\233 \342\200\256now\n'"
        f"\nwhile ! test -e {go}; do sleep 0.05; done\n"
    )
    project.agent("implement", runs=f"[sh, {script}]")
    project.write(plan("Hostile: one.txt: say no"))
    with terminal(project, "run", "plan.md") as screen:
        screen.wait_for("[red]hi[/red]", "now")
        assert b"\x1b]0;" not in screen.raw
        assert b"\xe2\x80\xae" not in screen.raw
        cleared = bytes(screen.raw).count(b"\x1b[2J")
        assert cleared <= 2, "once when it enters, once for the first picture"


def test_an_interrupt_restores_the_terminal_and_exits_with_130(project: Project, go: Path) -> None:
    """Once lets what runs end; the second time is at once."""
    project.write(plan(f"Waits: one.txt: say working; wait {go}"))
    with terminal(project, "run", "plan.md") as screen:
        screen.wait_for("working")
        screen.type(b"\x03")
        screen.wait_for("interrupt again")
        assert screen.process.poll() is None
        assert project.states() == {"1.1": "running"}
        screen.type(b"\x03")
        assert screen.wait_end() == 130
        assert_restored(screen)
        assert "^C" not in screen.text()
    assert project.states() == {"1.1": "ready"}


@pytest.mark.parametrize("end", ["raise", "TERM", "INT"])
def test_whatever_ends_the_view_the_terminal_is_restored(project: Project, end: str) -> None:
    command = [sys.executable, str(BROKEN), project.url, end]
    with Terminal(command, directory=project.root, environment=project.environment) as screen:
        if end != "raise":
            screen.wait_for("No run is under way", "odd")
            screen.process.send_signal(signal.Signals[f"SIG{end}"])
        assert screen.wait_end() != 0
        assert_restored(screen)
        assert "weft: something \N{REPLACEMENT CHARACTER}[2J odd" in screen.text()
        if end == "raise":
            assert "a defect" in screen.text()


def test_stopped_from_the_terminal_it_gives_it_back_and_takes_it_again(project: Project) -> None:
    command = [sys.executable, str(BROKEN), project.url, "go on"]
    with Terminal(command, directory=project.root, environment=project.environment) as screen:
        screen.wait_for("No run is under way")
        screen.type(b"\x1a")
        process = psutil.Process(screen.process.pid)
        wait_until(lambda: process.status() == psutil.STATUS_STOPPED)
        wait_until(lambda: not screen.alternate)
        assert_restored(screen)
        os.kill(screen.process.pid, signal.SIGCONT)
        screen.wait(lambda text: screen.alternate and "No run is under way" in text)
        assert screen.cursor_hidden


def test_watch_shows_what_others_do_and_does_nothing_itself(project: Project, go: Path) -> None:
    project.write(plan(f"Waits: one.txt: tool Read one.txt; wait {go}; write one.txt 1"))
    with terminal(project, "watch") as screen:
        screen.wait_for("No run is under way")
        run = project.start("run", "plan.md")
        try:
            screen.wait_for("Read one.txt", "0/1 done", "1 working")
            workers = project.rows("SELECT id FROM workers WHERE departed IS NULL")
            assert len(workers) == 1
            go.touch()
            screen.wait_for("has ended", "No run is under way")
            assert run.wait(timeout=PATIENCE) == 0
        finally:
            run.kill()
            run.wait()
        screen.type(b"\x03")
        assert screen.wait_end() == 130
        assert_restored(screen)


@pytest.mark.parametrize("way", [("--no-tty",), ("TERM=dumb",)])
def test_without_a_view_there_are_plain_lines(project: Project, way: tuple[str, ...]) -> None:
    project.write(plan("Write a: one.txt: write one.txt 1"))
    [option] = way
    if option == "TERM=dumb":
        project.environment["TERM"] = "dumb"
    arguments = [option] if option.startswith("-") else []
    with terminal(project, "run", "plan.md", *arguments) as screen:
        assert screen.wait_end() == 0
        assert "▶ 1.1: Write a" in screen.text()
        assert b"\x1b" not in screen.raw


words = st.text(max_size=60)
lines = st.lists(words, max_size=12).map(tuple)
agents = st.lists(
    st.builds(
        AgentLine,
        task=words,
        stage=st.sampled_from(["", "implement", "test"]),
        attempt=st.integers(1, 12),
        seconds=st.floats(0, 1e6),
        micro_usd=st.integers(0, 10**9),
        doing=words,
        title=words,
    ),
    max_size=12,
).map(tuple)
runs = st.builds(
    RunPicture,
    run=words,
    state=st.sampled_from(["running", "waiting"]),
    seconds=st.floats(0, 1e6),
    share=st.floats(0, 1),
    left=st.none() | st.floats(0, 1e6),
    done=st.integers(0, 1000),
    all=st.integers(0, 1000),
    counts=st.just("3 working, 700 waiting"),
    micro_usd=st.integers(0, 10**9),
    needs=lines,
    agents=agents,
    gate=lines,
    waits=lines,
)
pictures = st.builds(
    Picture,
    runs=st.lists(runs, max_size=3).map(tuple),
    limits=lines,
    recent=lines,
    notice=words,
    chosen=words,
    answer=words,
    hint=words,
    panel=st.none() | st.builds(Panel, title=words, lines=lines, from_end=st.booleans()),
)


@given(pictures, st.integers(1, 200), st.integers(1, 60))
def test_a_picture_fits_every_terminal_and_steers_none(
    picture: Picture, width: int, height: int
) -> None:
    drawn = draw(picture, width, height)
    assert len(drawn) <= height
    for line in drawn:
        assert line.cell_len <= width
        assert line.plain.isprintable()


def test_the_most_important_lines_get_the_room_there_is() -> None:
    agent = AgentLine(
        task="1.1", stage="implement", attempt=2, seconds=61, micro_usd=120_000, doing="Edit a"
    )
    run = RunPicture(
        run="plan-1",
        state="running",
        seconds=75,
        share=0.5,
        left=130,
        done=5,
        all=10,
        counts="9 working",
        micro_usd=1_500_000,
        needs=("1.4 needs you",),
        agents=(agent,) * 9,
        gate=("checks 1.2",),
        waits=tuple(f"waits {number}" for number in range(9)),
    )
    picture = Picture(runs=(run,), recent=tuple(f"event {number}" for number in range(50)))

    def shown(height: int) -> list[str]:
        return [line.plain.rstrip() for line in draw(picture, 80, height)]

    assert shown(1) == ["plan-1 · 1:15 · $1.50 · about 2 min left"]
    assert shown(3)[2] == "! 1.4 needs you"
    assert shown(7)[3:] == [
        "agents",
        "  ▶ 1.1           implement #2    1:01   $0.12  Edit a",
        "  ▶ 1.1           implement #2    1:01   $0.12  Edit a",
        "  … and 7 more",
    ]
    tall = shown(40)
    assert sum("Edit a" in line for line in tall) == 9
    assert "  waits 8" in tall
    assert tall[-1] == "  event 49", "the latest stands last"


def test_a_few_seconds_are_never_left_while_a_check_runs() -> None:
    run = RunPicture(
        run="plan-1",
        state="running",
        seconds=75,
        share=0.5,
        left=3,
        done=1,
        all=2,
        counts="1 testing",
        micro_usd=0,
    )

    def head(picture: RunPicture) -> str:
        return draw(Picture(runs=(picture,)), 80, 1)[0].plain

    assert head(run) == "plan-1 · 1:15 · a few seconds left"
    assert head(replace(run, checking=True)) == "plan-1 · 1:15 · about 10 s left"
    assert head(replace(run, left=600, guess=True)) == "plan-1 · 1:15 · about 10 min left (a guess)"
    asks = replace(run, left=600, people=True)
    assert head(asks) == "plan-1 · 1:15 · about 10 min left without waiting for you"


@each_case(
    ("seconds", "text"),
    [
        (3, "a few seconds"),
        (12, "about 10 s"),
        (58, "about 1 min"),
        (100, "about 1 min 30 s"),
        (3000, "about 50 min"),
        (7300, "about 2 h"),
    ],
)
def test_what_is_left_does_not_pretend_to_be_exact(seconds: float, text: str) -> None:
    assert about(seconds) == text
