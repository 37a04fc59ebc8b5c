"""Environments: what the `setup:` command of a workspace installs, made once and given to every workspace.

The command runs in a checkout of its own in the user's cache folder. What it leaves there that is no file of the
commit, such as `.venv` or `node_modules`, is copied into each workspace, so that no trial sees what another one
installed. Virtual environments cannot be moved: text files that name the checkout, such as the scripts of a virtual
environment and the links of an editable installation, are rewritten to name the workspace. Commits with the same
dependency files share an environment.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from abreast.digest import compose
from abreast.redaction import redact_log
from abreast.store.user_state.folders import cache_folder
from abreast.targets.workspace.files.directories import NoWorkspace, remove_tree, walk

SETUP_S = 1800.0
LARGEST_TEXT = 1_000_000  # bytes of a file that may name the checkout
REVISION = 1
LOCK_FILE = re.compile(
    r"(?:^|/)(?:[^/]+\.lock|[^/]*-lock\.(?:json|ya?ml)|npm-shrinkwrap\.json|bun\.lockb|go\.sum|gradle\.lockfile"
    r"|\.terraform\.lock\.hcl)$",
    re.I,
)
MANIFEST = re.compile(
    r"(?:^|/)(?:pyproject\.toml|setup\.(?:py|cfg)|[^/]*requirements[^/]*\.(?:txt|in)|requirements/[^/]+\.(?:txt|in)"
    r"|Pipfile|tox\.ini|environment\.ya?ml|package\.json|Cargo\.toml|rust-toolchain(?:\.toml)?|go\.mod|Gemfile"
    r"|[^/]+\.gemspec|pom\.xml|(?:build|settings)\.gradle(?:\.kts)?|gradle-wrapper\.properties|libs\.versions\.toml"
    r"|composer\.json|mix\.exs|pubspec\.yaml|[^/]+\.csproj|Directory\.Packages\.props|(?:[^/]+\.)?Dockerfile"
    r"|docker-compose\.ya?ml|\.(?:python-version|nvmrc|node-version|ruby-version|tool-versions))$",
    re.I,
)
_VIRTUAL = ("VIRTUAL_ENV", "PYTHONHOME", "PYTHONPATH")  # of abreast's own environment
_VENVS = (".venv", "venv", "env", ".env")


class SetupFailed(NoWorkspace):
    """The `setup:` command of a workspace failed. No agent's fault."""


@dataclass(frozen=True, slots=True)
class Environment:
    """What a setup left: the folder where it ran, paths that it made there, and those of them that name the folder."""

    folder: str
    entries: tuple[str, ...] = ()
    rewritten: tuple[str, ...] = ()

    def add_to(self, checkout: Path) -> None:
        """Put it into a checkout that is copied for trials, where git ignores it."""
        for name in self.entries:
            source, target = Path(self.folder) / name, checkout / name
            if os.path.lexists(target):  # another commit has it
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir() and not source.is_symlink():
                shutil.copytree(source, target, symlinks=True, copy_function=_link)
            else:
                _link(str(source), str(target))
        exclude = checkout / ".git" / "info" / "exclude"
        exclude.parent.mkdir(exist_ok=True)
        with exclude.open("a", encoding="utf-8") as rules:
            rules.writelines(f"/{name}\n" for name in self.entries)

    def place(self, work: Path) -> None:
        """Make what names the folder of the setup name the workspace."""
        for name in self.rewritten:
            source, target = Path(self.folder) / name, work / name
            if source.is_symlink():
                to = str(source.readlink()).replace(self.folder, str(work), 1)
                target.unlink(missing_ok=True)
                target.symlink_to(to)
            elif target.is_file() and not target.is_symlink():
                content = source.read_bytes().replace(os.fsencode(self.folder), os.fsencode(work))
                target.unlink()
                target.write_bytes(content)
                shutil.copymode(source, target)


def variables(work: Path, given: Mapping[str, str]) -> dict[str, str]:
    """Variables of an environment in a workspace, instead of those given: its programs come first."""
    venv = next((work / name for name in _VENVS if (work / name / "pyvenv.cfg").is_file()), None)
    folders = [] if venv is None else [str(venv / "bin")]
    folders += [str(work / "node_modules" / ".bin")] if (work / "node_modules" / ".bin").is_dir() else []
    if not folders:
        return dict(given)
    kept = {name: value for name, value in given.items() if venv is None or name != "PYTHONHOME"}
    path = os.pathsep.join([*folders, given.get("PATH", os.defpath)])
    return {**kept, "PATH": path, **({} if venv is None else {"VIRTUAL_ENV": str(venv)})}


def is_dependency_file(path: str) -> bool:
    """Whether a file says what a project depends on.

    >>> [is_dependency_file(path) for path in ("requirements/dev.txt", "web/package-lock.json", "src/app.py")]
    [True, True, False]
    """
    return MANIFEST.search(path) is not None or LOCK_FILE.search(path) is not None


