"""The wrapper: one small process beside each agent, which outlives weft and answers for the tree.

It is the subreaper of everything the agent starts, so nobody leaves the tree by leaving group,
session or parent. It holds the attempt's lock and lets the agent inherit it. It ends the tree
when asked to (TERM; a second one, or QUIT, skips the grace), when weft has not renewed for too
long, when the output grows past its bound, and, of what the agent left behind, when the agent
ends. Only when nobody is left does it write how the agent ended.

Runs without site-packages, forked by `launcher`: a bare interpreter per agent would cost 4 MB
and 20 ms, a fork costs less than 1 MB and 1 ms.
"""

from __future__ import annotations

import ctypes
import errno
import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable
from typing import NoReturn

from weft.process import cgroup, landlock, records, table
from weft.process.place import boottime
from weft.process.records import Record

_TICK = 2.0  # how late a suspended machine or a flood of output may be noticed
_FIRST_PAUSE, _LAST_PAUSE = 0.005, 0.5  # between looks at who survived KILL
_SUBREAPER, _NAME = 36, 15  # of prctl
_IS_SUBREAPER = sys.platform == "linux"
_CANNOT_EXECUTE = 127
_IGNORED_BY_PYTHON = (signal.SIGPIPE, signal.SIGXFSZ)

ENDED, ASKED, FORSAKEN, OUTPUT = "ended", "asked", "forsaken", "output"
"""Why the tree ended: the agent did by itself, somebody asked, weft is gone, too much output."""


REFUSED = b"refused"
"""The answer to an order for what was started before, or was proved dead."""


def main(order: Record, acknowledge: int) -> None:
    """Carry out one order; the caller is a fresh process that ends afterwards."""
    directory = order["directory"]
    os.setsid()
    lock = records.take_lock(directory)
    # Whoever proved this attempt dead, or started it already, has left a record.
    if lock is None or _has_begun(directory):
        os.write(acknowledge, REFUSED)
        return
    try:
        tree = _Tree(order, lock)
        os.write(acknowledge, b"%d %d" % table.get_own())
        os.close(acknowledge)
        tree.end_to_end()
    except BaseException:
        with open(os.path.join(directory, records.FAULT), "a") as file:
            traceback.print_exc(file=file)
        raise
    finally:
        _leave_nobody()


