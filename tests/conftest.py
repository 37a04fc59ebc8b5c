"""Shared fixtures: running commands in this process or as real processes, and the rule on skipping."""

from __future__ import annotations

import compileall
import importlib
import json
import os
import re
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.ray_cluster import RayCluster

import abreast
from abreast.cli import main
from abreast.redaction import KNOWN_SECRETS

if TYPE_CHECKING:
    from postgres_server import PostgresServer

ABREAST = [sys.executable, "-m", "abreast"]

# Statements that make a store as the fourth format had it.
WITHOUT_VERSION_5 = """
ALTER TABLE trials DROP COLUMN reasoning_tokens; ALTER TABLE attempts DROP COLUMN cost_usd;
ALTER TABLE runs DROP COLUMN in_flight; DROP TABLE artifacts; DROP TABLE judgements; DROP TABLE controls
"""

# With CI=true a skipped test is a failure, unless its reason is one of these.
ALLOWED_SKIPS = (
    "only root can mount",
    "no Chromium on this machine",
    "bubblewrap cannot be installed here",
    "bubblewrap cannot work here: namespaces are forbidden",
)


def pytest_configure(config: pytest.Config) -> None:
    """Compile modules once: tests start hundreds of commands, some of which may not write bytecode."""
    if not hasattr(config, "workerinput"):
        compileall.compile_dir(Path(abreast.__file__).parent, quiet=1, rx=re.compile("/starters/"))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark all but the first combinations of a `matrix` test as heavy."""
    collected: Counter[str] = Counter()
    for item in items:
        matrix = item.get_closest_marker("matrix")
        if matrix is not None:
            test = item.nodeid.partition("[")[0]
            collected[test] += 1
            if collected[test] > matrix.kwargs["quick"]:
                item.add_marker("heavy")


@dataclass(frozen=True)
class Done:
    """Exit code and output of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def output(self) -> str:
        return self.out + self.err


class Folder:
    """A temporary folder in which to run commands."""

    def __init__(self, path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self.path = path
        self._capsys = capsys
        self._monkeypatch = monkeypatch

    def write(self, name: str, content: str | bytes) -> Path:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            path.write_text(textwrap.dedent(content), encoding="utf-8")
        return path

    def cases(self, count: int, name: str = "cases.jsonl", **extra: Any) -> Path:
        """Write a file with this number of cases, whose expected answer is `yes`."""
        lines = [{"id": f"c{n}", "input": f"question {n}", "expected": "yes", **extra} for n in range(count)]
        return self.write(name, "".join(json.dumps(line) + "\n" for line in lines))

    def abreast(self, *words: str) -> Done:
        """Run a command in this process, which is fast."""
        self._monkeypatch.chdir(self.path)
        self._capsys.readouterr()
        try:
            code = main([str(word) for word in words])
        except SystemExit as end:  # argparse
            code = int(end.code or 0)
        caught = self._capsys.readouterr()
        assert "Traceback" not in caught.err, caught.err
        return Done(code, caught.out, caught.err)

    def rerun(self, *words: str) -> Done:
        """Run a command after reloading the modules in the folder, which a test changed."""
        forget(self.path, set())
        return self.abreast(*words)

    def command(self, *words: str, timeout: float = 60, **extra: Any) -> Done:
        """Run the real command in a process."""
        done = subprocess.run(
            [*ABREAST, *map(str, words)], cwd=self.path, capture_output=True, text=True, timeout=timeout, **extra
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start the real command in a process."""
        return subprocess.Popen(
            [*ABREAST, *map(str, words)], cwd=self.path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def sql(self, query: str, store: str = "results.db") -> list[dict[str, Any]]:
        done = self.abreast("sql", "--json", store, query)
        assert done.code == 0, done.err
        rows: list[dict[str, Any]] = done.json
        return rows


@pytest.fixture
def folder(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Folder]:
    before, path = set(sys.modules), list(sys.path)
    monkeypatch.delenv("ABREAST_STORE", raising=False)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # so that edits within a second take effect
    yield Folder(tmp_path, capsys, monkeypatch)
    sys.path[:] = path
    forget(tmp_path, before)  # modules of this test must not serve the next


def forget(path: Path, before: set[str]) -> None:
    """Unload the modules of a folder that were loaded since `before`."""
    importlib.invalidate_caches()
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", None) or "").startswith(str(path)):
            del sys.modules[name]


SIMULATED = """\
name: simulated
cases: cases.jsonl
variants:
  plain: {target: simulated, accuracy: 0.6}
  better: {target: simulated, accuracy: 0.9}
scorers: [exact]
"""


@pytest.fixture
def simulated(folder: Folder) -> Folder:
    """A folder with a simulated experiment of 40 cases and two variants."""
    folder.cases(40)
    folder.write("experiment.yaml", SIMULATED)
    return folder


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    outcome: Any = yield
    report = outcome.get_result()
    if report.skipped and os.environ.get("CI") == "true" and not hasattr(report, "wasxfail"):
        reason = str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr)
        if not any(allowed in reason for allowed in ALLOWED_SKIPS):
            report.outcome = "failed"
            report.longrepr = f"skipped with CI=true, and the reason is not on the allow-list: {reason}"


@pytest.fixture(autouse=True)
def state(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A separate state folder for each test, so that no test cleans up processes that another one killed on purpose."""
    folder = tmp_path_factory.mktemp("state")
    monkeypatch.setenv("ABREAST_STATE", str(folder))
    monkeypatch.setenv("ABREAST_CACHE", str(folder / "cache"))
    return folder


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A PostgreSQL server, one for each worker of pytest-xdist; it starts with the first test that asks for it."""
    from postgres_server import PostgresServer

    with PostgresServer() as server:
        yield server


@pytest.fixture
def postgres(postgres_server: PostgresServer) -> Iterator[str]:
    """The URL of a new and empty PostgreSQL database."""
    url = postgres_server.create_database()
    yield url
    postgres_server.drop_database(url.rpartition("/")[2])


@pytest.fixture(scope="session")
def _session_cluster() -> Iterator[RayCluster]:
    cluster = RayCluster()
    try:
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture
def ray_cluster(_session_cluster: RayCluster) -> RayCluster:
    """A Ray cluster of two nodes, started by the first test of the session that uses it."""
    _session_cluster.restore()
    return _session_cluster


@pytest.fixture(autouse=True)
def _forget_secrets() -> None:
    """Start without the secrets of earlier tests: a process never forgets a value, and tests share values."""
    KNOWN_SECRETS.__init__()  # type: ignore[misc]
