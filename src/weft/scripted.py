#!/usr/bin/env python3
r"""The scripted agent: follows its prompt word for word, and needs no model.

It reads a prompt on standard input and carries out every line of the form

    script: VERB ARGUMENTS

in order. Spaces and list bullets before `script:` do not matter; lines inside ``` fences and
quotes are left alone. A line may carry conditions, read from WEFT_ATTEMPT and WEFT_STAGE:

    script: attempt 1: crash KILL
    script: stage test: write tests/test_a.py assert True

The author of the prompt controls the agent. So it runs no programs, and touches no file outside
its directory or in a git directory, unless it was started with `--commands`, which an agent file
asks for with `commands: yes`. Verbs marked * need that.

Files
    write PATH TEXT          \n in TEXT is a new line, \t a tab, \\ a backslash
    append PATH TEXT
    replace PATH OLD => NEW  every OLD in the file
    delete PATH
    touch PATH               an empty file, whether or not the task owns it
    commit [MESSAGE]       * all files in the directory, with git

Output
    say TEXT                 a message
    print N [TEXT]           N lines that are no messages
    tool NAME [DETAIL]       as if it called a tool
    use IN OUT [DOLLARS]     report tokens, and dollars
    answer TEXT              the result, told at the end

weft's tools, over MCP at WEFT_MCP_URL with the token in the file WEFT_MCP_TOKEN_FILE
    call TOOL [JSON]         with these arguments; says the answer, and fails if it is refused
    notices N                poll until N tasks that it sent have ended, a minute at most

Time and trouble
    sleep SECONDS
    until COMMAND          * wait for a shell command to succeed, a minute at most
    wait PATH                until there is such a file
    limit for SECONDS        report a rate limit and exit with 1
    limit until TIME         the same, with seconds since 1970
    fail CLASS [TEXT]        report an error of this class and exit with 1
    exit N
    crash SIGNAL             die of it: KILL, SEGV, TERM
    hang                     for ever
    ignore SIGNAL            from now on: TERM, INT
    grandchild SECONDS [stay] [deaf] [closed] [bare]   *
                             a process that leaves the session and sleeps; `stay` remains in it,
                             `deaf` ignores TERM, INT and HUP, `closed` closes all it inherited,
                             `bare` runs another program with an empty environment

A line that cannot be carried out is a failure of class config, a forbidden line of class other.
Without any script line it adds a line with the task's name (WEFT_TASK) to the first file in
WEFT_FILES that is no pattern.

`--resume ID` goes on behind the line that session had reached. Its progress is
kept in WEFT_SCRIPTED_STATE, or in a directory of the user's under /tmp, until it ends well. A
session that ended well follows the new prompt instead.

Its output is a JSON object per line: started, text, tool, usage, rate_limit, error, result.
It imports no module of weft, and few others, so that it starts at once.
"""

import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_ESCAPES = {i: f"\\u{i:04x}" for i in range(32)} | {34: '\\"', 92: "\\\\"}
_GLOB = frozenset("*?[{")
_SESSION_LETTERS = frozenset("0123456789abcdef")
_PATIENCE = 60.0  # seconds to wait for a command to succeed
_COMMANDS = frozenset({"commit", "until", "grandchild"})


class Mistake(Exception):
    """A script line that cannot be carried out."""


class Refusal(Exception):
    """A script line that its agent file does not allow."""


def main(arguments: list[str]) -> int:
    if "--help" in arguments:
        _write((__doc__ or "") + "\n")
        return 0
    resumed = arguments[arguments.index("--resume") + 1 :][:1] if "--resume" in arguments else []
    prompt = sys.stdin.buffer.read().decode("utf-8", "replace")
    session = resumed[0] if resumed else os.urandom(8).hex()
    script, reached = _recall(session, prompt) if resumed else (_script(prompt), 0)
    _tell("started", session=session)
    answer = _perform(script, reached, session) if script else _without_script()
    _tell("result", ok=True, text=answer)
    _forget(session)
    return 0


def _may_run_commands() -> bool:
    return "--commands" in sys.argv[1:]


def _refuse_command(verb: str) -> None:
    if verb in _COMMANDS and not _may_run_commands():
        raise Refusal("it runs no commands; `commands: yes` in its agent file allows them")