class _Tree:
    """The agent and everything below it."""

    def __init__(self, order: Record, lock: int) -> None:
        self._order = order
        self._directory: str = order["directory"]
        self._status: int | None = None  # the agent's, as waitpid gave it
        self._unstarted = ""  # why the agent's program could not be executed
        self._why = ""  # the end has begun, and this is why
        self._kill_at = 0.0  # boot time at which the grace is over
        self._swept: set[table.Process] = set()
        self._pause = _FIRST_PAUSE
        self._asked = 0
        self._wake = _listen_to_signals(
            {signal.SIGTERM: self._on_term, signal.SIGQUIT: self._on_quit}
        )
        _prctl(_SUBREAPER, 1)
        _prctl(_NAME, b"weft-wrapper")
        self._group = self._make_group()
        self._write(records.WRAPPER, {**_as_record(table.get_own()), "cgroup": self._group})
        self._agent = self._start_agent(lock)

    def end_to_end(self) -> None:
        while not self._is_empty():
            self._decide(boottime())
            self._sleep()
        if self._group:
            cgroup.remove(self._group)
        self._write_exit()

    def _decide(self, now: float) -> None:
        if not self._why:
            self._begin_end(now)
        if self._asked > 1:
            self._kill_at = min(self._kill_at, now)
        if self._why and now >= self._kill_at:
            self._kill()
        elif self._why and self._status is not None:
            self._terminate_rest()

    def _begin_end(self, now: float) -> None:
        order = self._order
        alone_at = self._renewed() + order["gone_after"]
        self._kill_at = now + order["grace"]
        if self._status is not None:
            self._why = ENDED
        elif self._asked:
            self._why = ASKED
        elif now > alone_at:
            self._why = FORSAKEN
            # A machine that slept through its grace has none left.
            self._kill_at = alone_at + order["grace"]
        elif self._output_size() > order["output_limit"]:
            self._why = OUTPUT
        if self._why and self._status is None:
            self._signal_first()

    def _signal_first(self) -> None:
        send = os.killpg if self._order["reach"] == "group" else os.kill
        # Not yet waited for, so the pid is still the agent's.
        send(self._agent, self._order["first"])
        send(self._agent, signal.SIGCONT)

    def _terminate_rest(self) -> None:
        """Ask everyone who outlived the agent to end, each of them once."""
        for process in self._below():
            if process not in self._swept:
                self._swept.add(process)
                table.send_signal(process, signal.SIGTERM)
                table.send_signal(process, signal.SIGCONT)

    def _kill(self) -> None:
        living = self._below()
        self._swept.update(process for process in living if process.pid != self._agent)
        if self._group:
            cgroup.kill(self._group)  # all at once, so that nobody forks in between
        for process in living:
            table.send_signal(process, signal.SIGKILL)

    def _is_empty(self) -> bool:
        """Bury the dead. A subreaper without children has no descendants either."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return not self._below() and (not self._group or cgroup.is_empty(self._group))
            if pid == 0:
                return False
            if pid == self._agent:
                self._status = status

    def _below(self) -> list[table.Process]:
        """Everybody of this attempt but the wrapper."""
        if _IS_SUBREAPER:
            return table.descendants(os.getpid())
        # Elsewhere whoever lost its parent left the tree, and is known by its mark alone.
        marker = self._order["marker"]
        marked = [
            one.process for one in table.everyone() if table.mark_of(one.process.pid) == marker
        ]
        return list({*table.descendants(os.getpid()), *marked})

    def _sleep(self) -> None:
        """Until a signal comes, or it is time to look again."""
        now = boottime()
        if not self._why:
            seconds = min(_TICK, self._renewed() + self._order["gone_after"] - now)
        elif now < self._kill_at and self._status is None:
            seconds = self._kill_at - now
        else:  # no signal tells of a grandchild's end
            left = self._kill_at - now
            seconds = min(self._pause, left) if left > 0 else self._pause
            self._pause = min(2 * self._pause, _LAST_PAUSE)
        ready, _, _ = select.select([self._wake], [], [], max(0.0, seconds))
        if ready:
            os.read(self._wake, 4096)

    def _on_term(self, *_: object) -> None:
        self._asked += 1

    def _on_quit(self, *_: object) -> None:
        self._asked += 2

    def _renewed(self) -> float:
        record = records.find(self._path(records.RENEWED))
        return float(record["sent"]) if record else float(self._order["renewed"])

    def _output_size(self) -> int:
        try:
            return sum(os.stat(self._path(name)).st_size for name in _OUTPUTS)
        except FileNotFoundError:
            return 0  # the directory was removed; nobody renews there, and that ends the tree

    def _make_group(self) -> str | None:
        parent = self._order["cgroup"]
        try:
            return cgroup.create(parent, f"weft-{self._order['marker']}") if parent else None
        except OSError:
            return None  # the wrapper's record says so: it names no group

    def _start_agent(self, lock: int) -> int:
        told, tell = os.pipe()  # closed by a successful exec
        agent = os.fork()
        if agent == 0:
            self._become_agent(lock, tell)
        os.close(tell)
        process = table.find_process(agent) or table.Process(agent, 0)
        self._write(records.AGENT, _as_record(process))
        self._unstarted = os.read(told, 4096).decode(errors="replace")
        os.close(told)
        return agent

    def _become_agent(self, lock: int, tell: int) -> NoReturn:
        order = self._order
        try:
            os.setsid()
            if self._group:
                cgroup.enter(self._group)
            for number, (name, flags) in enumerate(_STREAMS):
                handle = os.open(self._path(name), flags, 0o600)
                os.dup2(handle, number)
            os.set_inheritable(lock, True)
            os.chdir(order["cwd"])
            if order["landlock"]:
                landlock.restrict(order["landlock"]["writable"], order["landlock"]["denied"])
            for number in _IGNORED_BY_PYTHON:
                signal.signal(number, signal.SIG_DFL)
            environment = {**order["environment"], table.MARK: order["marker"]}
            os.execvpe(order["argv"][0], order["argv"], environment)  # noqa: S606 - no shell
        except BaseException as error:  # noqa: BLE001 - whatever it is, the wrapper tells weft
            os.write(tell, str(error).encode(errors="replace"))
        finally:
            os._exit(_CANNOT_EXECUTE)

    def _write_exit(self) -> None:
        assert self._status is not None
        record = {
            "code": os.waitstatus_to_exitcode(self._status),
            "unstarted": self._unstarted,
            "why": self._why or ENDED,
            "swept": len(self._swept),
            "at": time.time(),
        }
        while True:
            try:
                return records.write_durably(self._path(records.EXIT), record)
            except OSError as error:
                # A full disk is emptied some day; a directory that was removed stays so.
                if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                    raise
                time.sleep(1)

    def _write(self, name: str, record: Record) -> None:
        records.write(self._path(name), record)

    def _path(self, name: str) -> str:
        return os.path.join(self._directory, name)


_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT
_OUTPUTS = (records.STDOUT, records.STDERR)
_STREAMS = (
    (records.STDIN, os.O_RDONLY),
    (records.STDOUT, _APPEND),
    (records.STDERR, _APPEND),
)


def _has_begun(directory: str) -> bool:
    return any(
        os.path.exists(os.path.join(directory, name)) for name in (records.WRAPPER, records.EXIT)
    )


def _as_record(process: table.Process) -> Record:
    return {"pid": process.pid, "start": process.start}


def _listen_to_signals(answers: dict[int, Callable[..., None]]) -> int:
    """A descriptor that becomes readable with every signal; a loop waits on it.

    Nothing is ignored, only answered: an answer ends with exec, what is ignored stays so.
    """
    wake, write = os.pipe()
    os.set_blocking(write, False)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    for number, answer in answers.items():
        signal.signal(number, answer)
    return wake


def _leave_nobody() -> None:
    """KILL whoever is left: nobody would watch over them. After a proper end there is no one."""
    while True:
        for process in table.descendants(os.getpid()):
            table.send_signal(process, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _prctl(option: int, value: object) -> None:
    if _IS_SUBREAPER:
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
