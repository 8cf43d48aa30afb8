"""A stand-in for `bd`: issues in a file beside it, claimed and closed by the rules of the real one.

Every call is written down. What the file `trouble` says goes wrong: `fail N`, `hang`, `die`,
`mute` (it ends well and says nothing), `slow`.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent


def main(arguments: list[str]) -> int:
    actor = os.environ.get("BEADS_ACTOR", "nobody")
    foreign = sorted(name for name in os.environ if name.startswith(("GIT_", "WEFT_")))
    call = {"arguments": arguments, "actor": actor, "foreign": foreign, "in": str(Path.cwd())}
    with (HERE / "calls").open("a") as file:
        file.write(json.dumps(call) + "\n")
    if not make_trouble():
        return 0
    issues = json.loads((HERE / "issues").read_text())
    verb, rest = arguments[0], arguments[1:]
    if verb == "show":
        found = [
            {**issues[one], "dependents": list_dependents(issues, one)}
            for one in rest
            if one in issues
        ]
        sys.stderr.write("a remark\n")
        for one in rest[:-1]:
            if one not in issues:
                sys.stderr.write(f'Error resolving ID {one}: no issue found matching "{one}"\n')
        sys.stdout.write(json.dumps(found, indent=2) if found else "")
        return 0 if found else 1
    error = ""
    if verb == "create":
        create(issues, rest)
    elif verb == "close":
        error = close(issues[rest[0]], rest[1:])
    else:
        error = update(issues[rest[0]], rest[1:], actor)
    if error:
        sys.stderr.write(f"Error: {error}\n")
        return 1
    half = HERE / "issues.half"
    half.write_text(json.dumps(issues))
    half.replace(HERE / "issues")
    return 0


def list_dependents(issues: dict[str, dict[str, Any]], id: str) -> list[dict[str, str]]:
    return [
        {"id": other, "title": issue["title"], "dependency_type": link["type"]}
        for other, issue in issues.items()
        for link in issue["dependencies"]
        if link["depends_on_id"] == id
    ]


def create(issues: dict[str, dict[str, Any]], options: list[str]) -> None:
    given = dict(option.removeprefix("--").split("=", 1) for option in options)
    kind, _, to = given.pop("deps").partition(":")
    id = f"bd-new{len(issues)}"
    issues[id] = {
        "id": id,
        **{"status": "open", "assignee": "", "notes": "", "issue_type": "task"},
        "dependencies": [{"issue_id": id, "depends_on_id": to, "type": kind}],
        **given,
    }


def update(issue: dict[str, Any], options: list[str], actor: str) -> str:
    given = iter(options)
    for option in given:
        if option == "--claim":
            ours = issue["assignee"] in ("", actor)
            if not ours:
                return f"already claimed by {issue['assignee']}"
            if issue["status"] not in ("open", "in_progress"):
                return f"not claimable: status {issue['status']}"
            issue |= {"status": "in_progress", "assignee": actor}
        elif option in ("--status", "--assignee", "--notes"):
            issue[option.removeprefix("--")] = next(given)
        else:
            return f"unknown flag: {option}"
    return ""


def close(issue: dict[str, Any], options: list[str]) -> str:
    if options[0] != "--reason" or len(options) != 2:
        return "unknown flag"
    issue |= {"status": "closed", "close_reason": options[1]}
    return ""


def make_trouble() -> bool:
    """Whether to go on."""
    file = HERE / "trouble"
    word, _, number = file.read_text().partition(" ") if file.exists() else ("", "", "")
    match word:
        case "fail" if int(number) > 0:
            file.write_text(f"fail {int(number) - 1}")
            sys.stderr.write("Error: the database is locked\n")
            raise SystemExit(1)
        case "hang":
            with subprocess.Popen(["/bin/sleep", "600"]) as child:
                (HERE / "child").write_text(str(child.pid))
        case "die":
            os.kill(os.getpid(), signal.SIGKILL)
        case "slow":
            while file.exists():
                time.sleep(0.02)
        case "mute":
            return False
    return True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
