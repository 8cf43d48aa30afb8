from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import ExitStack

import pytest

from hosts.host_observer import ObservedHosts, observed_hosts


class SharedHosts:
    """The hosts of the tests of this process; hosts that a failed test left busy are replaced."""

    def __init__(self, factory: pytest.TempPathFactory) -> None:
        self._factory = factory
        self._stack = ExitStack()
        self._hosts: ObservedHosts | None = None

    def get(self) -> ObservedHosts:
        if self._hosts is not None and not self._hosts.is_quiet():
            self.close()
        if self._hosts is None:
            place = self._factory.mktemp("hosts")
            self._hosts = self._stack.enter_context(observed_hosts(place))
        self._hosts.hold_back()
        return self._hosts

    def close(self) -> None:
        self._stack.close()
        self._hosts = None


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedHosts]:
    hosts = SharedHosts(tmp_path_factory)
    yield hosts
    hosts.close()


@pytest.fixture
def hosts(shared: SharedHosts) -> ObservedHosts:
    """Three hosts at work, without tasks."""
    return shared.get()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the state of the hosts to the report of a test that failed."""
    report = yield
    given = [*getattr(item, "funcargs", {}).values()]
    hosts = next((value for value in given if isinstance(value, ObservedHosts)), None)
    if report.failed and hosts is not None:
        report.sections.append(("hosts", hosts.describe()))
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """End the hosts after the last test on them: idle hosts still send signs of life."""
    given = getattr(item, "funcargs", {}).get("shared")
    yield
    if given is not None and (nextitem is None or nextitem.path.parent != item.path.parent):
        given.close()
