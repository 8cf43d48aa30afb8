"""A repository with a store and agents, served over MCP by a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from attempt.attempt_project import AttemptProject
from forked_python import ForkedPython
from wait_until import PATIENCE, wait_until
from weft.errors import AlreadyEnded
from weft.operations.identity import LOCAL
from weft.operations.inbox import send_message
from weft.process.attempt_files import STDIN
from weft.project.project import Project
from weft.store.tokens import create_token


class ServedProject(AttemptProject):
    """An attempt project with a server."""

    def __init__(self, root: Path, url: str) -> None:
        super().__init__(root, url)
        self.port = 0

    @property
    def mcp(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    def open(self, *, slots: int = 8) -> subprocess.Popen[bytes]:
        """Start a server, where the one before was if there was one."""
        asked = ["serve", "--json", "--bind", f"127.0.0.1:{self.port}", "--slots", str(slots)]
        log = self.root.parent / "server.log"
        log.write_bytes(b"")
        with log.open("ab") as written:
            program = ForkedPython[bytes](
                [sys.executable, "-m", "weft", "-C", str(self.root), *asked],
                env={
                    **self.environment,
                    "PYTHONPATH": os.pathsep.join(sys.path),
                    "WEFT_STORE": self.url,
                    "SHUTDOWN_TIMEOUT": "0",
                    "WEFT_TOKEN": "the user's own",
                },
                stdout=written,
                stderr=written,
            )
        self._engines.append(program)
        wait_until(lambda: b"\n" in log.read_bytes())
        first = json.loads(log.read_bytes().splitlines()[0])
        self.port = int(first["url"].rpartition(":")[2])
        return program

    def project(self) -> Project:
        return Project(
            root=self.root, config=self.config, environment=self.environment, store_url=self.url
        )

    def lead(self) -> None:
        self.agent("lead", front="stage: lead\nsends_to: [scripted, lead]\n")

    def give_token(self, *scopes: str, name: str = "test", tenant: str | None = None) -> str:
        _, text = create_token(self.store, name=name, scopes=scopes, tenant=tenant, now=time.time())
        return text

    def token_of(self, task: int, attempt: int = 1) -> str:
        """The token that an agent was given for an attempt."""
        file = self.directory(task, attempt) / "mcp_token"
        wait_until(file.exists)
        wait_until(lambda: file.stat().st_size > 0)
        return file.read_text()

    def prompt_of(self, task: int, attempt: int) -> str:
        """What an agent was told, as it got it."""
        file = self.directory(task, attempt) / STDIN
        wait_until(file.exists)
        return file.read_text()

    def tell(self, task: int, text: str) -> None:
        with suppress(AlreadyEnded):
            send_message(self.store, LOCAL, text, task=task, now=time.time())

    @asynccontextmanager
    async def over_http(self, token: str, mode: str = "auto") -> AsyncIterator[Tools]:
        headers = {"Authorization": f"Bearer {token}"}
        timeout = httpx2.Timeout(PATIENCE)
        async with (
            httpx2.AsyncClient(headers=headers, timeout=timeout) as client,
            Client(streamable_http_client(self.mcp, http_client=client), mode=mode) as found,
        ):
            yield Tools(found)

    @asynccontextmanager
    async def over_stdio(self, *arguments: str, **environment: str) -> AsyncIterator[Tools]:
        parameters = StdioServerParameters(
            command=sys.executable,
            args=["-m", "weft", "-C", str(self.root), "mcp", *arguments],
            env={
                **self.environment,
                "WEFT_STORE": self.url,
                "PYTHONPATH": os.pathsep.join(sys.path),
                **environment,
            },
        )
        async with Client(stdio_client(parameters)) as found:
            yield Tools(found)


class Tools:
    """The tools as a client of the SDK's has them."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def __call__(self, tool: str, **given: Any) -> dict[str, Any]:
        """The fields of an answer."""
        result = await self.client.call_tool(tool, given)
        assert not result.is_error, result.content
        said, fields = [getattr(one, "text", "") for one in result.content]
        assert said.endswith(".")
        assert "\n" not in said
        assert json.loads(fields) == result.structured_content
        found: dict[str, Any] = json.loads(fields)
        return found

    async def refused(self, tool: str, **given: Any) -> str:
        """The sentence with which a call is refused."""
        result = await self.client.call_tool(tool, given)
        assert result.is_error, result.content
        [said] = result.content
        text = getattr(said, "text", "")
        assert text.endswith((".", "!"))
        assert "\n" not in text
        assert "Traceback" not in text
        return str(text)


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedProject]:
    """One for all tests, which keep to tasks of their own: a server takes seconds to start."""
    place = tmp_path_factory.mktemp("project")
    with made_in(place) as made:
        made.open()
        yield made


@contextmanager
def made_in(place: Path) -> Iterator[ServedProject]:
    """A project whose server is not open yet."""
    made = ServedProject(place / "project", f"sqlite:///{place / 'store' / 'weft.db'}")
    made.tune("", lead_turns=3)
    made.lead()
    try:
        yield made
    finally:
        made.close()


def lines(*script: str) -> str:
    """The text of a task for the scripted agent."""
    return "\n".join(f"script: {line}" for line in script)


def call(tool: str, **given: object) -> str:
    """A line by which the scripted agent calls a tool."""
    return f"call {tool} {json.dumps(given)}"


def names(found: Sequence[dict[str, Any]]) -> list[str]:
    return [str(one["name"]) for one in found]