def environment_key(words: Sequence[str], dependencies: str) -> str:
    """What an environment depends on: the command, the dependency files, and the machine."""
    programs = [shutil.which(name) or "" for name in (words[0], "python3", "node")]
    real = [str(Path(program).resolve()) if program else "" for program in programs]
    machine = (platform.system(), platform.machine(), platform.release() if sys.platform == "darwin" else "")
    files = [_file_digest(Path(word)) for word in words if word.startswith("/")]
    return compose(REVISION, len(words), *words, dependencies, *machine, *real, *files)


def _file_digest(path: Path) -> str:
    if not path.is_file():
        return ""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()


_failed: dict[str, str] = {}  # by key: what is not tried again in this process
_lock = threading.Lock()


def set_up(key: str, words: Sequence[str], fill: Callable[[Path], None]) -> Environment:
    """The environment of this key, made by the first call in a checkout that `fill` makes. Raises SetupFailed."""
    if key in _failed:
        raise SetupFailed(_failed[key])
    try:
        folder = cache_folder() / "environments"
        folder.mkdir(parents=True, exist_ok=True)
        with _alone(folder / f"{key}.lock"):
            manifest = folder / key / "environment.json"
            if not manifest.exists():
                remove_tree(folder / key)
                _make(folder / key, folder / f"{key}.log", words, fill)
            kept = json.loads(manifest.read_text(encoding="utf-8"))
            return Environment(kept["folder"], tuple(kept["entries"]), tuple(kept["rewritten"]))
    except SetupFailed as error:
        with _lock:
            _failed[key] = str(error)
        raise
    except (OSError, ValueError, RuntimeError, KeyError) as error:
        raise SetupFailed(f"workspace: setup: {error}") from error


@contextlib.contextmanager
def _alone(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _make(folder: Path, log: Path, words: Sequence[str], fill: Callable[[Path], None]) -> None:
    work = folder / "work"
    work.mkdir(parents=True)
    try:
        fill(work)
        before = set(_paths(work))
        _run(words, work, log)
        entries = tuple(_new(work, before))
        made = Environment(str(work), entries, tuple(_naming(work, entries)))
        written = folder / "environment.json.new"
        written.write_text(json.dumps(asdict(made)), encoding="utf-8")
        written.rename(folder / "environment.json")
    except BaseException:
        remove_tree(folder)
        raise


def _run(words: Sequence[str], work: Path, log: Path) -> None:
    around = {name: value for name, value in os.environ.items() if name not in _VIRTUAL}
    with log.open("wb") as output:
        try:
            process = subprocess.Popen(
                list(words),
                cwd=work,
                env={**around, "GIT_CEILING_DIRECTORIES": str(work.parent)},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            raise SetupFailed(f"setup: {words[0]}: {error.strerror or error}") from error
        try:
            code = process.wait(SETUP_S)
        except BaseException as error:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            if isinstance(error, subprocess.TimeoutExpired):
                raise SetupFailed(f"setup took longer than {SETUP_S:,.0f} s; its output: {log}") from None
            raise
    if code:
        lines = redact_log(log.read_text(encoding="utf-8", errors="replace")[-4000:]).splitlines()
        last = next((line.strip() for line in reversed(lines) if line.strip()), "nothing was printed")[:300]
        raise SetupFailed(f"setup failed with exit code {code}: {last}; its output: {log}")


def _paths(folder: Path, enters: Callable[[str], bool] = lambda name: True) -> list[str]:
    """What is in a folder but for its repository."""
    below = walk(folder, lambda name: name != ".git" and enters(name))
    return [name for name, _ in below if name != ".git"]


def _new(work: Path, before: set[str]) -> list[str]:
    """What the setup made. Bytecode beside sources is left out: it is that of one commit."""
    made = [name for name in _paths(work, before.__contains__) if name not in before]
    return sorted(name for name in made if not name.endswith(("__pycache__", ".pytest_cache")))


def _naming(work: Path, entries: Sequence[str]) -> Iterator[str]:
    """Text files and links among these paths that name the folder."""
    sought = os.fsencode(work)
    for entry in entries:
        top = work / entry
        inside = _paths(top) if top.is_dir() and not top.is_symlink() else []
        for name in (entry, *(f"{entry}/{name}" for name in inside)):
            path = work / name
            if path.is_symlink():
                if os.fsencode(path.readlink()).startswith(sought):
                    yield name
            elif path.is_file() and path.stat().st_size <= LARGEST_TEXT:
                content = path.read_bytes()
                if sought in content and b"\0" not in content:
                    yield name


def _link(source: str, target: str) -> None:
    """A hard link, for nobody writes into either; a copy where that is not possible."""
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        shutil.copy2(source, target, follow_symlinks=False)
