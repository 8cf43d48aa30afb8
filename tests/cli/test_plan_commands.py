"""`weft plan …` as its users meet it: a few times from a shell, else through `main` itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from html_pages import Tags
from repositories import commit_all, make_repository
from store_helpers import DONE, go, hire, put
from weft import cli, git
from weft.candidate_records import CheckVerdict
from weft.formats import cells
from weft.model import NewRun, NewTask, Outcome, State
from weft.page import plan_page
from weft.project.own_repository import get_repository
from weft.runs import plan_check
from weft.runs.outlook import PERSON_SECONDS
from weft.store import default_url, open_store
from weft.store.attempt_end import finish
from weft.store.gate import record_verdict
from weft.store.leases import take
from weft.store.runs import submit_run

PLANS = Path(__file__).parent.parent / "plans"

GOOD = """
    # Shop

    ## Phase 1: Models
    <!-- execution: parallel -->
    - [ ] Task 1: User model
      <!-- files: src/user.py, src/app.py -->
    - [ ] Task 2: Order model
      <!-- files: src/order.py, src/app.py -->
    - [x] Task 3: Notes 1a2b3c4
      <!-- files: notes.md -->
    ## Phase 2: Pages
    - [ ] Task 1: Pages <script>alert(1)</script>
      <!-- files: web/** -->
    - [ ] Task 2: User Manual Verification 'Pages' (Protocol in workflow.md)
"""
BAD = "## Phase 1: One\n- [ ] Task 1: a\n  <!-- files: a; depends: task7 -->\n"
TRACK = """
    ## Phase 1: Setup
    - [ ] Task 1: Create `src/auth.ts`
    - [ ] Task 2: Change names.py
"""


@dataclass(frozen=True)
class Done:
    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Weft = Callable[..., Done]


@pytest.fixture
def weft(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Weft:
    """Run the command line in an empty directory that belongs to no repository."""
    for name in list(os.environ):
        if name.startswith(("WEFT_", "MAX_CONCURRENT")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str) -> Done:
        monkeypatch.setattr(sys, "argv", ["weft", *arguments])
        capfd.readouterr()
        with pytest.raises(SystemExit) as exit:
            cli.main()
        caught = capfd.readouterr()
        assert isinstance(exit.value.code, int)
        return Done(exit.value.code, caught.out, caught.err)

    return run


def write(name: str, text: str) -> None:
    Path(name).write_text(textwrap.dedent(text).lstrip(), encoding="utf-8")


def repository() -> None:
    subprocess.run(["git", "init", "--quiet"], check=True)


def assert_one_sentence(done: Done, *words: str) -> None:
    assert (done.status, done.out) == (2, ""), done
    [line] = done.err.splitlines()
    assert line.startswith("weft: ")
    for word in words:
        assert word in line


def from_a_shell(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("WEFT_", "MAX_CONCURRENT"))}
    return subprocess.run(
        [sys.executable, "-m", "weft", *arguments],
        cwd=directory,
        env={**kept, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_from_a_shell_a_plan_is_checked_shown_and_annotated(tmp_path: Path) -> None:
    """With a terminal that knows nothing but ASCII, and a directory named with -C."""
    (tmp_path / "plan.md").write_text("## P\n- [ ] Ä in `src/a.py`\n- [ ] `src/b.py`\n")
    checked = from_a_shell(tmp_path.parent, "-C", str(tmp_path), "plan", "check", "plan.md")
    assert (checked.returncode, checked.stderr) == (0, "")
    assert "plan.md: 2 tasks in 1 phase" in checked.stdout
    shown = from_a_shell(tmp_path, "plan", "show", "plan.md")
    assert (shown.returncode, shown.stderr) == (0, "")
    annotated = from_a_shell(tmp_path, "plan", "annotate", "plan.md", "--write")
    assert (annotated.returncode, annotated.stderr) == (0, "")
    assert "execution: parallel" in (tmp_path / "plan.md").read_text()


def test_a_bad_plan_fails_from_a_shell(tmp_path: Path) -> None:
    (tmp_path / "plan.md").write_text(BAD)
    done = from_a_shell(tmp_path, "plan", "check", "plan.md")
    assert done.returncode == 2
    assert "error: " in done.stdout


def test_check_speaks_like_a_compiler(weft: Weft) -> None:
    write("plan.md", BAD)
    done = weft("plan", "check", "plan.md")
    assert done.status == 2
    first, second, *_, last = done.out.splitlines()
    assert first.startswith("plan.md:3:")
    assert ": error: " in first
    assert first.endswith(" [unknown-task]")
    assert second.startswith("    ")
    assert last.startswith("plan.md: 1 task in 1 phase, 1 error")


def test_warnings_alone_are_no_failure(weft: Weft) -> None:
    write("plan.md", GOOD)
    done = weft("plan", "check", "plan.md")
    assert done.status == 0
    assert "[overlap]" in done.out
    last = (
        "plan.md: 5 tasks in 2 phases, 1 warning; about 25 min on 4 slots (a guess: 5 min for each "
        "task and 10 min for 1 step of yours)."
    )
    assert done.out.splitlines()[-1] == last


def test_check_as_json_is_what_the_issue_says(weft: Weft) -> None:
    write("plan.md", GOOD)
    answer = weft("plan", "check", "plan.md", "--json").json
    assert set(answer) >= {
        *("problems", "tasks", "edges", "groups", "critical_path"),
        *("bounds", "predicted_seconds", "slots"),
    }
    assert "file" not in answer
    assert set(answer["problems"][0]) >= {
        *("file", "line", "column", "code", "severity", "message", "suggestion"),
    }
    assert {"from": "1.1", "to": "2.1", "why": "phase"}.items() <= next(
        edge for edge in answer["edges"] if edge["to"] == "2.1"
    ).items()
    assert answer["critical_path"][:2] == ["1.1", "2.1"]
    assert answer["bounds"] == {
        "critical_path": 1200,
        "work_per_slot": 225,
        "busiest_file": 600,
        "file": "src/app.py",
        "lower": 1200,
    }
    assert (answer["predicted_seconds"], answer["slots"]) == (1500, 4), "ten minutes for the person"


def test_the_json_of_a_bad_plan_is_printed_and_fails(weft: Weft) -> None:
    write("plan.md", BAD)
    for command in ("check", "show"):
        done = weft("plan", command, "plan.md", "--json")
        assert done.status == 2
        assert [one["code"] for one in done.json["problems"]] == ["unknown-task"]
        assert len(done.json["tasks"]) == 1


def test_several_files_are_a_list_with_their_names(weft: Weft) -> None:
    write("good.md", GOOD)
    write("bad.md", BAD)
    done = weft("plan", "check", "good.md", "bad.md", "--json")
    assert done.status == 2
    assert [one["file"] for one in done.json] == ["good.md", "bad.md"]
    assert weft("plan", "check", "good.md", "good.md").status == 0


@pytest.mark.parametrize("path", sorted(PLANS.glob("*.*")), ids=lambda path: path.name)
def test_every_plan_of_the_corpus_is_answered(weft: Weft, path: Path) -> None:
    if path.name.endswith(".golden.json"):
        return
    checked = weft("plan", "check", str(path))
    shown = weft("plan", "show", str(path), "--html", "plan_page.html")
    assert checked.status == shown.status
    assert checked.err == shown.err == ""
    assert Path("plan_page.html").exists() == (shown.status == 0)


def test_slots_come_from_the_limits_unless_they_are_named(weft: Weft) -> None:
    write("plan.md", GOOD)
    write("weft.toml", '[limits]\n"stage/implement" = 2\n')
    assert weft("plan", "check", "plan.md", "--json").json["slots"] == 2
    assert weft("plan", "check", "plan.md", "--json", "--slots", "7").json["slots"] == 7
    write("weft.toml", '[limits]\n"run/agents" = 0\n')
    assert weft("plan", "check", "plan.md", "--json").json["slots"] == 1
    assert_one_sentence(weft("plan", "check", "plan.md", "--slots", "0"), "--slots")


def test_a_group_that_no_slots_can_hold_is_told(weft: Weft) -> None:
    lines = [f"- [ ] a\n  <!-- files: f{n}; parallel-group: g -->\n" for n in range(3)]
    write("plan.md", "## P\n<!-- execution: parallel -->\n" + "".join(lines))
    assert "group-too-large" in weft("plan", "check", "plan.md", "--slots", "2").out
    assert "starts together with 1.2 and 1.3" in weft("plan", "show", "plan.md").out


def test_looking_makes_no_store(weft: Weft) -> None:
    repository()
    write("plan.md", GOOD)
    before = sorted(Path(".git").rglob("*"))
    assert weft("plan", "check", "plan.md").err == ""
    assert weft("plan", "show", "plan.md").err == ""
    assert sorted(Path(".git").rglob("*")) == before


def test_a_named_store_that_is_not_there_is_not_made_either(
    weft: Weft, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEFT_STORE", f"sqlite:///{tmp_path}/sub/weft.db")
    write("plan.md", GOOD)
    assert weft("plan", "check", "plan.md").status == 0
    assert not (tmp_path / "sub").exists()


def test_estimates_are_what_such_tasks_took(weft: Weft, tmp_path: Path) -> None:
    repository()
    write("plan.md", GOOD)
    with open_store(default_url(git.common_directory(tmp_path))) as store:
        hire(store)
        for stage, files, seconds in (("implement", ("a", "b"), 60.0), ("test", ("a",), 9.0)):
            put(store, files=files, stage=stage, agent=stage)
            grant = go(store)
            finish(store, grant.fence, DONE, now=1 + seconds)
    done = weft("plan", "check", "plan.md", "--json")
    assert done.err == ""
    assert done.json["predicted_seconds"] == 180 + PERSON_SECONDS
    assert done.json["guesses"] == ["10 min for 1 step of yours"]
    write("plan.md", "## P\n- [ ] a\n  <!-- files: a; stages: test, implement -->\n")
    assert weft("plan", "check", "plan.md", "--json").json["predicted_seconds"] == 69


def test_the_forecast_uses_the_agent_that_will_run_its_checks_and_its_retries(
    weft: Weft, tmp_path: Path
) -> None:
    """Each number of the forecast has a record, so that none is a guess."""
    repository()
    write("plan.md", "## P\n- [ ] a\n  <!-- files: a -->\n- [ ] b\n  <!-- files: b -->\n")
    write("weft.toml", '[gate]\nrun = "true"\n')
    repo = git.common_directory(tmp_path)
    with open_store(default_url(repo)) as store:
        hire(store)
        put(store, files=("x",), stage="implement", agent="fast")
        crash = Outcome(state=State.READY, kind="crash", reason="It fell over.")
        finish(store, go(store).fence, crash, now=2)
        finish(store, go(store, now=2).fence, DONE, now=2 + 40.0)
        submit_run(
            store, NewRun(id="R", repo=get_repository(tmp_path, store)), [NewTask(name="a")], now=0
        )
        fence = take(store, "gate", "R", {"gate:R": 1}, worker="w", now=0)
        assert fence is not None
        verdict = CheckVerdict(
            base="b",
            combination=("1",),
            purpose="ladder",
            tree="t",
            check_id="c",
            commands=(),
            passed=True,
            seconds=20.0,
        )
        record_verdict(store, fence, "R", verdict, "", now=1)
    source = plan_check.load(tmp_path, "plan.md")
    with plan_check.setting(tmp_path, {}) as around:
        checked = plan_check.check(source, around, 2, agent="fast")
        assert checked.guesses == ()
        assert checked.forecast.seconds == 2 * (2 * 40.0 + 20.0), "two tries each, and a check"
        other = plan_check.check(source, around, 2, agent="slow")
    assert other.guesses == ("5 min for each task",)


def test_width_counts_what_can_run_at_once(weft: Weft) -> None:
    write(
        "plan.md",
        "## P <!-- execution: parallel -->\n"
        + "".join(f"- [ ] {name}\n  <!-- files: same.py, {name}.py -->\n" for name in "abc"),
    )
    assert weft("plan", "check", "plan.md", "--json").json["width"] == 1


def test_a_store_that_cannot_be_used_is_a_warning(weft: Weft) -> None:
    repository()
    write("plan.md", GOOD)
    file = Path(".git/weft/weft.db")
    file.parent.mkdir()
    file.write_bytes(b"not a database at all" * 10)
    done = weft("plan", "check", "plan.md")
    assert done.status == 0
    [line] = done.err.splitlines()
    assert "not a weft store" in line
    assert file.read_bytes() == b"not a database at all" * 10


def test_show_tells_who_waits_for_whom_and_when_what_runs(weft: Weft) -> None:
    write("plan.md", GOOD)
    out = weft("plan", "show", "plan.md").out
    for text in (
        "Phase 1: Models · parallel",
        "├─ [ ] 1.1 User model",
        "not at the same time as 1.1: both may change src/app.py",
        "└─ [x] 1.3 Notes",
        "Phase 2: Pages · one after the other · after phase 1 (line 11)",
        "waits for 2.1 (one after the other)",
        "(waits for a person)",
        "Predicted:      25 min for 3 tasks on 4 slots",
        "At best:        20 min: 20% less than predicted",
        "Critical path:  1.1 → 2.1 → 2.2",
        "Shorter:        split src/app.py between 1.1 and 1.2: −5 min",
    ):
        assert text in out
    assert all(cells(line) <= 100 for line in out.splitlines() if "│" in line)


def test_show_as_json_has_the_schedule_and_the_savings(weft: Weft) -> None:
    write("plan.md", GOOD)
    answer = weft("plan", "show", "plan.md", "--json").json
    assert answer["schedule"][0] == {"task": "1.1", "slot": 0, "start": 0, "end": 300}
    assert answer["savings"] == [{"file": "src/app.py", "tasks": ["1.1", "1.2"], "seconds": 300}]


def test_a_task_without_files_is_advised_to_name_them(weft: Weft) -> None:
    write("plan.md", "## P\n<!-- execution: parallel -->\n- [ ] a\n- [ ] b\n")
    assert "name the files of 1.1 and 1.2: −5 min" in weft("plan", "show", "plan.md").out


def test_a_plan_cannot_write_to_the_terminal(weft: Weft) -> None:
    write("plan.md", "## P\x1b[2J\n- [ ] Task 1: a\x1b[31m\u202e b <!-- depends: \x1b[1mx -->\n")
    for command in ("check", "show"):
        done = weft("plan", command, "plan.md")
        assert "\x1b" not in done.out + done.err
        assert "\u202e" not in done.out


def test_the_page_needs_nothing_else_and_escapes_everything(weft: Weft) -> None:
    write("plan.md", GOOD.replace("src/user.py", '"src/<u>,\'.py"').replace("# Shop", "# <b>&"))
    done = weft("plan", "show", "plan.md", "--html", "plan_page.html")
    assert (done.status, done.out) == (0, "Wrote plan_page.html.\n")
    text = Path("plan_page.html").read_text(encoding="utf-8")
    tags = Tags(text)
    assert tags.seen.count("svg") == 2
    assert not {"script", "link", "img", "iframe", "b", "u"} & set(tags.seen)
    assert not {"src", "href", "onload", "onclick"} & set(tags.attributes)
    assert "//" not in text.replace("http://www.w3.org/2000/svg", "")
    assert "default-src 'none'" in text
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "split src/app.py between 1.1 and 1.2" in text


def test_a_page_is_written_again_but_nothing_else_is_overwritten(weft: Weft) -> None:
    write("plan.md", GOOD)
    for _ in range(2):
        assert weft("plan", "show", "plan.md", "--html", "plan_page.html").status == 0
    before = Path("plan.md").read_bytes()
    done = weft("plan", "show", "plan.md", "--html", "plan.md")
    assert_one_sentence(done, "plan.md", "no HTML page")
    assert Path("plan.md").read_bytes() == before


def test_annotate_shows_what_it_would_write(weft: Weft) -> None:
    write("plan.md", TRACK)
    before = Path("plan.md").read_bytes()
    done = weft("plan", "annotate", "plan.md")
    assert done.status == 0
    assert "1.1  files: src/auth.ts" in done.out
    assert "--write" in done.out
    assert Path("plan.md").read_bytes() == before


def test_annotate_knows_the_files_of_the_repository_and_writes_once(weft: Weft) -> None:
    repository()
    Path("src").mkdir()
    write("src/names.py", "")
    subprocess.run(["git", "add", "src"], check=True)
    write("plan.md", TRACK)
    answer = weft("plan", "annotate", "plan.md", "--write", "--json").json
    assert (answer["written"], answer["left_alone"]) == (True, False)
    [phase] = answer["phases"]
    assert phase["parallel"]
    assert [task["files"] for task in phase["tasks"]] == [["src/auth.ts"], ["src/names.py"]]
    written = Path("plan.md").read_text()
    assert "<!-- execution: parallel -->" in written
    assert "<!-- files: src/names.py -->" in written
    again = weft("plan", "annotate", "plan.md", "--write")
    assert again.out == "plan.md is annotated already; it was left alone.\n"
    assert Path("plan.md").read_text() == written


def test_annotate_says_keep_sequential_where_it_would_not_help(weft: Weft) -> None:
    write("plan.md", "## Phase 1: a\n- [ ] Write src/a.ts\n- [ ] Write src/a.ts again\n")
    shown = weft("plan", "annotate", "plan.md").out
    assert "Phase 1 (2 tasks): keep sequential. Its tasks change the same files" in shown


def test_annotate_puts_files_into_the_stories_of_a_prd(weft: Weft) -> None:
    write("prd.json", '{"stories": [{"id": "a", "title": "Write src/a.ts"}]}')
    assert "a  files: src/a.ts" in weft("plan", "annotate", "prd.json").out
    assert weft("plan", "annotate", "prd.json", "--write").status == 0
    assert '"files": ["src/a.ts"]' in Path("prd.json").read_text()
    assert "left alone" in weft("plan", "annotate", "prd.json", "--write").out


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("- [ ] T001 [P] Write src/a.py\n", "say [P]"),
        ("- [ ] 1. A\n  - [ ] 1.1 B\n", "no place for files"),
        ("## 1. A\n- [ ] 1.1 B\n", "no place for files"),
        ("### Task 1: A\n**Files:**\n- Create: `a`\n", "**Files:**"),
    ],
)
def test_annotate_refuses_formats_without_a_place_for_files(
    weft: Weft, text: str, reason: str
) -> None:
    write("tasks.md", text)
    assert_one_sentence(weft("plan", "annotate", "tasks.md", "--write"), reason)
    assert Path("tasks.md").read_text() == text


@pytest.mark.parametrize("command", ["state", "annotate"])
def test_a_bad_plan_is_not_turned_into_anything(weft: Weft, command: str) -> None:
    circle = "## P\n- [ ] a\n  <!-- files: a; depends: task2 -->\n- [ ] b\n  <!-- files: b -->\n"
    for text, code in ((BAD, "[unknown-task]"), (circle, "[cycle]")):
        write("plan.md", text)
        done = weft("plan", command, "plan.md")
        assert (done.status, done.out) == (2, "")
        assert code in done.err


def test_the_state_of_a_phase_is_written_again_and_again(weft: Weft) -> None:
    write("plan.md", GOOD)
    state = weft("plan", "state", "plan.md").json
    assert (state["phase"], state["total_workers"]) == ("Phase 1: Models", 3)
    for phase in ("1", "2"):
        done = weft("plan", "state", "plan.md", "--phase", phase, "--output", "state.json")
        assert done.status == 0
    assert json.loads(Path("state.json").read_text())["phase"] == "Phase 2: Pages"
    assert_one_sentence(weft("plan", "state", "plan.md", "--output", "plan.md"), "there already")
    assert_one_sentence(weft("plan", "state", "plan.md", "--phase", "9"), "no phase '9'")
    write("prd.json", '{"stories": [{"id": "a", "title": "A"}]}')
    assert weft("plan", "state", "prd.json").json["total_workers"] == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("check", "nowhere.md"), ("no file", "nowhere.md")),
        (("check", "."), ("directory",)),
        (("check",), ("FILE",)),
        (("chek", "plan.md"), ("no command 'chek'", "Did you mean check?")),
        (("zzz",), ("weft plan --help",)),
        (("show", "nowhere.md"), ("no file",)),
        (("annotate", "nowhere.md", "--write"), ("no file",)),
        (("show", "plan.md", "--html", "no/where.html"), ("No such file",)),
    ],
)
def test_a_mistake_gets_one_sentence(
    weft: Weft, arguments: tuple[str, ...], words: tuple[str, ...]
) -> None:
    write("plan.md", GOOD)
    assert_one_sentence(weft("plan", *arguments), *words)


@pytest.mark.parametrize("name", ["", "check", "show", "annotate", "state"])
def test_every_command_has_help_with_an_example(weft: Weft, name: str) -> None:
    done = weft("plan", *([name] if name else []), "-h")
    assert done.status == 0
    assert name in done.out
    assert not name or f"Example: weft plan {name} " in " ".join(done.out.split())


def test_nothing_to_run_is_nothing_to_draw(weft: Weft) -> None:
    write("plan.md", "## P\n- [x] a\n")
    assert "nothing is left to run" in weft("plan", "show", "plan.md").out


def test_a_page_of_thousands_of_tasks_stays_small() -> None:
    lines = "".join(f"- [ ] Task {n}: a\n  <!-- files: f{n} -->\n" for n in range(1, 4001))
    source = plan_check.PlanSource(
        name="plan.md", data=f"## P\n<!-- execution: parallel -->\n{lines}".encode()
    )
    with plan_check.setting(Path("/"), {}) as around:
        checked = plan_check.check(source, around)
    text = plan_page.render(checked)
    assert "too many to draw" in text
    assert len(text) < 1_000_000
    Tags(text)


def test_a_new_plan_is_refused_until_its_tasks_are_replaced_and_overwrites_nothing(
    weft: Weft,
) -> None:
    done = weft("plan", "new")
    assert (done.status, done.err) == (0, "")
    assert "next: weft plan check plan.md" in done.out
    checked = weft("plan", "check", "plan.md")
    assert (checked.status, checked.out.count("[placeholder]")) == (2, 2)
    before = Path("plan.md").read_text()
    Path("own.md").write_text(before.replace("Replace this by the", "Write the"))
    assert "2 tasks in 1 phase, no problems" in weft("plan", "check", "own.md").out
    assert max(map(len, before.splitlines())) <= 100
    assert_one_sentence(weft("plan", "new"), "exists already", "--overwrite")
    assert Path("plan.md").read_text() == before
    assert weft("plan", "new", "--output", "b.md", "--json").json == {"file": "b.md"}
    assert_one_sentence(weft("plan", "new", "-o", "no/such/b.md"), "No such file")


def test_a_mark_of_parallelism_is_checked_against_the_history(weft: Weft, tmp_path: Path) -> None:
    make_repository(tmp_path / "photos")
    os.chdir(tmp_path / "photos")
    for number in range(3):
        for name in ("a.py", "b.py"):
            write(name, str(number))
        commit_all(Path(), f"change {number}")
    write("tasks.md", "- [ ] T001 [P] Write `a.py`\n- [ ] T002 [P] Write `b.py`\n")
    checked = weft("plan", "check", "tasks.md").out
    assert "a.py and b.py changed together in 3 of 3 commits; T002 waits for T001" in checked
    assert "waits for T001" in weft("plan", "show", "tasks.md").out