def _script(prompt: str) -> list[str]:
    lines, fence = [], ""
    for line in prompt.splitlines():
        words = line.lstrip(" \t-*+")
        bare = line.strip()
        if bare.startswith("```"):
            ticks = bare[: len(bare) - len(bare.lstrip("`"))]
            if not fence:
                fence = ticks
            elif bare.startswith(fence) and not bare.strip("`"):
                fence = ""
        elif not fence and words.startswith("script:"):
            lines.append(words.removeprefix("script:").strip())
    return lines


def _perform(script: list[str], reached: int, session: str) -> str:
    answer = f"Carried out {len(script)} script lines."
    for number, line in enumerate(script):
        command = _applies(line)
        verb, _, rest = command.partition(" ")
        if verb == "answer":
            answer = _text(rest)  # known again after a resume
            continue
        if number < reached or not command:
            continue
        try:
            _refuse_command(verb)
            _remember(session, number + 1, script)
            VERBS[verb](rest.strip())
        except (KeyError, ValueError, IndexError, OSError, Mistake) as error:
            _fail("config", f"cannot carry out {line!r}: {error!r}")
        except Refusal as refusal:  # the task is wrong, not the agent: other tasks go on using it
            _fail("other", f"will not carry out {line!r}: {refusal}")
    return answer


def _applies(line: str) -> str:
    """Return the command of a line, or "" if its conditions do not hold."""
    facts = {"attempt": "WEFT_ATTEMPT", "stage": "WEFT_STAGE"}
    while line.split(" ", 1)[0] in facts:
        condition, colon, rest = line.partition(":")
        name, _, wanted = condition.partition(" ")
        if not colon or os.environ.get(facts[name], "") != wanted.strip():
            return ""
        line = rest.strip()
    return line


def _without_script() -> str:
    task = os.environ.get("WEFT_TASK", "") or "a task without a name"
    owned = os.environ.get("WEFT_FILES", "").splitlines()
    path = next((path for path in owned if path and not _GLOB.intersection(path)), None)
    if path is None:
        return f"Nothing to do for {task}: no script line, and no file of its own by name."
    _append(f"{path} {task} was here")
    return f"Added a line to {path} for {task}."


def _refuse_outside(path: str) -> None:
    """Refuse a path outside the directory or in a git directory, unless commands are allowed."""
    if not path:
        raise Mistake("no path given")
    if _may_run_commands():
        return
    parts = os.path.relpath(os.path.realpath(path), os.path.realpath(".")).lower().split(os.sep)
    if parts[0] == ".." or ".git" in parts:
        raise Refusal(f"{path} is not the agent's; `commands: yes` in its agent file allows it")


def _put(path: str, text: str, mode: str) -> None:
    _refuse_outside(path)
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, mode, encoding="utf-8", errors="replace") as file:
        file.write(text)


def _write_file(rest: str) -> None:
    path, _, text = rest.partition(" ")
    _put(path, _text(text) + "\n", "w")
    _tell("tool", name="write", detail=path)


def _append(rest: str) -> None:
    path, _, text = rest.partition(" ")
    _put(path, _text(text) + "\n", "a")
    _tell("tool", name="append", detail=path)


def _replace(rest: str) -> None:
    path, _, change = rest.partition(" ")
    old, arrow, new = change.partition(" => ")
    if not arrow or not old:
        raise Mistake("OLD => NEW is missing")
    _refuse_outside(path)
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        before = file.read()
    if _text(old) not in before:
        raise Mistake(f"{old!r} is not in {path}")
    with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(before.replace(_text(old), _text(new)))
    _tell("tool", name="replace", detail=path)


def _delete(rest: str) -> None:
    _refuse_outside(rest)
    os.remove(rest)
    _tell("tool", name="delete", detail=rest)


def _touch(rest: str) -> None:
    _put(rest, "", "a")
    _tell("tool", name="touch", detail=rest)


def _commit(rest: str) -> None:
    who = ("-c", "user.name=scripted", "-c", "user.email=scripted@localhost")
    message = rest or "scripted: what the script said"
    _run("git", "add", "--all")
    _run("git", *who, "commit", "--quiet", "--no-verify", "--message", message)
    _tell("tool", name="commit", detail=message)


