"""Stores whose address is a URL: everything that works with a file works there, and no password is shown or kept."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from abreast import Experiment, Reader, Tracker
from abreast.errors import BadInput
from abreast.store import open_store
from abreast.store.address import hide_password, without_password
from conftest import Done, Folder
from packages import install
from postgres_server import PostgresServer

PASSWORD = "hunter2"  # too short to be recognised as a secret in a text
SERVER = f"""
import os
from pathlib import Path
from urllib.parse import urlsplit

from abreast.errors import StoreError
from abreast.store.sqlite.store import SQLiteStore
from abreast.store.address import without_password
from abreast.store.user_state.quota_ledger import FileLedger

class ServerStore(SQLiteStore):
    engine = "server"

    def __init__(self, address):
        parts, self.disk = urlsplit(address), Path(os.environ["SERVER_DISK"])
        if parts.password != "{PASSWORD}":
            raise StoreError(f"{{without_password(address)}}: wrong password for {{parts.username}}")
        super().__init__(str(self.disk / parts.path.strip("/")))
        self.address, self.folder = without_password(address), Path.cwd()

    def anchor(self):
        pass

    def identity(self):
        return self.address

    def quota_ledger(self):
        return FileLedger(self.disk / "quota")
"""
SPEC = """
name: urls
cases: cases.jsonl
variants: {one: {accuracy: 1.0}, two: {accuracy: 0.0}}
target: simulated
scorers: [exact]
store: STORE
"""


class Model:
    def __init__(self, weight: int) -> None:
        self.weight = weight


class Server(Folder):
    """A folder to work in, and databases that are elsewhere."""

    base: str  # URL of a database, without its name
    outputs: list[str]

    def url(self, database: str = "team") -> str:
        return f"{self.base}/{database}"

    def login(self, database: str = "team") -> str:
        return self.url(database).replace("@", f":{PASSWORD}@")

    def abreast(self, *words: str) -> Done:
        done = super().abreast(*words)
        self.outputs.append(done.output)
        return done

    def ok(self, *words: str) -> Done:
        done = self.abreast(*words)
        assert done.code == 0, done.output
        return done


@pytest.fixture
def toy(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Server:
    """The engine of a package for server://, whose databases are files elsewhere."""
    (tmp_path / "work").mkdir()
    (tmp_path / "disk").mkdir()
    site = Folder(tmp_path, capsys, monkeypatch)
    install(site, "servers", {"abreast.stores": {"server": "servers:ServerStore"}})
    site.write("site/servers.py", SERVER)
    monkeypatch.setenv("SERVER_DISK", str(tmp_path / "disk"))
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    sys.modules.pop("servers", None)
    server = Server(tmp_path / "work", capsys, monkeypatch)
    server.outputs = []
    server.base = f"server://ann@{tmp_path.name}"
    return server


