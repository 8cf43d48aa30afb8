"""Recordings of attempts: made without secrets, and played as real attempts."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from agents.streams import FAILURES, STREAMS
from attempt.attempt_project import AttemptProject
from repositories import git
from weft.agents.recording import Recording, digest_prompt
from weft.attempt.recordings import load_recordings, make_recording, save_recording
from weft.model import ErrorClass, State
from weft.store.event_log import history
from weft.store.limit_table import list_stopped

SECRET = "hunter2-and-a-long-tail-9"


def record(project: AttemptProject, task: int) -> Path:
    place = project.root.parent / "recordings"
    for attempt in project.attempts(task):
        made = make_recording(
            project.root,
            project.directory(task, attempt.number),
            attempt,
            history(project.store, task),
            project.store.redactor,
        )
        save_recording(place, made)
    return place


def add_player(project: AttemptProject, place: Path, *args: str) -> None:
    text = (
        f"---\nruns: recorded\nfrom: {place}\nargs: [{', '.join(args)}]\n---\n{{{{ task.text }}}}\n"
    )
    if not args:
        text = text.replace("args: []\n", "")
    (project.root / ".weft" / "agents" / "scripted.md").write_text(text)


def play_again(project: AttemptProject, task: int) -> int:
    """Hand the same task in once more."""
    old = project.task(task)
    again = project.submit(text=old.text, files=("**",))
    # A task without a run is called by its number; a recording by the name of its task.
    place = project.root.parent / "recordings"
    for file in place.iterdir():
        fields = json.loads(file.read_text())
        fields["task"] = project.task(again).name
        fields["prompt"] = fields["prompt"].replace(old.name, fields["task"])
        digest = digest_prompt(fields["prompt"], None)
        file.write_text(json.dumps({**fields, "digest": digest}))
    project.serve()
    return again


def test_a_recorded_attempt_is_played_with_its_output_change_and_use(
    either: AttemptProject,
) -> None:
    task = either.submit("say working", "write b new", "delete a", "use 10 5 0.25", "answer Done.")
    either.serve()
    place = record(either, task)
    [made] = load_recordings(place)
    assert (made.outcome, made.adapter, made.exit.code) == ("success", "scripted", 0)
    assert made.argv[1] == "-IS"
    assert "deleted file mode" in made.patch
    add_player(either, place, "--fast")
    again = play_again(either, task)
    assert either.state(again) is State.DONE
    assert either.said(again) == ["working"]
    [first], [second] = either.attempts(task), either.attempts(again)
    assert (second.tokens, second.micro_usd) == (first.tokens, first.micro_usd) == (15, 250_000)
    assert either.task(again).result == "Done."
    assert either.content(again, "b") == "new\n"
    [replayed] = [one for one in either.attempts(again) if one.candidate]
    assert made.tree in _tree(either, str(replayed.candidate))
    either.assert_nothing_left()


def _tree(project: AttemptProject, commit: str) -> str:
    return git(project.root, "rev-parse", f"{commit}^{{tree}}")


def test_a_failed_attempt_and_its_retry_are_played_in_their_order(project: AttemptProject) -> None:
    task = project.submit("write a half", "attempt 1: crash KILL", "append a rest")
    project.serve()
    assert project.outcomes(task) == ["crash", "success"]
    add_player(project, record(project, task))
    again = play_again(project, task)
    assert project.outcomes(again) == ["crash", "success"]
    assert project.content(again, "a") == project.content(task, "a")


def test_lines_come_at_their_pace_unless_they_are_played_fast(project: AttemptProject) -> None:
    task = project.submit("say one", "sleep 1.2", "write a x", "say two")
    project.serve()
    place = record(project, task)
    [made] = load_recordings(place)
    times = {line.text: line.at for line in made.lines}
    spoken = [at for text, at in times.items() if '"one"' in text or '"two"' in text]
    assert spoken[1] - spoken[0] >= 0.9
    add_player(project, place)
    slow = play_again(project, task)
    [attempt] = project.attempts(slow)
    assert (attempt.ended or 0.0) - attempt.started >= 0.9


def test_a_miss_blocks_the_task_and_names_the_nearest_recording(project: AttemptProject) -> None:
    task = project.submit("say one", "write a x")
    project.serve()
    add_player(project, record(project, task))
    other = project.submit("say two", "write a x")
    project.serve()
    assert project.state(other) is State.BLOCKED
    assert "No recording fits attempt 1" in project.task(other).reason
    assert project.attempts(other)[0].candidate is None


def test_a_change_that_does_not_apply_blocks_the_task(project: AttemptProject) -> None:
    task = project.submit("write a x")
    project.serve()
    place = record(project, task)
    for file in place.iterdir():
        fields = json.loads(file.read_text())
        file.write_text(json.dumps({**fields, "patch": fields["patch"].replace("-a", "-other")}))
    add_player(project, place)
    again = play_again(project, task)
    assert project.state(again) is State.BLOCKED
    assert "does not apply to the files as they are now" in project.task(again).reason


def test_no_recording_holds_a_secret(project: AttemptProject) -> None:
    project.environment["MY_API_KEY"] = SECRET
    project.agent(front="env: [MY_API_KEY]\n")
    task = project.submit(f"say the key is {SECRET}", f"print 1 {SECRET}", f"fail other {SECRET}")
    project.serve()
    with project.site() as site:
        site.learn_secrets(site.read_agent("scripted"))
    place = record(project, task)
    texts = [file.read_text() for file in place.iterdir()]
    assert texts
    assert not [text for text in texts if SECRET in text]
    assert any("[MY_API_KEY]" in text for text in texts)


def test_every_attempt_is_recorded_where_the_settings_say_so(project: AttemptProject) -> None:
    project.tune("[record]\non = true\n")
    task = project.submit("write a x", "attempt 1: crash KILL")
    project.serve()
    made = load_recordings(project.root / ".git" / "weft" / "recordings" / "do")
    assert [(one.attempt, one.outcome) for one in made] == [(1, "crash"), (2, "success")]
    assert all(isinstance(one, Recording) and one.task == project.task(task).name for one in made)


PROGRAMS = [
    (name, mode, kind)
    for name, modes in FAILURES.items()
    for mode, (code, kind) in modes.items()
    if code >= 0
    and kind in (ErrorClass.AUTH, ErrorClass.OTHER, ErrorClass.CONTEXT)
    and mode in ("auth", "refusal", "context", "bad_key", "blocked")
] + [(name, "write", None) for name in FAILURES]


@pytest.mark.parametrize(("name", "mode", "kind"), PROGRAMS)
def test_the_stream_of_a_real_program_goes_through_a_whole_attempt(
    project: AttemptProject, name: str, mode: str, kind: ErrorClass | None
) -> None:
    streams = project.root.parent / name
    streams.mkdir()
    for file in (STREAMS / name).glob(f"{mode}.*"):
        (streams / file.name).write_bytes(file.read_bytes())
    code = FAILURES[name].get(mode, (0, None))[0]
    (streams / f"{mode}.exit").write_text(f"{code}\n")
    (streams / f"{mode}.patch").write_text("--- a/a\n+++ b/a\n@@ -1 +1 @@\n-a\n+changed\n")
    add_player(project, streams / f"{mode}.jsonl")
    task = project.submit(text="Do it.")
    project.serve(lambda: project.is_settled() or list_stopped(project.store, now=time.time()))
    first = project.attempts(task)[0]
    assert first.outcome == (kind or "success")
    if kind is None:
        assert project.content(task, "a") == "changed\n"
        assert first.session
        assert first.tokens > 0