def _run(*argv: str) -> None:
    status = _status(*argv)
    if status:
        raise Mistake(f"{argv[0]} ended with {status}")


def _status(*argv: str) -> int:
    process = os.posix_spawnp(argv[0], argv, os.environ)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def _say(rest: str) -> None:
    _tell("text", text=_text(rest))


def _print(rest: str) -> None:
    number, _, text = rest.partition(" ")
    line = (_text(text) or "a line") + "\n"
    left = int(number)
    while left > 0:
        some = min(left, 1000)
        _write(line * some)
        left -= some


def _tool(rest: str) -> None:
    name, _, detail = rest.partition(" ")
    _tell("tool", name=name, detail=_text(detail))


def _use(rest: str) -> None:
    words = rest.split()
    report = {"input": int(words[0]), "output": int(words[1])}
    if len(words) > 2:
        _tell("usage", **report, usd=float(words[2].lstrip("$")))
    else:
        _tell("usage", **report)


def _call(rest: str) -> None:
    import json

    name, _, given = rest.partition(" ")
    text, _ = call_tool(name, json.loads(given or "{}"))
    _tell("tool", name=name, detail=given)
    _say(text.replace("\\", "\\\\"))


def _notices(rest: str) -> None:
    wanted, acknowledged = int(rest), None
    ended: set[object] = set()
    end = time.monotonic() + _PATIENCE
    while len(ended) < wanted:
        left = end - time.monotonic()
        if left < 0:
            raise Mistake(f"only {len(ended)} of {wanted} tasks ended within a minute")
        given: dict[str, object] = {"wait_ms": int(min(left, 10) * 1000)}
        if acknowledged is not None:
            given["ack"] = acknowledged
        try:
            _, answer = call_tool("poll_task", given)
        except OSError:  # its server may come back
            time.sleep(0.1)
            continue
        acknowledged = answer.get("ack") or acknowledged
        for task in answer.get("finished") or ():
            ended.add(task["task"])
            _tell("tool", name="poll_task", detail=f"task {task['task']} is {task['state']}")


def call_tool(tool: str, arguments: dict[str, object]) -> "tuple[str, dict[str, Any]]":
    """Call a tool of weft's; return its text and its answer as fields."""
    import http.client
    import json
    from urllib.parse import urlsplit

    address = urlsplit(os.environ["WEFT_MCP_URL"])
    with open(os.environ["WEFT_MCP_TOKEN_FILE"], encoding="ascii") as file:
        token = file.read().strip()
    kind = http.client.HTTPSConnection if address.scheme == "https" else http.client.HTTPConnection
    connection = kind(address.netloc, timeout=_PATIENCE + 30)
    request = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": tool, "arguments": arguments},
    }
    headers = {
        "Authorization": f"Bearer {token}",
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
    }
    try:
        connection.request("POST", address.path, json.dumps(request), headers)
        response = connection.getresponse()
        body = response.read().decode("utf-8", "replace")
    except http.client.HTTPException as error:
        raise OSError(f"no answer to {tool}: {error!r}") from error
    finally:
        connection.close()
    if response.status != 200:
        raise Mistake(f"{tool} was answered with {response.status}: {body[:500]}")
    answer = json.loads(body)
    if "result" not in answer:
        raise Mistake(f"{tool} was refused: {answer['error']['message']}")
    result = answer["result"]
    text = str(result["content"][0]["text"])
    if result.get("isError"):
        raise Mistake(f"{tool} was refused: {text}")
    return text, result.get("structuredContent") or {}


def _until(rest: str) -> None:
    if not rest:
        raise Mistake("no command given")
    end = time.monotonic() + _PATIENCE
    while _status("sh", "-c", rest):
        if time.monotonic() > end:
            raise Mistake("it did not succeed within a minute")
        time.sleep(0.05)


def _limit(rest: str) -> None:
    how, number = rest.split()
    key = {"for": "after", "until": "until"}[how]
    _tell("rate_limit", **{key: float(number)}, text=f"rate limit, {rest}")
    raise SystemExit(1)


def _fail(kind: str, text: str) -> None:
    _tell("error", **{"class": kind}, text=text)
    raise SystemExit(1)


def _failing(rest: str) -> None:
    kind, _, text = rest.partition(" ")
    _fail(kind, _text(text) or "as the script says")