@pytest.fixture(params=["server", "postgres"])
def server(request: pytest.FixtureRequest, toy: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """Both engines whose addresses are URLs. At the end, the password may be in no file, row or output."""
    if request.param == "postgres":
        postgres: PostgresServer = request.getfixturevalue("postgres_server")
        toy.base = postgres.url("", user="ann", password="").replace(":@", "@").rstrip("/")
        databases = create_databases(postgres)
    monkeypatch.chdir(toy.path)
    toy.cases(4)
    yield toy
    assert PASSWORD not in "".join(toy.outputs)
    top = toy.path.parent
    written = [path for path in top.rglob("*") if path.is_file() and not path.is_relative_to(top / "site")]
    assert [path for path in written if PASSWORD.encode() in path.read_bytes()] == []
    if request.param == "postgres":
        for name in databases:
            with postgres.connect(name) as connection:
                for (table,) in connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'abreast'"):
                    rows = connection.execute(f'SELECT t::text FROM abreast."{table}" t').fetchall()
                    assert PASSWORD not in repr(rows)
            postgres.drop_database(name)


def create_databases(postgres: PostgresServer) -> tuple[str, ...]:
    """Create the databases that the tests use, with an owner who logs in by password."""
    names = ("team", "other", "third", "none")
    with postgres.connect() as connection:
        if not connection.execute("SELECT 1 FROM pg_roles WHERE rolname = 'ann'").fetchall():
            connection.execute(f"CREATE ROLE ann LOGIN PASSWORD '{PASSWORD}'")
    for name in names:
        postgres.drop_database(name)
        postgres.create_database(name)
        with postgres.connect() as connection:
            connection.execute(f"ALTER DATABASE {name} OWNER TO ann")
    return names


def started(server: Server) -> str:
    """Run an experiment and return the name of the run."""
    server.write("spec.yaml", SPEC.replace("STORE", server.login()))
    done = server.abreast("run", "spec.yaml", "--json")
    assert done.code == 0, done.output
    (server.path / "spec.yaml").unlink()  # the only file that may contain the password
    summary: dict[str, Any] = done.json[0]
    assert summary["store"] == server.url()
    return str(summary["run"])


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_a_run_is_stored_reported_and_deleted(server: Server) -> None:
    run = started(server)
    assert files(server.path) == {"cases.jsonl", f"runs/{run}/report.html", f"runs/{run}/.abreast.json"}
    for words in (
        ("runs", "--store", server.url()),
        ("report", "--store", server.url()),
        ("report", "--store", server.url(), "--format", "json"),
        ("logs", "--store", server.url()),
        ("validate", "--store", server.url()),
        ("ls", server.url()),
        ("head", server.url()),
        ("tail", server.url()),
        ("columns", server.url()),
        ("stats", server.url()),
        ("export", "--store", server.url(), "--output", "rows.csv"),
        ("show", "latest", "c0", "--store", server.url()),
        ("report", "--store", server.url(), "--format", "html", "--output", "elsewhere"),
    ):
        server.ok(*words)
    assert server.sql("select count(*) as trials from predictions", server.url()) == [{"trials": 8}]
    (spec,) = server.sql("select spec from runs", server.url())
    assert json.loads(spec["spec"])["store"] == server.url()
    done = server.ok("delete", server.url(), run, "--yes")
    assert f"removed runs/{run} with its report" in done.output
    assert not (server.path / "runs").exists()


def test_an_incomplete_run_is_resumed_and_the_suggested_command_names_the_store(server: Server, state: Path) -> None:
    server.write("spec.yaml", SPEC.replace("STORE", server.login()) + "limits: {quota: 3/1h}\n")
    done = server.abreast("run", "spec.yaml", "--on-quota", "stop")
    assert done.code == 3
    assert f"--store {server.url()}" in done.output
    assert not (state / "quota.db").exists(), "the store decides where quotas are counted"
    (server.path / "spec.yaml").unlink()
    done = server.abreast("resume", "--store", server.url(), "--on-quota", "stop")
    assert (done.code, "quota of 3 in 1 h is used up" in done.err) == (3, True)
    assert server.sql("select count(*) as trials from predictions", server.url()) == [{"trials": 3}]


def test_an_experiment_in_python_returns_the_url_of_its_store(server: Server) -> None:
    cases = [{"id": "a", "input": "x", "expected": "x"}]
    experiment = Experiment(name="x", cases=cases, variants={"one": {}}, target="simulated", store=server.login())
    assert experiment.spec.store == experiment.store_path == server.url()
    result = experiment.run()
    assert result.store == server.url()
    assert len(result.rows()) == 1
    assert PASSWORD not in repr(experiment.spec) + repr(result)


def test_the_environment_can_name_the_store(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    run = started(server)
    monkeypatch.setenv("ABREAST_STORE", server.login())
    done = server.ok("runs")
    assert run in done.out
    done = server.ok("report")
    assert "--store" not in done.output, "the variable names it"
    done = server.abreast("delete", run)
    assert "needs --yes" in done.err
    assert "--store" not in done.err


def test_a_suggested_command_takes_the_password_from_the_environment(server: Server) -> None:
    run = started(server)
    site = str(server.path.parent / "site")
    environment = {**os.environ, "PYTHONPATH": site, "ABREAST_STORE": server.login()}
    done = server.command("runs", "--store", server.url(), env=environment)
    assert run in done.out
    done = server.command("runs", "--store", server.url(), env={**os.environ, "PYTHONPATH": site})
    assert server.url() in done.err
    assert "password" in done.err


def test_an_agent_does_not_inherit_the_store(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ABREAST_STORE", server.login())
    server.write(
        "spec.yaml",
        """
        cases: cases.jsonl
        variants: {one: {command: 'env | grep -c ABREAST_STORE || true'}}
        target: command
        params: {shell: true}
        """,
    )
    done = server.abreast("run", "spec.yaml")
    answers = server.sql("select answer from predictions", server.url())
    assert {row["answer"] for row in answers} == {"0"}, done.output


def test_a_tracker_stores_rows_objects_and_cached_results(server: Server) -> None:
    def predict(x: int) -> dict[str, Any]:
        return {"double": 2 * x}

    def is_cached(tracker: Tracker, x: int) -> bool:
        assert tracker.track(predict, [x])["double"] == 2 * x
        return tracker.latest["cache"] is not None

    with Tracker(server.login(), cache="cache") as tracker:
        assert [is_cached(tracker, n) for n in (1, 2, 1)] == [False, False, True]
        tracker.log({"model": Model(3)})
        assert tracker.db == server.url()
        assert server.url() in repr(tracker)
        assert PASSWORD not in repr(tracker) + repr(vars(tracker))
    reader = Reader(server.url())
    assert reader.count() == 4
    assert reader.db == server.url()
    (digest,) = reader.assets
    assert reader.get(digest).weight == 3
    assert digest in server.ok("assets", "ls", server.url()).out
    server.ok("assets", "export", server.url(), digest, "model.pickle")
    assert 'no object "x"' in server.abreast("assets", "export", server.url(), "x", "other.pickle").err
    assert server.url() in server.ok("cache", "ls", "cache", "--json").out
    with Tracker(server.url(), cache=server.path / "cache") as again:
        assert is_cached(again, 2)
    server.ok("sql", server.url(), f"delete from predictions where track_id = '{tracker.track_id}' and x = 1")
    with Tracker(server.url(), cache=server.path / "cache") as again:
        assert [is_cached(again, n) for n in (1, 2)] == [False, True], "deleting a row also forgets its result"
    server.ok("delete", server.url(), tracker.track_id, "--yes")
    server.ok("assets", "delete", server.url(), digest, "--yes")
    assert len(reader.assets) == 0


def test_a_tracker_in_memory_leaves_the_connection_to_a_server_open(server: Server) -> None:
    tracker = Tracker(server.login())
    tracker.log({"number": 1})
    Tracker(":memory:").log({"number": 2})
    tracker.log({"number": 3})
    assert len(tracker) == 2


def test_stores_are_copied_and_merged_from_and_to_a_url(server: Server) -> None:
    run = started(server)
    with Tracker(server.url()) as tracker:
        tracker.log({"model": Model(3)})
    done = server.ok("copy", server.login(), "local.duckdb")
    assert done.out.startswith(f"{server.url()} → local.duckdb: 1 run, 8 trials")
    done = server.ok("copy", "local.duckdb", server.login("other"))
    assert done.out.startswith(f"local.duckdb → {server.url('other')}: 1 run, 8 trials")
    assert len(Reader(server.url("other")).assets) == 1
    assert "nothing new" in server.ok("merge", "local.duckdb", server.url("other"), "--into", server.login()).out
    done = server.abreast("copy", server.login(), server.url())
    assert f"{server.url()}: cannot copy a store into itself" in done.err
    (merged,) = server.ok("copy", server.url(), server.login("third"), "--json").json
    assert (merged["source"], merged["runs"]) == (server.url(), [run])


def test_runs_of_the_same_name_keep_their_reports_apart(server: Server) -> None:
    run, other = started(server), server.url("other")
    server.ok("copy", server.url(), server.login("other"))
    server.ok("copy", server.url(), "results.db")
    pages = {}
    for store in (server.url(), other, "results.db"):
        done = server.ok("report", "--store", store, "--format", "html")
        pages[store] = Path(done.out.strip())
    assert pages[server.url()].parent == Path("runs", run)
    assert len({page.parent for page in pages.values()}) == 3
    for store, page in pages.items():
        assert page.exists()
        server.ok("delete", store, run, "--yes")
        assert not page.exists()
    assert not (server.path / "runs").exists()


def test_a_store_that_does_not_exist_or_cannot_be_opened_is_named_without_its_password(server: Server) -> None:
    done = server.abreast("runs", "--store", server.login("none"))
    assert (done.code, f"{server.url('none')}: no such store" in done.err) == (2, True)
    done = server.abreast("runs", "--store", server.login().replace(PASSWORD, "mistyped"))
    assert (done.code, server.url() in done.err, "mistyped" in done.output) == (2, True, False)
    done = server.abreast("runs", "--store", f"unknown://ann:{PASSWORD}@host/team")
    assert "unknown://ann@host/team" in done.err
    assert "no engine for unknown:// addresses" in done.err
    assert "the query is missing" in server.abreast("sql", server.login()).err
    assert "unrecognized arguments" in server.abreast("runs", server.login()).err
    assert server.abreast("copy", server.login()).code == 2
    with pytest.raises(BadInput, match="not a file, as SQLite needs"):
        open_store("postgresql://host/db", "sqlite")
    server.write("spec.yaml", SPEC.replace("STORE", server.login()) + "limits: 3\n")
    assert server.abreast("run", "spec.yaml").code == 2
    (server.path / "spec.yaml").unlink()


def test_postgres_needs_psycopg(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    for scheme in ("postgres", "postgresql"):
        done = server.abreast("runs", "--store", f"{scheme}://ann:{PASSWORD}@host/db")
        assert "postgresql://ann@host/db needs psycopg" in done.err
        assert "pip install 'abreast[postgres]'" in done.err
    with pytest.raises(BadInput, match="not the address of a PostgreSQL database"):
        open_store("results.db", "postgres")


@pytest.mark.parametrize("password", ["hun/ter2", "hun@ter2", "hun%ter2", "hun ter2"])
def test_a_password_that_is_not_escaped_is_refused_without_showing_it(toy: Server, password: str) -> None:
    done = toy.abreast("runs", "--store", f"postgresql://ann:{password}@127.0.0.1:1/db")
    assert 'store "postgresql://ann@127.0.0.1:1/db": special characters in the password' in done.err
    assert "percent-encode it" in done.err
    assert "ter2" not in done.output


def test_a_url_with_one_slash_is_refused_without_showing_its_password(toy: Server) -> None:
    for address in ("postgresql:/ann:hunter2@host/db", Path("postgres://ann:hunter2@host/db")):
        with pytest.raises(BadInput, match="begins with postgresql://") as refusal:
            Tracker(address)
        assert PASSWORD not in str(refusal.value)


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("results.db", "results.db"),
        ("postgresql://host/db", "postgresql://host/db"),
        ("postgresql://ann@host:5432/db?sslmode=require", "postgresql://ann@host:5432/db?sslmode=require"),
        ("postgresql://ann:pw@host/db", "postgresql://ann@host/db"),
        ("postgresql://ann:@host/db", "postgresql://ann@host/db"),
        ("postgresql://ann:p%40w@h1:1,h2:2/db", "postgresql://ann@h1:1,h2:2/db"),
        ("postgresql://ann:p@w@host/db", "postgresql://ann@host/db"),
        ("postgresql://ann:p/w@host/db", "postgresql://ann@host/db"),
        ("postgresql://ann:p?w#@host/db", "postgresql://ann@host/db"),
        ("postgresql://[::1]:5432/a@b", "postgresql://[::1]:5432/a@b"),
        ("postgresql:///db?host=/run&user=ann&password=pw", "postgresql:///db?host=/run&user=ann"),
        ("postgresql://ann@host?Pass%77ord=pw", "postgresql://ann@host"),
        ("postgresql://ann@host/db?sslpassword=pw&sslkey=k", "postgresql://ann@host/db?sslkey=k"),
    ],
)
def test_a_password_is_removed_from_an_address(address: str, shown: str) -> None:
    assert without_password(address) == shown == without_password(shown)
    assert hide_password(address.replace("postgresql", "postgres", 1)) == shown


def test_a_long_password_is_a_secret_everywhere(toy: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(toy.path)
    Tracker(f"{toy.login()}?password=Tr0ub4dor%26three").log({"text": "it is Tr0ub4dor&three"})
    assert list(Reader(toy.url()).to_df()["text"]) == ["it is [STORE_PASSWORD]"]
