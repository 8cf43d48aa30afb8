"""`weft publish`: push the branch of a run, and open or update its pull request."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from enum import StrEnum

from msgspec import Struct
from msgspec.structs import replace

from weft import git
from weft.errors import InputError, Refused
from weft.forge.forge_command import PAUSES, be_patient, call
from weft.forge.forge_tools import GH, GLAB, ForgeTool, Proposal, PullRequest, ToolCall
from weft.forge.request_body import make_body, make_title
from weft.gate.proof import verify
from weft.gate.trunk import ref_name
from weft.git.remotes import find_remote_of, list_remotes, push
from weft.model import Run
from weft.project.project import Project
from weft.runs.progress import read_progress
from weft.store import Store
from weft.store.gate import find_landed


class PublishKind(StrEnum):
    OPENED = "opened"
    UPDATED = "updated"
    MERGED = "merged"  # on the forge already; nothing was done
    HANDED_OVER = "handed_over"  # to the command of [publish]


class Publication(Struct, frozen=True, kw_only=True):
    """The result of `weft publish`."""

    run: str
    kind: PublishKind
    head: str  # the pushed branch
    base: str
    commit: str
    number: int | None = None
    url: str | None = None
    output: str = ""  # of the command of [publish]


class _Publisher(Struct, frozen=True, kw_only=True):
    """The user's tools at work for a run."""

    project: Project
    run: str
    remote: str
    commit: str
    proposal: Proposal
    pauses: Sequence[float]

    def push(self) -> None:
        head = self.proposal.head
        try:
            be_patient(
                lambda: push(self.project.root, self.remote, self.commit, head),
                pauses=self.pauses,
            )
        except git.GitFailed as error:
            raise Refused(f"{head} was not pushed: {error}") from error

    def call(self, called: ToolCall) -> str:
        return call(
            called,
            directory=self.project.root,
            environment=self.project.environment,
            pauses=self.pauses,
        )

    def publication(self, kind: PublishKind, request: PullRequest | None = None) -> Publication:
        return Publication(
            run=self.run,
            kind=kind,
            head=self.proposal.head,
            base=self.proposal.base,
            commit=self.commit,
            number=None if request is None else request.number,
            url=None if request is None else request.url,
        )


def publish_run(
    project: Project, store: Store, run: Run, base: str, *, pauses: Sequence[float] = PAUSES
) -> Publication:
    """Push the branch of a run and open or update its pull request onto `base`.

    Each step may be repeated: a call that was cut short is completed by the same call again.
    """
    commit = find_landed(store, run.id)
    if commit is None:
        raise InputError(f"Run {run.id} has landed nothing, so there is nothing to publish.")
    remote = find_remote_of(project.root, base)
    if remote is None:
        raise InputError("The repository has no remote to push to; `git remote add origin URL`.")
    progress = read_progress(store, run.id)
    proof = verify(store, project.root, run.id)
    hide = store.redactor.redact_text
    publisher = _Publisher(
        project=project,
        run=run.id,
        remote=remote,
        commit=commit,
        proposal=Proposal(
            title=hide(make_title(progress)),
            body=hide(make_body(progress, proof)),
            base=base,
            head=ref_name(run.id),
        ),
        pauses=pauses,
    )
    command = project.config.publish.command
    if command is not None:
        return _hand_over(publisher, command)
    return _propose(publisher, _choose_tool(project, list_remotes(project.root)[remote]))


def _hand_over(publisher: _Publisher, command: tuple[str, ...]) -> Publication:
    """Push, and give title, body, base and head to the command of [publish] as arguments."""
    publisher.push()
    new = publisher.proposal
    # A title comes from a plan or an issue; with a dash in front the command would read an option.
    title = f"Run {publisher.run}: {new.title}" if new.title.startswith("-") else new.title
    output = publisher.call(ToolCall(argv=(*command, title, new.body, new.base, new.head)))
    return replace(publisher.publication(PublishKind.HANDED_OVER), output=output)


def _propose(publisher: _Publisher, tool: ForgeTool) -> Publication:
    new = publisher.proposal
    requests = _list_requests(publisher, tool)
    opened = next((request for request in requests if request.state == "open"), None)
    if opened is not None:
        publisher.push()
        publisher.call(tool.update(opened.number, new))
        return publisher.publication(PublishKind.UPDATED, opened)
    last = max(requests, key=lambda request: request.number, default=None)
    if last is not None and last.state == "closed":
        raise Refused(
            f"A person closed the pull request {last.url} of run {publisher.run}; nothing was "
            f"pushed. `{tool.reopen} {last.number}` opens it again, then publish."
        )
    if last is not None and last.state == "merged" and last.head == publisher.commit:
        return publisher.publication(PublishKind.MERGED, last)
    publisher.push()
    publisher.call(tool.create(new))
    requests = [request for request in _list_requests(publisher, tool) if request.state == "open"]
    return publisher.publication(PublishKind.OPENED, requests[0] if requests else None)


def _list_requests(publisher: _Publisher, tool: ForgeTool) -> list[PullRequest]:
    new = publisher.proposal
    return tool.read_requests(publisher.call(tool.list_requests(new.head, new.base)))


def _choose_tool(project: Project, address: str) -> ForgeTool:
    path = project.environment.get("PATH")
    tools = [GLAB, GH] if "gitlab" in address else [GH, GLAB]
    for tool in tools:
        if shutil.which(tool.name, path=path):
            return tool
    raise InputError(
        f"{tools[0].name} is not on the PATH; install it and log in, or name a command under "
        "[publish] in weft.toml."
    )
