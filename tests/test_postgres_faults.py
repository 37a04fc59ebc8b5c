"""Runs on a PostgreSQL server that fails: nothing is lost, duplicated or paid for twice.

A real server, real processes and signals, and a network that can be cut. A file to which the target appends a line for
every call tells what was executed.
"""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from conftest import Folder
from faulty_link import FaultyLink
from postgres_server import HOST, PostgresServer
from test_durability import calls, ended, every_trial_once, experiment, until

CASES, PARALLEL = 60, 4
TABLES = ("trials", "payloads", "attempts", "scores", "judgements", "variants", "cases", "runs")
FLAKY = """
from abreast.errors import Transient
from mine import note
import time
seen = set()

def answer(case, seconds=0.0, who=""):
    note("calls.txt", case.id + " " + who)
    time.sleep(seconds)
    if case.id.endswith("3") and (case.id, who) not in seen:
        seen.add((case.id, who))
        raise Transient("once more", retry_after=0.01)
    return "yes"
"""


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A durable server that these tests may kill."""
    with PostgresServer(fsync=True) as server:
        yield server


@pytest.fixture
def url(server: PostgresServer) -> str:
    return server.create_database()


@pytest.fixture
def link(server: PostgresServer) -> Iterator[FaultyLink]:
    with FaultyLink(HOST, server.port) as link:
        yield link


def flaky(folder: Folder, seconds: float = 0.05, cases: int = CASES) -> str:
    """Write an experiment of which every tenth case is tried twice."""
    spec = experiment(folder, seconds=seconds, cases=cases, parallel=PARALLEL)
    folder.write("flaky.py", FLAKY)
    path = folder.path / spec
    path.write_text(path.read_text().replace("python:mine:", "python:flaky:").replace("store: results.db\n", ""))
    return spec


def counts(folder: Folder, store: str) -> dict[str, int]:
    """Number of rows by table, and of events by kind."""
    rows = " union all ".join(f"select '{table}' as what, count(*) as n from {table}" for table in TABLES)
    counts = {row["what"]: row["n"] for row in folder.sql(rows, store)}
    events = folder.sql("select kind, count(*) as n from events group by kind", store)
    of_outages = ("store_lost", "store_back")
    return counts | {row["kind"]: row["n"] for row in events if row["kind"] not in of_outages}


def duplicates(folder: Folder, store: str) -> list[dict[str, Any]]:
    of_events = "select 1 from events group by run_id, happened_at, kind, detail having count(*) > 1"
    of_attempts = "select 1 from attempts group by run_id, position, attempt having count(*) > 1"
    return folder.sql(f"{of_events} union all {of_attempts}", store)


def assert_as_on_sqlite(folder: Folder, spec: str, store: str) -> None:
    """Check that the run stored the same rows as one on SQLite, which nothing disturbed."""
    every_trial_once(folder, store, CASES)
    assert len(calls(folder)) == 2 * CASES + 2 * CASES // 10
    done = folder.command("run", spec, "--store", "undisturbed.db", "--quiet")
    assert done.code == 0, done.err
    assert counts(folder, store) == counts(folder, "undisturbed.db")
    assert duplicates(folder, store) == []


class Faults:
    """What happens to a server, its network or its sessions."""

    def __init__(self, server: PostgresServer, link: FaultyLink, database: str) -> None:
        self._server, self._link, self._database = server, link, database

    def restart(self, mode: str) -> None:
        self._server.stop(mode)
        time.sleep(0.3)
        self._server.start()

    def kill(self) -> None:
        self._server.kill()
        self._server.start()

    def cut(self) -> None:
        self._link.cut()
        time.sleep(1.0)
        self._link.restore()

    def freeze(self) -> None:
        self._link.freeze()
        time.sleep(1.0)
        self._link.restore()

    def terminate(self) -> None:
        query = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s"
        for _ in range(30):
            with self._server.connect() as connection:
                connection.execute(query, (self._database,))
            time.sleep(0.03)

    def lose_commits(self) -> None:
        self._link.lose_replies(b"COMMIT\0", 5)
        until(lambda: not self._link.replies_to_lose, "the replies were lost")


FAULTS: dict[str, Callable[[Faults], None]] = {
    "lost reply to COMMIT": Faults.lose_commits,
    "terminated sessions": Faults.terminate,
    "network cut": Faults.cut,
    "network frozen": Faults.freeze,
    "fast restart": lambda faults: faults.restart("fast"),
    "immediate restart": lambda faults: faults.restart("immediate"),
    "kill -9": Faults.kill,
}


@pytest.mark.heavy
@pytest.mark.parametrize("fault", FAULTS)
def test_a_run_survives_faults_and_stores_the_same_rows_as_on_sqlite(
    folder: Folder, server: PostgresServer, link: FaultyLink, url: str, fault: str
) -> None:
    spec = flaky(folder)
    faults = Faults(server, link, url.rpartition("/")[2])
    process = folder.start("run", spec, "--store", link.url(url))
    for enough in (10, 60):
        until(lambda n=enough: len(calls(folder)) >= n, "some calls", process)  # type: ignore[misc]
        FAULTS[fault](faults)
    done = ended(process, 90)
    assert done.code == 0, done.err
    assert_as_on_sqlite(folder, spec, url)


def lines_until(process: subprocess.Popen[str], text: str) -> list[str]:
    """Read what a process says until a line with this text."""
    assert process.stderr is not None
    lines = []
    for line in process.stderr:
        lines.append(line)
        if text in line:
            return lines
    raise AssertionError(f"ended before {text!r}: {lines}")


@pytest.mark.heavy
@pytest.mark.parametrize("fault", ["cut", "freeze"])
def test_an_interrupt_during_an_outage_ends_the_run_and_resume_completes_it(
    folder: Folder, link: FaultyLink, url: str, fault: str
) -> None:
    spec = flaky(folder)
    process = folder.start("run", spec, "--store", link.url(url))
    until(lambda: len(calls(folder)) >= 20, "some calls", process)
    getattr(link, fault)()
    lines_until(process, "paused: ")
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    done = ended(process, 100)
    print(time.monotonic() - began)
    print(done.err)
    link.restore()
    assert done.code != 0
    assert "abreast resume" in done.err
    assert time.monotonic() - began < 50
    done = folder.command("resume", "--store", url)
    assert done.code == 0, done.err
    every_trial_once(folder, url, CASES)
    assert duplicates(folder, url) == []
