"""A git on PATH that dies: at the calls a test names, in the way it names."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

_PROGRAM = """#!/bin/sh
# Counts weft's calls; those for which the file `how` sets `how` end by SIGKILL.
place={place}; real={real}
[ -z "$GIT_TERMINAL_PROMPT" ] && exec $real "$@"
printf x >> $place/calls
read -r calls < $place/calls
number=${{#calls}}
. $place/how
[ -z "$how" ] && exec $real "$@"
echo "$how $*" >> $place/deaths
how=$how exec bash $place/death "$@"
"""
_DEATH = """place={place}; real={real}
case $how in
before) ;;
after) $real "$@" ;;
locked)  # as a git leaves it that is killed while it holds its locks
    if [ "$1" = update-ref ]; then
        input=$(cat)
        coproc $real "$@"
        printf '%s\\n' "${{input%commit*}}" >&"${{COPROC[1]}}"
        for _ in 1 2; do read -r _ <&"${{COPROC[0]}}"; done
        kill -9 "$COPROC_PID"
    elif [ "$1" = config ]; then touch config.lock
    elif [ -n "$GIT_INDEX_FILE" ]; then touch "$GIT_INDEX_FILE.lock"; fi ;;
unrecorded)  # files are written, the index that says so is not
    [ -f "$GIT_INDEX_FILE" ] && cp -p "$GIT_INDEX_FILE" "$place/index"
    $real "$@" > /dev/null
    [ -f "$place/index" ] && mv "$place/index" "$GIT_INDEX_FILE" ;;
*)  # after so many seconds, wherever it is then
    $real "$@" <&0 & child=$!
    sleep "$how"; kill -9 $child 2> /dev/null; wait $child ;;
esac
kill -9 $$
"""

WAYS = ("before", "after", "locked", "unrecorded")


class DyingGit:
    def __init__(self, place: Path, how: str = "") -> None:
        """`how` is a line of shell that sets `how`, by `number`, to the way to die."""
        self._place = place / "dying"
        self._place.mkdir()
        real = shutil.which("git")
        assert real is not None
        self._write("git", _PROGRAM.format(place=self._place, real=real))
        self._write("death", _DEATH.format(place=self._place, real=real))
        self.set(how)
        self.path = f"{self._place}{os.pathsep}{os.environ['PATH']}"

    def _write(self, name: str, text: str) -> None:
        beside = self._place / f".{name}"
        beside.write_text(text)
        beside.chmod(0o755)
        beside.rename(self._place / name)

    def set(self, how: str) -> None:
        """Begin to count anew."""
        self._write("how", f"how=\n{how}\n")
        (self._place / "calls").unlink(missing_ok=True)
        (self._place / "deaths").unlink(missing_ok=True)

    @property
    def calls(self) -> int:
        return (self._place / "calls").stat().st_size

    @property
    def deaths(self) -> list[str]:
        path = self._place / "deaths"
        return path.read_text().splitlines() if path.exists() else []

    def each_once(self, act: Callable[[int], None], way: str, step: int = 1) -> None:
        """Do something over and over, each time with another of its calls dying.

        With `step` 4, call 1, 5, 9 … of the first way in `WAYS`, 2, 6, 10 … of the second.
        """
        number = WAYS.index(way) % step + 1
        while True:
            self.set(f"[ $number = {number} ] && how={way}")
            act(number)
            if not self.deaths:
                break
            number += step
        assert number > step
