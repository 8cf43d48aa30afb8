"""`git http-backend`: the environment in which it serves a repository to worker hosts.

The settings are variables of that process, which outrank the files of the repository. git itself
keeps a push in quarantine until its objects are complete and sound, and refuses a reference that
exists. No hook and no housekeeping runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct

from weft.git.git_command import SETTINGS, as_variables, check_output, clean_environment, run
from weft.git.refs import find_commits, list_refs

CANDIDATES: Final = "refs/weft/candidates/"
MOST_PUSHED: Final = 1 << 30  # bytes of a push
MOST_ASKED: Final = 4 << 20  # bytes of a request for objects

_NAME: Final = re.compile(r"refs/weft/candidates/([0-9]{1,18})\.([0-9]{1,9})\.([0-9]{1,18})")
_COMMAND: Final = re.compile(rb"([0-9a-f]{40}(?:[0-9a-f]{24})?) ([0-9a-f]+) ([^\0\n]+)\0[^\0]*\n?")
_SPECIAL: Final = re.compile(rb"000[0-2]")  # flush, delimiter, end
_WANT: Final = b"want "
_WANTED: Final = re.compile(rb"(?:[0-9a-fA-F]{64}|[0-9a-fA-F]{40})(?![0-9a-fA-F])")

_SERVED: Final[Mapping[str, str]] = {
    "http.receivepack": "true",
    "http.getanyfile": "false",
    "receive.fsckObjects": "true",
    "receive.maxInputSize": str(MOST_PUSHED),
    "receive.denyDeletes": "true",
    "receive.denyNonFastForwards": "true",
    "receive.denyCurrentBranch": "refuse",
    "receive.autogc": "false",
    "receive.advertisePushOptions": "false",
    "uploadpack.allowAnySHA1InWant": "true",  # `read_wants` is compared before git reads it
    "uploadpack.allowFilter": "false",
    "safe.bareRepository": "all",
}


class CandidateName(Struct, frozen=True, kw_only=True):
    task: int
    attempt: int
    fence: int

    @property
    def ref(self) -> str:
        return f"{CANDIDATES}{self.task}.{self.attempt}.{self.fence}"


def read_candidate_name(ref: str) -> CandidateName | None:
    match = _NAME.fullmatch(ref)
    if match is None:
        return None
    task, attempt, fence = map(int, match.groups())
    name = CandidateName(task=task, attempt=attempt, fence=fence)
    return name if name.ref == ref else None  # no zeros in front


def read_push(start: bytes) -> tuple[CandidateName, str] | None:
    """Read the only command of a push from the start of its body: a new candidate, and its commit.

    Return None for any other push: several commands, a deletion, a change, another name, a
    certificate.
    """
    length = _packet_length(start)
    match = _COMMAND.fullmatch(start[4:length]) if length else None
    if match is None or start[length : length + 4] != b"0000":
        return None
    old, new, ref = match[1].decode(), match[2].decode(), match[3].decode(errors="replace")
    name = read_candidate_name(ref)
    if name is None or set(old) != {"0"} or len(new) != len(old) or set(new) == {"0"}:
        return None
    return name, new


def read_wants(body: bytes) -> set[str] | None:
    """Return the objects that a request for a pack wants; None if it is not made of packets.

    With version 2 of its protocol, git gives out every object whose id is named.
    """
    wants: set[str] = set()
    start = 0
    while start < len(body):
        length = _read_length(body[start : start + 4])
        end = start + length
        if length > len(_WANT) and body[start + 4 : start + 9] == _WANT:
            match = _WANTED.match(body[start + 9 : min(end, start + 9 + 65)])
            if match is None:
                return None
            wants.add(match[0].decode().lower())
        elif length < 5 and not _SPECIAL.fullmatch(body, start, start + 4):
            return None
        if end > len(body):
            return None
        start = max(end, start + 4)
    return wants


def may_fetch(common: Path, wants: set[str], commits: Iterable[str], refs: Iterable[str]) -> bool:
    """Tell whether all wanted objects are commits that HEAD, a reference or a commit reaches."""
    known = find_commits(common, [*wants, *commits])
    if not wants <= known.keys():
        return False
    head = run(common, "rev-parse", "--quiet", "--verify", "HEAD^{commit}").output.split()
    tips = [*head, *list_refs(common, *refs).values(), *(known.keys() - wants)]
    tips += [commit for commit in commits if commit in wants]
    asked = "".join([*(f"{id}\n" for id in wants), *(f"^{id}\n" for id in tips)])
    beyond = check_output(common, "rev-list", "--max-count=1", "--stdin", input=asked.encode())
    return not beyond.strip()


def _packet_length(start: bytes) -> int:
    """Return the length of the first packet, with its head; 0 without one."""
    length = _read_length(start[:4])
    return length if 4 < length <= len(start) else 0


def _read_length(head: bytes) -> int:
    return int(head, 16) if re.fullmatch(rb"[0-9a-fA-F]{4}", head) else 0


def make_environment(
    common: Path,
    file: str,
    *,
    method: str,
    query: str,
    headers: Mapping[str, str],
    user: str,
    shown: Iterable[str],
) -> dict[str, str]:
    """Return the variables of a request (CGI) for a file of a served repository.

    Only the references below `shown` exist for it. The length of its body is not among the
    variables: a git that expects more than arrives kills its children, which then leave files
    behind.
    """
    hidden = [("transfer.hideRefs", "refs/"), *(("transfer.hideRefs", f"!{ref}") for ref in shown)]
    environment = {
        **clean_environment(),
        **as_variables({**SETTINGS, **_SERVED}, hidden),
        "GIT_HTTP_EXPORT_ALL": "1",
        "GIT_HTTP_MAX_REQUEST_BUFFER": str(MOST_ASKED),
        "PATH_TRANSLATED": f"{common}/{file}",
        "REQUEST_METHOD": method,
        "QUERY_STRING": query,
        "REMOTE_USER": user,
        "REMOTE_ADDR": "",
        "CONTENT_TYPE": headers.get("content-type", ""),
    }
    if headers.get("git-protocol") == "version=2":
        environment["GIT_PROTOCOL"] = "version=2"
    return environment
