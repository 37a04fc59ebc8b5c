"""`sandbox:` of an agent: its program sees a read-only system, an empty home, its own folder, and what is named.

Bubblewrap makes it: here is whether that works on this machine, and with which arguments.
"""

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
RESOLVER = ("/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager")  # where /etc/resolv.conf may lead
EMPTY = ("/tmp", "/var/tmp", "/run")
INSTALLED = ("/opt", "/snap", "/home/linuxbrew")  # hold programs and nothing else
PARTS = (  # of a prefix, what its programs load; `versions` and those after it are of pyenv, mise, rustup, Volta
    *("bin", "sbin", "lib", "lib64", "libexec", "share", "include", "site-packages", "node_modules", "pyvenv.cfg"),
    *("versions", "version", "installs", "toolchains", "tools"),
)
SETTINGS = frozenset({".cfg", ".conf", ".db", ".env", ".ini", ".json", ".key", ".pem", ".toml", ".yaml", ".yml"})
ORDINARY = frozenset({"pyvenv.cfg", ".gitignore", ".lock"})  # files of a virtual environment
FATAL = frozenset({1, 2, 3, 4, 6, 7, 8, 9, 11, 13, 14, 15, 24, 25})  # on Linux: HUP to TERM, XCPU, XFSZ
INSTALL = "install it (apt install bubblewrap, dnf install bubblewrap), or remove sandbox:"
FORBIDDEN = "allow unprivileged user namespaces (see docs/limits.md), or remove sandbox:"
TRY_S = 20.0
NAMESPACES = (
    *("--unshare-user-try", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"),
    *("--die-with-parent", "--new-session", "--cap-drop", "ALL"),
)
LARGEST_SETTING = 1_000_000  # bytes of a file in a folder
MOST_SETTINGS = 20_000_000  # bytes of all of them
# What agents remember of earlier sessions; a trial begins without it.
SETTINGS_LEFT_OUT = {
    *("projects", "sessions", "archived_sessions", "history", "logs", "log", "cache", "tmp", "todos", "debug"),
    *("shell-snapshots", "file-history", "statsig", "snapshot", "node_modules", ".git"),
}
SECRETS = ("credentials*", ".env*")  # files that are empty wherever programs lie
Access = Literal["read", "write", "empty", "masked"]


@dataclass(frozen=True, slots=True)
class Sandbox:
    """What a program may do beyond working in its own folder."""

    network: bool = True
    disk_mb: int | None = None  # of temporary files and of the home each, and of any file it writes
    processes: int | None = None
    read: tuple[Path, ...] = ()
    write: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class Needs:
    programs: tuple[Path, ...] = ()  # with the folders around them
    read: tuple[Path, ...] = ()
    write: tuple[Path, ...] = ()
    settings: tuple[Path, ...] = ()  # each trial gets a copy of its own


@dataclass(frozen=True, slots=True)
class Mounts:
    workspace: Path
    scratch: Path  # read-only except the folders `tmp` and `config` in it
    needs: Needs
    hidden: tuple[Path, ...] = ()  # files and folders that are empty


def read_sandbox(where: str, setting: Any, base: Path) -> Sandbox | None:
    """None if there is to be no sandbox. Raises BadInput."""
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
    """Why this sandbox cannot work here, and what to do; None if `command`, wrapped in it, succeeds."""
    if bubblewrap() is None:
        return "sandbox: bubblewrap (bwrap) is not installed", INSTALL
    for path in (*sandbox.read, *sandbox.write):
        if not path.exists():
            return f"sandbox: there is no {path}", "correct read: or write:; relative paths start at the spec's folder"
    if sandbox.processes is not None and os.getuid() == 0:
        return "sandbox: processes: Linux sets no such limit for root", "run as another user, or remove processes:"
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=TRY_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"sandbox: bubblewrap does not work here: {error}", FORBIDDEN
    if not done.returncode:
        return None
    lines = done.stderr.decode("utf-8", "replace").strip().splitlines() or [f"exit code {done.returncode}"]
    return f"sandbox: bubblewrap does not work here: {lines[-1]}", FORBIDDEN


def wrap(argv: Sequence[str], sandbox: Sandbox, exposed: Mounts, environment: Mapping[str, str]) -> list[str]:
    words = [bubblewrap() or "bwrap", *NAMESPACES, *([] if sandbox.network else ["--unshare-net"]), *_system()]
    accesses, copies = _accesses(sandbox, exposed, environment), _copies(exposed)
    for place in sorted({*accesses, *copies}, key=lambda place: len(place.parts)):
        if place in copies:
            words += ["--bind", str(copies[place]), str(place)]
        else:
            words += _mount(place, accesses[place], sandbox.disk_mb)
    words += ["--proc", "/proc", "--dev", "/dev", "--remount-ro", "/", "--chdir", str(exposed.workspace), "--"]
    return [*words, *_limits(sandbox), *argv]


def _copies(exposed: Mounts) -> dict[Path, Path]:
    copies = {}
    for number, place in enumerate(exposed.needs.settings):
        if place.exists():
            copies[place] = exposed.scratch / "settings" / str(number)
            _copy_settings(place, copies[place], exposed.needs.write)
    return copies


def _copy_settings(source: Path, to: Path, without: Collection[Path]) -> None:
    """Copy a file, or a folder without these files and without what is large or of earlier sessions."""
    to.parent.mkdir(parents=True, exist_ok=True)
    if source.is_file():
        shutil.copy(source, to)
        return
    to.mkdir(0o700)
    room = MOST_SETTINGS
    for folder, names, files in os.walk(source):
        names[:] = [name for name in names if name not in SETTINGS_LEFT_OUT]
        place = to / Path(folder).relative_to(source)
        place.mkdir(exist_ok=True)
        for name in files:
            file = Path(folder, name)
            with contextlib.suppress(OSError):
                size = file.stat().st_size
                if file.is_file() and file not in without and size <= min(LARGEST_SETTING, room):
                    shutil.copy(file, place / name)
                    room -= size


def exit_code(code: int) -> int:
    """The exit code of a wrapped program: negative if a signal ended it, of which bubblewrap makes 128 + signal.

    A program may exit with such a code itself, so only signals that usually end programs count.

    >>> exit_code(3), exit_code(137), exit_code(150)
    (3, -9, 150)
    """
    return 128 - code if code - 128 in FATAL else code


def _system() -> Iterator[str]:
    for name in SYSTEM:
        place = Path(name)
        if place.is_symlink():
            yield from ("--symlink", str(place.readlink()), name)
        elif place.is_dir():
            yield from ("--ro-bind", name, name)


def _accesses(sandbox: Sandbox, exposed: Mounts, environment: Mapping[str, str]) -> dict[Path, Access]:
    """How each place is seen. What lies deeper is mounted later, over what is above it."""
    home = Path(environment.get("HOME") or Path.home()).absolute()
    places: dict[Path, Access] = {Path(name): "empty" for name in EMPTY}
    places |= {Path(name): "read" for name in RESOLVER}
    if home != Path("/"):
        places[home] = "empty"
    for folder in tool_folders(environment.get("PATH", ""), exposed.needs.programs, exposed.hidden, home):
        places[folder] = "read"
        places |= {file: "masked" for name in SECRETS for file in folder.glob(name) if file.is_file()}
    places |= {place: "masked" if place.is_file() else "empty" for place in exposed.hidden if place != Path("/")}
    for program in exposed.needs.programs:
        if not _is_system(program) and not _is_visible(program, places):
            places[program] = "read"
    places |= dict.fromkeys((*exposed.needs.read, *sandbox.read), "read")
    places |= dict.fromkeys((*exposed.needs.write, *sandbox.write), "write")
    places[exposed.scratch] = "read"
    places[exposed.scratch / "tmp"] = "write" if sandbox.disk_mb is None else "empty"
    places[exposed.scratch / "config"] = "write"
    places[exposed.workspace] = "write"
    return {place: access for place, access in places.items() if access == "empty" or place.exists()}


def _is_visible(place: Path, places: Mapping[Path, Access]) -> bool:
    nearest = next((above for above in (place, *place.parents) if above in places), None)
    return nearest is not None and places[nearest] in ("read", "write")


def _mount(place: Path, access: Access, disk_mb: int | None) -> list[str]:
    if access == "empty":
        size = [] if disk_mb is None else ["--size", str(disk_mb * 1_000_000)]
        return [*size, "--tmpfs", str(place)]
    if access == "masked":
        return ["--ro-bind", os.devnull, str(place)]
    return ["--bind" if access == "write" else "--ro-bind", str(place), str(place)]


def _limits(sandbox: Sandbox) -> list[str]:
    """Limits of the system on a process and its children, set by the shell that then becomes the program."""
    commands = []
    if sandbox.disk_mb is not None:
        commands.append(f"ulimit -f {sandbox.disk_mb * 1_000_000 // 512}")
    if sandbox.processes is not None:
        commands.append(f"ulimit -u {sandbox.processes} 2>/dev/null || ulimit -p {sandbox.processes}")  # bash; dash
    return ["/bin/sh", "-c", "; ".join([*commands, 'exec "$@"']), "sh"] if commands else []


# -- programs ----------------------------------------------------------------------------------------------------------


def tool_folders(path: str, programs: Iterable[Path], hidden: Sequence[Path], home: Path) -> list[Path]:
    """Folders with the programs on PATH and with those that are named, as far as they are not the system's, and what
    they load."""
    folders = [Path(entry).absolute() for entry in path.split(os.pathsep) if entry]
    folders += [file.parent for program in programs for file in _interpreted_by(program)]
    found: dict[Path, None] = {}
    for folder in folders:
        for place in (folder, folder.resolve()):
            if place.is_dir() and not _is_system(place):
                found |= dict.fromkeys(_around(place, hidden, home))
    return list(found)


def _interpreted_by(program: Path) -> Iterator[Path]:
    """A program, the file that it leads to, and the interpreter that its first line names."""
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


def _around(folder: Path, hidden: Sequence[Path], home: Path) -> Iterator[Path]:
    """What is needed to run programs of a folder; nothing that is hidden or has something hidden inside."""
    base = _base_of(folder.parent)
    for programs in (folder, *([] if base is None or _is_system(base) else [base.resolve()])):
        for place in _parts(programs, home):
            if place.exists() and not any(secret.is_relative_to(place) for secret in hidden):
                yield place


def _parts(folder: Path, home: Path) -> Iterator[Path]:
    """What programs of a folder load.

    Of `PREFIX/bin` it is all of `PREFIX` only if that is an install prefix. Elsewhere tokens and settings may lie next
    to `bin`, as in `~/.fly`, `~/.docker` or a project: there it is `bin` and the folders that usually belong to it.
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
    """Whether a folder holds an installation and nothing else.

    That is what lies in `/opt`, a conda prefix, and a folder with `bin` and `lib` (a virtual environment, a version of
    Python or Node.js) that has neither files with settings nor hidden entries, as projects have.
    """
    if (prefix / "conda-meta").is_dir() or any(prefix.is_relative_to(place) for place in INSTALLED):
        return True
    try:
        names = {entry.name for entry in prefix.iterdir()} - ORDINARY
    except OSError:
        return False
    return "lib" in names and not any(name.startswith(".") or Path(name).suffix in SETTINGS for name in names)


def _base_of(venv: Path) -> Path | None:
    """The folder with the programs that a virtual environment was made from."""
    try:
        settings = (venv / "pyvenv.cfg").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    match = re.search(r"^\s*home\s*=[ \t]*(\S.*?)\s*$", settings, re.M)
    return Path(match[1]) if match else None


def _is_system(place: Path) -> bool:
    return any(place.is_relative_to(name) for name in SYSTEM)