def _crash(rest: str) -> None:
    number = _signal(rest)
    os.kill(os.getpid(), number)
    time.sleep(60)  # some signals take a moment


def _wait(path: str) -> None:
    _refuse_outside(path)
    while not os.path.exists(path):
        time.sleep(0.02)


def _hang(_: str) -> None:
    while True:
        time.sleep(3600)


def _ignore(rest: str) -> None:
    import signal

    signal.signal(_signal(rest), signal.SIG_IGN)


def _signal(name: str) -> int:
    import signal

    return signal.Signals["SIG" + name.upper().removeprefix("SIG")]


def _grandchild(rest: str) -> None:
    seconds, *how = rest.split()
    sleep = float(seconds)
    strange = set(how) - {"stay", "deaf", "closed", "bare"}
    if strange:
        raise Mistake(f"unknown: {', '.join(sorted(strange))}")
    process = os.fork()
    if process:
        _tell("tool", name="grandchild", detail=str(process))
        return
    try:
        if "stay" not in how:
            os.setsid()
        if "deaf" in how:
            for name in ("TERM", "INT", "HUP"):
                _ignore(name)
        if "closed" in how:
            os.closerange(0, 1024)
        if "bare" in how:
            os.execvpe("sleep", ["sleep", str(sleep)], {})  # noqa: S606 - as agents do
        end = time.monotonic() + sleep
        while (left := end - time.monotonic()) > 0:
            time.sleep(left)
    finally:
        os._exit(0)


VERBS = {
    "write": _write_file,
    "append": _append,
    "replace": _replace,
    "delete": _delete,
    "touch": _touch,
    "commit": _commit,
    "say": _say,
    "print": _print,
    "tool": _tool,
    "use": _use,
    "call": _call,
    "notices": _notices,
    "sleep": lambda rest: time.sleep(float(rest)),
    "until": _until,
    "wait": _wait,
    "limit": _limit,
    "fail": _failing,
    "exit": lambda rest: sys.exit(int(rest or "0")),
    "crash": _crash,
    "hang": _hang,
    "ignore": _ignore,
    "grandchild": _grandchild,
}


def _text(escaped: str) -> str:
    parts = escaped.split("\\\\")
    return "\\".join(part.replace("\\n", "\n").replace("\\t", "\t") for part in parts)


def _tell(kind: str, **facts: object) -> None:
    """Print a line of JSON at once; importing `json` would double the start-up time."""
    pairs = {"type": kind, **facts}
    _write("{" + ", ".join(f'"{key}": {_json(value)}' for key, value in pairs.items()) + "}\n")


def _json(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'"{value.translate(_ESCAPES)}"'
    return repr(value)


def _write(text: str) -> None:
    data = text.encode("utf-8", "replace")
    while data:
        data = data[os.write(1, data) :]


def _state(session: str) -> str:
    if not session or not _SESSION_LETTERS.issuperset(session):
        raise Mistake("a session's id is made of hexadecimal digits")
    directory = os.environ.get("WEFT_SCRIPTED_STATE") or f"/tmp/weft-scripted-{os.getuid()}"  # noqa: S108 - made for the user alone, checked below
    os.makedirs(directory, mode=0o700, exist_ok=True)
    if os.lstat(directory).st_uid != os.getuid():
        raise Mistake(f"{directory} belongs to somebody else")
    return os.path.join(directory, session)


def _remember(session: str, reached: int, script: list[str]) -> None:
    """Record the progress before each line, since a kill may come at any time."""
    path = _state(session)
    with open(path + ".new", "w", encoding="utf-8", errors="replace") as file:
        file.write("\n".join([str(reached), *script]))
    os.replace(path + ".new", path)


def _recall(session: str, prompt: str) -> tuple[list[str], int]:
    try:
        with open(_state(session), encoding="utf-8") as file:
            reached, *script = file.read().split("\n")
            return (script, int(reached)) if reached else (_script(prompt), 0)
    except (OSError, ValueError, Mistake):
        _fail("other", "no session found with this id")
        raise


def _forget(session: str) -> None:
    """Keep of a session that ended well only its id."""
    with open(_state(session), "w", encoding="utf-8"):
        pass


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
