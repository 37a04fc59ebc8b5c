"""`sandbox:` of an agent, made by bubblewrap: a read-only system, an empty home, the workspace and named paths."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from abreast.errors import BadInput
from abreast.settings import Settings, is_count, is_texts

TOOL = "bubblewrap"
FIX = (
    "write sandbox: bubblewrap, or sandbox: {network: off, disk_mb: 1024, processes: 200, read: [PATH], write: [PATH]}"
)
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/nix", "/gnu", "/sys")
RESOLVER = ("/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager")  # targets of /etc/resolv.conf
EMPTY = ("/tmp", "/var/tmp", "/run")
INSTALLED = ("/opt", "/snap", "/home/linuxbrew")  # hold programs and nothing else
PARTS = (  # folders of a prefix that programs load; from `versions` on, those of pyenv, mise, rustup and Volta
    *("bin", "sbin", "lib", "lib64", "libexec", "share", "include", "site-packages", "node_modules", "pyvenv.cfg"),
    *("versions", "version", "installs", "toolchains", "tools"),
)
SETTINGS = frozenset({".cfg", ".conf", ".db", ".env", ".ini", ".json", ".key", ".pem", ".toml", ".yaml", ".yml"})
ORDINARY = frozenset({"pyvenv.cfg", ".gitignore", ".lock"})  # files of a virtual environment
FATAL = frozenset({1, 2, 3, 4, 6, 7, 8, 9, 11, 13, 14, 15, 24, 25})  # on Linux: HUP to TERM, XCPU, XFSZ
INSTALL = "install it (apt install bubblewrap, dnf install bubblewrap), or remove sandbox:"
FORBIDDEN = "allow unprivileged user namespaces (see docs/reference/limits.md), or remove sandbox:"
TRY_S = 20.0
NAMESPACES = (
    *("--unshare-user-try", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"),
    *("--die-with-parent", "--new-session", "--cap-drop", "ALL"),
)
LARGEST_SETTING = 1_000_000  # bytes of a file in a folder
MOST_SETTINGS = 20_000_000  # bytes of all of them
# Records of earlier sessions, which trials must not see.
EXCLUDED_SETTINGS = {
    *("projects", "sessions", "archived_sessions", "history", "logs", "log", "cache", "tmp", "todos", "debug"),
    *("shell-snapshots", "file-history", "statsig", "snapshot", "node_modules", ".git"),
}
SECRETS = ("credentials*", ".env*")  # files that are masked next to programs
Access = Literal["read", "write", "empty", "masked"]


@dataclass(frozen=True, slots=True)
class Sandbox:
    """What a program may do beyond working in its own folder."""

    network: bool = True
    disk_mb: int | None = None  # limit for temporary files, for the home, and for each file it writes
    processes: int | None = None
    read: tuple[Path, ...] = ()
    write: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class Needs:
    programs: tuple[Path, ...] = ()  # visible with the folders around them
    read: tuple[Path, ...] = ()
    write: tuple[Path, ...] = ()
    settings: tuple[Path, ...] = ()  # copied for each trial


@dataclass(frozen=True, slots=True)
class Mounts:
    workspace: Path
    scratch: Path  # read-only except the folders `tmp` and `config` in it
    needs: Needs
    hidden: tuple[Path, ...] = ()  # files and folders that appear empty


def read_sandbox(where: str, setting: Any, base: Path) -> Sandbox | None:
    """Read `sandbox:`; None means no sandbox. Raises BadInput."""
    if setting in (None, "none", False):
        return None
    if setting == TOOL:
        return Sandbox()
    if not isinstance(setting, Mapping):
        raise BadInput(f"{where}: sandbox must be none, {TOOL} or a mapping, got {setting!r:.80}", FIX)
    settings = Settings(f"{where}: sandbox", setting)
    settings.take("tool", TOOL, lambda value: value == TOOL, TOOL)
    network = settings.take("network", True, lambda value: value in (True, False, "on", "off"), "on or off")
    disk_mb = settings.take("disk_mb", None, is_count, "megabytes, as an integer of at least 1")
    processes = settings.take("processes", None, is_count, "an integer of at least 1")
    read = settings.take("read", [], _is_paths, "a list of paths")
    write = settings.take("write", [], _is_paths, "a list of paths")
    settings.done()
    return Sandbox(
        network=network in (True, "on"),
        disk_mb=disk_mb,
        processes=processes,
        read=tuple(_absolute(base, path) for path in read),
        write=tuple(_absolute(base, path) for path in write),
    )


def _is_paths(value: Any) -> bool:
    return value in ([], ()) or is_texts(value)


def _absolute(base: Path, path: str) -> Path:
    return Path(base / Path(path).expanduser()).absolute()


def bubblewrap() -> str | None:
    return shutil.which("bwrap")


def find_problem(sandbox: Sandbox, command: Sequence[str]) -> tuple[str, str] | None:
    """Explain why this sandbox does not work here, with the fix; None if the wrapped `command` succeeds."""
    if bubblewrap() is None:
        return "sandbox: bubblewrap (bwrap) is not installed", INSTALL
    for path in (*sandbox.read, *sandbox.write):
        if not path.exists():
            return f"sandbox: {path} does not exist", "correct read: or write:; paths are relative to the spec's folder"
    if sandbox.processes is not None and os.getuid() == 0:
        return "sandbox: processes: Linux sets no such limit for root", "run as another user, or remove processes:"
    try:
        completed = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=TRY_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"sandbox: bubblewrap does not work here: {error}", FORBIDDEN
    if not completed.returncode:
        return None
    lines = completed.stderr.decode("utf-8", "replace").strip().splitlines() or [f"exit code {completed.returncode}"]
    return f"sandbox: bubblewrap does not work here: {lines[-1]}", FORBIDDEN


def wrap(argv: Sequence[str], sandbox: Sandbox, mounts: Mounts, environment: Mapping[str, str]) -> list[str]:
    words = [bubblewrap() or "bwrap", *NAMESPACES, *([] if sandbox.network else ["--unshare-net"]), *_system()]
    accesses, copies = _accesses(sandbox, mounts, environment), _copies(mounts)
    for path in sorted({*accesses, *copies}, key=lambda path: len(path.parts)):
        if path in copies:
            words += ["--bind", str(copies[path]), str(path)]
        else:
            words += _mount(path, accesses[path], sandbox.disk_mb)
    words += ["--proc", "/proc", "--dev", "/dev", "--remount-ro", "/", "--chdir", str(mounts.workspace), "--"]
    return [*words, *_limits(sandbox), *argv]


def _copies(mounts: Mounts) -> dict[Path, Path]:
    copies = {}
    for number, path in enumerate(mounts.needs.settings):
        if path.exists():
            copies[path] = mounts.scratch / "settings" / str(number)
            _copy_settings(path, copies[path], mounts.needs.write)
    return copies


def _copy_settings(source: Path, to: Path, without: Collection[Path]) -> None:
    """Copy a file, or a folder without the files in `without`, large files and records of earlier sessions."""
    to.parent.mkdir(parents=True, exist_ok=True)
    if source.is_file():
        shutil.copy(source, to)
        return
    to.mkdir(0o700)
    remaining = MOST_SETTINGS
    for folder, names, files in os.walk(source):
        names[:] = [name for name in names if name not in EXCLUDED_SETTINGS]
        path = to / Path(folder).relative_to(source)
        path.mkdir(exist_ok=True)
        for name in files:
            file = Path(folder, name)
            with contextlib.suppress(OSError):
                size = file.stat().st_size
                if file.is_file() and file not in without and size <= min(LARGEST_SETTING, remaining):
                    shutil.copy(file, path / name)
                    remaining -= size


def exit_code(code: int) -> int:
    """Return the exit code of a wrapped program: negative for a signal, which bubblewrap reports as 128 + signal.

    Programs may exit with such a code themselves, so only signals that usually end programs count.

    >>> exit_code(3), exit_code(137), exit_code(150)
    (3, -9, 150)
    """
    return 128 - code if code - 128 in FATAL else code


def _system() -> Iterator[str]:
    for name in SYSTEM:
        path = Path(name)
        if path.is_symlink():
            yield from ("--symlink", str(path.readlink()), name)
        elif path.is_dir():
            yield from ("--ro-bind", name, name)


def _accesses(sandbox: Sandbox, mounts: Mounts, environment: Mapping[str, str]) -> dict[Path, Access]:
    """Return the access to each path. Deeper paths are mounted later, over those above."""
    home = Path(environment.get("HOME") or Path.home()).absolute()
    accesses: dict[Path, Access] = {Path(name): "empty" for name in EMPTY}
    accesses |= {Path(name): "read" for name in RESOLVER}
    if home != Path("/"):
        accesses[home] = "empty"
    for folder in tool_folders(environment.get("PATH", ""), mounts.needs.programs, mounts.hidden, home):
        accesses[folder] = "read"
        accesses |= {file: "masked" for name in SECRETS for file in folder.glob(name) if file.is_file()}
    accesses |= {path: "masked" if path.is_file() else "empty" for path in mounts.hidden if path != Path("/")}
    for program in mounts.needs.programs:
        if not _is_system(program) and not _is_visible(program, accesses):
            accesses[program] = "read"
    accesses |= dict.fromkeys((*mounts.needs.read, *sandbox.read), "read")
    accesses |= dict.fromkeys((*mounts.needs.write, *sandbox.write), "write")
    accesses[mounts.scratch] = "read"
    accesses[mounts.scratch / "tmp"] = "write" if sandbox.disk_mb is None else "empty"
    accesses[mounts.scratch / "config"] = "write"
    accesses[mounts.workspace] = "write"
    return {path: access for path, access in accesses.items() if access == "empty" or path.exists()}


def _is_visible(path: Path, accesses: Mapping[Path, Access]) -> bool:
    nearest = next((above for above in (path, *path.parents) if above in accesses), None)
    return nearest is not None and accesses[nearest] in ("read", "write")


def _mount(path: Path, access: Access, disk_mb: int | None) -> list[str]:
    if access == "empty":
        size = [] if disk_mb is None else ["--size", str(disk_mb * 1_000_000)]
        return [*size, "--tmpfs", str(path)]
    if access == "masked":
        return ["--ro-bind", os.devnull, str(path)]
    return ["--bind" if access == "write" else "--ro-bind", str(path), str(path)]


def _limits(sandbox: Sandbox) -> list[str]:
    """Return a shell command that sets the limits of a process and its children, and then becomes the program."""
    commands = []
    if sandbox.disk_mb is not None:
        commands.append(f"ulimit -f {sandbox.disk_mb * 1_000_000 // 512}")
    if sandbox.processes is not None:
        commands.append(f"ulimit -u {sandbox.processes} 2>/dev/null || ulimit -p {sandbox.processes}")  # bash; dash
    return ["/bin/sh", "-c", "; ".join([*commands, 'exec "$@"']), "sh"] if commands else []


# -- programs ----------------------------------------------------------------------------------------------------------


def tool_folders(path: str, programs: Iterable[Path], hidden: Sequence[Path], home: Path) -> list[Path]:
    """Return folders with the programs on PATH and those in `programs`, except the system's, and with what they
    load."""
    folders = [Path(entry).absolute() for entry in path.split(os.pathsep) if entry]
    folders += [file.parent for program in programs for file in _interpreted_by(program)]
    required: dict[Path, None] = {}
    for folder in folders:
        for target in dict.fromkeys((folder, folder.resolve())):
            if target.is_dir() and not _is_system(target):
                required |= dict.fromkeys(_required_by(target, hidden, home))
    return list(required)


def _interpreted_by(program: Path) -> Iterator[Path]:
    """Yield a program, the file behind its link, and the interpreter in its first line."""
    for file in dict.fromkeys((program, program.resolve())):
        yield file
        try:
            with file.open("rb") as content:
                first = content.readline(512)
        except OSError:
            continue
        if first.startswith(b"#!") and (words := first[2:].split()):
            interpreter = Path(os.fsdecode(words[0]))
            yield from dict.fromkeys((interpreter, interpreter.resolve()))


def _required_by(folder: Path, hidden: Sequence[Path], home: Path) -> Iterator[Path]:
    """Yield the paths that programs of a folder need, except those that are hidden or contain something hidden."""
    base = _base_of(folder.parent)
    for programs in (folder, *([] if base is None or _is_system(base) else [base.resolve()])):
        for path in _parts(programs, home):
            if path.exists() and not any(secret.is_relative_to(path) for secret in hidden):
                yield path


def _parts(folder: Path, home: Path) -> Iterator[Path]:
    """Yield the paths that programs of a folder load.

    For `PREFIX/bin` that is all of an install prefix. Elsewhere tokens and settings may be next to `bin`, as in
    `~/.fly`, `~/.docker` or a project: there it is `bin` and the folders that usually belong to it.
    """
    modules = next((above for above in (*reversed(folder.parents), folder) if above.name == "node_modules"), None)
    prefix = folder.parent
    yield modules or folder
    if modules or folder.name not in ("bin", "sbin", "shims"):
        return
    if prefix in (home, home / ".local"):  # `share` has data of all kinds there
        yield prefix / "lib"
    elif _is_install_prefix(prefix):
        yield prefix
    else:
        yield from (prefix / name for name in PARTS)


def _is_install_prefix(prefix: Path) -> bool:
    """Whether a folder contains only an installation.

    That is a folder in `/opt`, a conda prefix, or one with `bin` and `lib` (a virtual environment, a version of Python
    or Node.js) without settings files and hidden entries, which projects have.
    """
    if (prefix / "conda-meta").is_dir() or any(prefix.is_relative_to(path) for path in INSTALLED):
        return True
    try:
        names = {entry.name for entry in prefix.iterdir()} - ORDINARY
    except OSError:
        return False
    return "lib" in names and not any(name.startswith(".") or Path(name).suffix in SETTINGS for name in names)


def _base_of(venv: Path) -> Path | None:
    """Return the folder of the interpreter that a virtual environment was made from."""
    try:
        settings = (venv / "pyvenv.cfg").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    match = re.search(r"^\s*home\s*=[ \t]*(\S.*?)\s*$", settings, re.M)
    return Path(match[1]) if match else None


def _is_system(path: Path) -> bool:
    return any(path.is_relative_to(name) for name in SYSTEM)
