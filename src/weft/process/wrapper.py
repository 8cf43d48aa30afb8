"""The wrapper: a small process beside each agent, which outlives weft and watches the tree.

It is the subreaper of all descendants of the agent, so no process leaves the tree by leaving group,
session or parent. It holds the attempt's lock, which the agent inherits. It stops the tree on TERM
(a second TERM, or QUIT, skips the grace), when weft has not renewed for too long, when the output
grows past its bound, and when the agent has ended and left descendants. It writes the exit record
only after all processes have ended.

Runs without site-packages, forked by `launcher` ahead of need: a bare interpreter per agent would
cost twice the memory and five times as long.
"""

from __future__ import annotations

import ctypes
import errno
import math
import os
import select
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress

from weft.process import attempt_files, cgroup, landlock, process_table
from weft.process.attempt_files import Record
from weft.process.container_end import end_container
from weft.process.process_identity import boottime

_TICK = 2.0  # how late a suspended machine or a flood of output may be noticed
_FIRST_PAUSE, _LAST_PAUSE = 0.005, 0.5  # between checks for survivors of KILL
_SUBREAPER, _NAME = 36, 15  # of prctl
_ANSWERED = (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT)
_IS_SUBREAPER = sys.platform == "linux"

EXPENDABLE = "500"
"""The oom_score_adj, of 1000, of agents and checks: the kernel ends them before weft."""

ENDED, ASKED, FORSAKEN, OUTPUT = "ended", "asked", "forsaken", "output"
"""The reason why the tree ended: the agent ended, weft stopped it, weft is gone, too much output.
"""

REFUSED = b"refused"
"""The answer to an order for an attempt that was started before, or was proved dead."""


def prepare(groups: str | None) -> str | None:
    """Do the part of a start that needs no order.

    Return the new control group of this process, below `groups`, for its agent.
    """
    os.setsid()
    _prctl(_SUBREAPER, 1)
    _prctl(_NAME, b"weft-wrapper")
    own = process_table.get_own()
    return cgroup.enter_new(groups, f"weft-{own.pid}-{own.start}") if groups else None


def leave_group(group: str | None) -> None:
    """Leave and remove the group, which holds no agent."""
    if group is not None and _step_out(group):
        cgroup.remove(group)


def _step_out(group: str) -> bool:
    """Move this process out of the agent's group; return False if it cannot."""
    try:
        cgroup.enter(os.path.dirname(group))
    except OSError:
        return False
    return True


def main(order: Record, acknowledge: int, group: str | None) -> None:
    """Carry out an order; the caller is a fresh process, in that group, that ends afterwards."""
    directory = order["directory"]
    # weft may be dead when the answer is ready. The agent does not inherit this.
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    lock = attempt_files.take_lock(directory)
    # A proof of death, or an earlier start of this attempt, has left a record.
    if lock is None or _has_begun(directory):
        _answer(acknowledge, REFUSED)
        leave_group(group)
        return
    try:
        tree = _Tree(order, lock, group)
        _answer(acknowledge, b"%d %d" % process_table.get_own())
        tree.end_to_end()
    except BaseException:
        with open(os.path.join(directory, attempt_files.FAULT), "a") as file:
            traceback.print_exc(file=file)
        raise
    finally:
        _leave_nobody()
        leave_group(group)


def _answer(acknowledge: int, text: bytes) -> None:
    with suppress(BrokenPipeError, ConnectionResetError):
        os.write(acknowledge, text)
    os.close(acknowledge)


