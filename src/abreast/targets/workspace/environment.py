"""Environments: what the `setup:` command of a workspace installs, created once and added to every workspace.

The command runs in its own checkout in the user's cache folder. The files that it leaves there beyond the commit, such
as `.venv` or `node_modules`, are copied into each workspace, so that no trial sees what another one installed. Virtual
environments cannot be moved: text files and links that contain the path of the checkout, such as the scripts of a
virtual environment, are rewritten to the workspace. Commits with the same dependency files share an environment.
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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from abreast.digest import compose
from abreast.redaction import redact_log
from abreast.store.user_state.folders import cache_folder
from abreast.targets.workspace.files.directories import NoWorkspace, remove_tree, walk

SETUP_TIMEOUT_S = 1800.0
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
_PYTHON_VARIABLES = ("VIRTUAL_ENV", "PYTHONHOME", "PYTHONPATH")  # describe abreast's own environment
_VENV_FOLDERS = (".venv", "venv", "env", ".env")


class SetupFailed(NoWorkspace):
    """The `setup:` command of a workspace failed."""


@dataclass(frozen=True, slots=True)
class Environment:
    """The result of a setup: the folder where it ran, the paths it created, and those of them that name the folder."""

    folder: str
    entries: tuple[str, ...] = ()
    rewritten: tuple[str, ...] = ()

    def add_to(self, checkout: Path) -> None:
        """Copy the environment into a prepared checkout, where git ignores it."""
        for name in self.entries:
            source, target = Path(self.folder) / name, checkout / name
            if os.path.lexists(target):  # the commit has it
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

    def relocate(self, work: Path) -> None:
        """Replace the folder of the setup with the workspace in files and links that name it."""
        for name in self.rewritten:
            source, target = Path(self.folder) / name, work / name
            if source.is_symlink():
                destination = str(source.readlink()).replace(self.folder, str(work), 1)
                target.unlink(missing_ok=True)
                target.symlink_to(destination)
            elif target.is_file() and not target.is_symlink():
                content = source.read_bytes().replace(os.fsencode(self.folder), os.fsencode(work))
                target.unlink()
                target.write_bytes(content)
                shutil.copymode(source, target)


def environment_variables(work: Path, base: Mapping[str, str]) -> dict[str, str]:
    """Add the environment installed in a workspace to these variables: its programs come first."""
    venv = next((work / name for name in _VENV_FOLDERS if (work / name / "pyvenv.cfg").is_file()), None)
    node_programs = work / "node_modules" / ".bin"
    folders = [] if venv is None else [str(venv / "bin")]
    folders += [str(node_programs)] if node_programs.is_dir() else []
    if not folders:
        return dict(base)
    variables = {**base, "PATH": os.pathsep.join([*folders, base.get("PATH", os.defpath)])}
    if venv is not None:
        variables.pop("PYTHONHOME", None)
        variables["VIRTUAL_ENV"] = str(venv)
    return variables


def is_dependency_file(path: str) -> bool:
    """Whether a file declares or locks the dependencies of a project.

    >>> [is_dependency_file(path) for path in ("requirements/dev.txt", "web/package-lock.json", "src/app.py")]
    [True, True, False]
    """
    return MANIFEST.search(path) is not None or LOCK_FILE.search(path) is not None


def environment_key(command: Sequence[str], dependencies: str) -> str:
    """Return a digest of what an environment depends on: the command, the dependency files, and the machine."""
    programs = [shutil.which(name) or "" for name in (command[0], "python3", "node")]
    resolved = [str(Path(program).resolve()) if program else "" for program in programs]
    machine = (platform.system(), platform.machine(), platform.release() if sys.platform == "darwin" else "")
    files = [_file_digest(Path(word)) for word in command if word.startswith("/")]
    return compose(REVISION, len(command), *command, dependencies, *machine, *resolved, *files)


def _file_digest(path: Path) -> str:
    if not path.is_file():
        return ""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "blake2b").hexdigest()


_failures: dict[str, str] = {}  # failed setups by key, which this process does not retry


def set_up(key: str, command: Sequence[str], fill: Callable[[Path], None]) -> Environment:
    """Return the environment of this key, created once in a checkout that `fill` makes. Raises SetupFailed."""
    if key in _failures:
        raise SetupFailed(_failures[key])
    try:
        folder = cache_folder() / "environments"
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / f"{key}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            manifest = folder / key / "environment.json"
            if not manifest.exists():
                remove_tree(folder / key)
                _create_environment(folder / key, folder / f"{key}.log", command, fill)
            fields = json.loads(manifest.read_text(encoding="utf-8"))
            return Environment(fields["folder"], tuple(fields["entries"]), tuple(fields["rewritten"]))
    except SetupFailed as error:
        _failures[key] = str(error)
        raise
    except (OSError, ValueError, RuntimeError, KeyError) as error:
        raise SetupFailed(f"workspace: setup: {error}") from error


def _create_environment(folder: Path, log: Path, command: Sequence[str], fill: Callable[[Path], None]) -> None:
    work = folder / "work"
    work.mkdir(parents=True)
    try:
        fill(work)
        paths = set(_paths(work))
        _run_setup(command, work, log)
        created = [name for name in _paths(work, paths.__contains__) if name not in paths]
        # Bytecode of sources belongs to one commit.
        entries = tuple(sorted(name for name in created if not name.endswith(("__pycache__", ".pytest_cache"))))
        environment = Environment(str(work), entries, tuple(_files_naming(work, entries)))
        manifest = folder / "environment.json.new"
        manifest.write_text(json.dumps(asdict(environment)), encoding="utf-8")
        manifest.rename(folder / "environment.json")
    except BaseException:
        remove_tree(folder)
        raise


def _run_setup(command: Sequence[str], work: Path, log: Path) -> None:
    variables = {name: value for name, value in os.environ.items() if name not in _PYTHON_VARIABLES}
    with log.open("wb") as output:
        try:
            process = subprocess.Popen(
                list(command),
                cwd=work,
                env={**variables, "GIT_CEILING_DIRECTORIES": str(work.parent)},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            raise SetupFailed(f"setup: {command[0]}: {error.strerror or error}") from error
        try:
            code = process.wait(SETUP_TIMEOUT_S)
        except BaseException as error:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            if isinstance(error, subprocess.TimeoutExpired):
                raise SetupFailed(f"setup took longer than {SETUP_TIMEOUT_S:,.0f} s; its output: {log}") from None
            raise
    if code:
        lines = redact_log(log.read_text(encoding="utf-8", errors="replace")[-4000:]).splitlines()
        last = next((line.strip() for line in reversed(lines) if line.strip()), "no output")[:300]
        raise SetupFailed(f"setup failed with exit code {code}: {last}; its output: {log}")


def _paths(folder: Path, enters: Callable[[str], bool] = lambda name: True) -> list[str]:
    below = walk(folder, lambda name: name != ".git" and enters(name))
    return [name for name, _ in below if name != ".git"]


def _files_naming(work: Path, entries: Sequence[str]) -> Iterator[str]:
    """Text files and links among these paths that contain the path of the folder."""
    needle = os.fsencode(work)
    for entry in entries:
        top = work / entry
        inside = _paths(top) if top.is_dir() and not top.is_symlink() else []
        for name in (entry, *(f"{entry}/{name}" for name in inside)):
            path = work / name
            if path.is_symlink():
                if os.fsencode(path.readlink()).startswith(needle):
                    yield name
            elif path.is_file() and path.stat().st_size <= LARGEST_TEXT:
                content = path.read_bytes()
                if needle in content and b"\0" not in content:
                    yield name


def _link(source: str, target: str) -> None:
    """Make a hard link, since neither file is ever written to; copy where links are impossible."""
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        shutil.copy2(source, target, follow_symlinks=False)