class _Tree:
    """The agent and all its descendants."""

    def __init__(self, order: Record, lock: int, group: str | None) -> None:
        self._order = order
        self._directory: str = order["directory"]
        self._status: int | None = None  # the agent's, as waitpid gave it
        self._unstarted = ""  # why the agent's program could not be executed
        self._why = ""  # the end has begun, and this is why
        self._kill_at = 0.0  # boot time at which the grace is over
        self._swept: set[process_table.Process] = set()
        self._terminated: set[process_table.Process] = set()  # with the agent, by the first signal
        self._pause = _FIRST_PAUSE
        self._asked = 0
        self._wake = _listen_to_signals(self._on_signal)
        self._group = group
        if group is not None:
            cgroup.bound(group, order["memory"], order["processes"])
        self._write(
            attempt_files.WRAPPER, {**_as_record(process_table.get_own()), "cgroup": self._group}
        )
        # Kept, and never asked: a Popen that is thrown away takes the exit status with it.
        self._agent = self._start_agent(lock)

    def end_to_end(self) -> None:
        if self._group and not _step_out(self._group):
            self._group = None  # it is empty only when this process has ended as well
        while not self._is_empty():
            self._decide(boottime())
            self._sleep()
        if self._group:
            cgroup.remove(self._group)
        while not end_container(self._order["undo"], self._order["environment"]):
            time.sleep(_LAST_PAUSE)  # an engine that does not answer now may do so later
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
        assert self._agent is not None
        if self._order["first"] == signal.SIGTERM:
            self._terminated = {each for each in self._below() if self._is_in_group(each.pid)}
        # Not yet waited for, so the pid is still the agent's.
        os.killpg(self._agent.pid, self._order["first"])
        os.killpg(self._agent.pid, signal.SIGCONT)

    def _terminate_rest(self) -> None:
        """Send TERM once to each process that outlived the agent.

        The agent may be bubblewrap's monitor, which dies of the first signal at once, while the
        program inside is still about to end in good order.
        """
        for process in self._below():
            if process not in self._swept and process not in self._terminated:
                self._swept.add(process)
                process_table.send_signal(process, signal.SIGTERM)
                process_table.send_signal(process, signal.SIGCONT)

    def _kill(self) -> None:
        living = self._below()
        self._swept.update(process for process in living if not self._is_agent(process.pid))
        if self._group:
            cgroup.kill(self._group)  # all at once, so that none forks in between
        for process in living:
            process_table.send_signal(process, signal.SIGKILL)

    def _is_empty(self) -> bool:
        """Reap the dead. A subreaper without children has no descendants either."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return not self._below() and (not self._group or cgroup.is_empty(self._group))
            if pid == 0:
                return False
            if self._is_agent(pid):
                self._status = status

    def _is_in_group(self, pid: int) -> bool:
        try:
            return self._agent is not None and os.getpgid(pid) == self._agent.pid
        except ProcessLookupError:
            return False

    def _is_agent(self, pid: int) -> bool:
        return self._agent is not None and pid == self._agent.pid

    def _below(self) -> list[process_table.Process]:
        """Return all processes of this attempt except the wrapper."""
        if _IS_SUBREAPER:
            return process_table.list_descendants(os.getpid())
        # Elsewhere an orphan leaves the tree, and is known by its mark alone.
        marker = self._order["marker"]
        marked = [
            view.process
            for view in process_table.list_living()
            if process_table.find_mark(view.process.pid) == marker
        ]
        return list({*process_table.list_descendants(os.getpid()), *marked})

    def _sleep(self) -> None:
        """Sleep until a signal comes, or the next check is due."""
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

    def _on_signal(self, number: int, _: object) -> None:
        if number != signal.SIGCHLD:
            self._asked += 2 if number == signal.SIGQUIT else 1

    def _renewed(self) -> float:
        record = attempt_files.find_record(self._path(attempt_files.RENEWED))
        if record is not None:
            return float(record["sent"])
        # If the directory was removed, weft cannot find this attempt any more.
        return float(self._order["renewed"]) if os.path.isdir(self._directory) else -math.inf

    def _output_size(self) -> int:
        try:
            return sum(os.stat(self._path(name)).st_size for name in _OUTPUTS)
        except FileNotFoundError:
            return 0

    def _start_agent(self, lock: int) -> subprocess.Popen[bytes] | None:
        order = self._order
        try:
            with ExitStack() as streams, _offered_to_the_kernel():
                agent = subprocess.Popen(
                    order["argv"],
                    env={**order["environment"], process_table.MARK: order["marker"]},
                    cwd=order["cwd"],
                    stdin=streams.enter_context(open(self._path(attempt_files.STDIN), "rb")),
                    stdout=streams.enter_context(open(self._path(attempt_files.STDOUT), "ab")),
                    stderr=streams.enter_context(open(self._path(attempt_files.STDERR), "ab")),
                    pass_fds=[lock],
                    start_new_session=True,
                    # Without a prelude the child need not copy this process at all.
                    preexec_fn=landlock.scope if order["scoped"] else None,  # noqa: PLW1509 - there are no threads here
                )
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            self._unstarted = str(error)
            return None
        process = process_table.find_process(agent.pid) or process_table.Process(agent.pid, 0)
        self._write(attempt_files.AGENT, _as_record(process))
        return agent

    def _write_exit(self) -> None:
        status = self._status
        record = {
            "code": None if status is None else os.waitstatus_to_exitcode(status),
            "unstarted": self._unstarted,
            "why": self._why or ENDED,
            "swept": len(self._swept),
            "at": time.time(),
        }
        while True:
            try:
                return attempt_files.write_record_durably(self._path(attempt_files.EXIT), record)
            except OSError as error:
                # A full disk is emptied some day; a directory that was removed stays so.
                if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                    raise
                time.sleep(1)

    def _write(self, name: str, record: Record) -> None:
        attempt_files.write_record(self._path(name), record)

    def _path(self, name: str) -> str:
        return os.path.join(self._directory, name)


_OUTPUTS = (attempt_files.STDOUT, attempt_files.STDERR)


def _has_begun(directory: str) -> bool:
    return any(
        os.path.exists(os.path.join(directory, name))
        for name in (attempt_files.WRAPPER, attempt_files.EXIT)
    )


def _as_record(process: process_table.Process) -> Record:
    return {"pid": process.pid, "start": process.start}


def _listen_to_signals(answer: Callable[[int, object], None]) -> int:
    """Return a descriptor that becomes readable with every signal, for a loop to wait on.

    Signals get handlers rather than SIG_IGN: a handler ends with exec, SIG_IGN would be inherited.
    """
    wake, write = os.pipe()
    os.set_blocking(write, False)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    for number in _ANSWERED:
        signal.signal(number, answer)
    return wake


@contextmanager
def _offered_to_the_kernel() -> Iterator[None]:
    """Let processes that start meanwhile be the first to end when memory runs out, before weft."""
    for adjustment in (EXPENDABLE, "0"):
        with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
            file.write(adjustment)
        if adjustment != "0":
            yield


def _leave_nobody() -> None:
    """Kill all descendants, which would have no watchdog. After a proper end there are none."""
    while True:
        for process in process_table.list_descendants(os.getpid()):
            process_table.send_signal(process, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _prctl(option: int, value: object) -> None:
    if _IS_SUBREAPER:
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
