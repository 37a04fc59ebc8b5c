"""Calls of git, with argument lists and never a shell, and addresses of repositories.

In our own repositories the settings, hooks and prompts of users do not count.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

PATIENCE_S = 300.0
FETCH_PATIENCE_S = 3600.0
LATEST = 253_402_300_799  # the last second of the year 9999
_NOT_OURS = {  # what says which repository is meant, when git itself started this process
    *("GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_COMMON_DIR", "GIT_CONFIG", "GIT_DIR", "GIT_GRAFT_FILE"),
    *("GIT_INDEX_FILE", "GIT_NAMESPACE", "GIT_OBJECT_DIRECTORY", "GIT_PREFIX", "GIT_SHALLOW_FILE"),
    *("GIT_WORK_TREE", "GIT_QUARANTINE_PATH"),
    *("GIT_CEILING_DIRECTORIES", "GIT_DISCOVERY_ACROSS_FILESYSTEM", "GIT_LITERAL_PATHSPECS", "GIT_ICASE_PATHSPECS"),
}
_URL = re.compile(r"(https?|ssh|git|file)://.+|[\w.+-]+@[\w.-]+:.+", re.IGNORECASE)
_BEFORE_HOST = re.compile(r"(?<=://)[^/\s]+@")
_LONGEST_NAME = 19  # characters; tokens that stand there alone are longer
_QUIET = {"GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", "GIT_NO_REPLACE_OBJECTS": "1", "LC_ALL": "C"}
_ALWAYS = {"core.hooksPath": os.devnull, "core.fsmonitor": "false", "gc.auto": "0", "maintenance.auto": "false"}
_APART = {
    **_ALWAYS,
    "core.excludesFile": os.devnull,
    "core.attributesFile": os.devnull,
    "core.protectNTFS": "false",
    "core.protectHFS": "false",
    "core.untrackedCache": "false",
}


class GitFailed(Exception):
    """Git said no; its words."""


class GitTooSlow(GitFailed):
    """Git did not end in time."""


def installed() -> bool:
    return shutil.which("git") is not None


def run(
    *words: str | os.PathLike[str],
    settings: Mapping[str, str] | None = None,
    environment: Mapping[str, str] | None = None,
    stdin: bytes = b"",
    allowed: Sequence[int] = (0,),
    patience_s: float | None = None,
) -> bytes:
    """What git writes, in a repository of ours: settings of users and machines do not count."""
    command = _command({**_APART, **(settings or {})}, words)
    return _run(command, {**_apart(), **(environment or {})}, stdin, allowed, patience_s or PATIENCE_S)


def run_as_user(*words: str | os.PathLike[str], patience_s: float = FETCH_PATIENCE_S) -> bytes:
    """What git writes where a user's repository is reached: with the user's credentials, proxies and safe folders."""
    environment = {name: value for name, value in os.environ.items() if name not in _NOT_OURS}
    return _run(_command(_ALWAYS, words), {**environment, **_QUIET}, b"", (0,), patience_s)


def first_bytes(most: int, *words: str, settings: Mapping[str, str], environment: Mapping[str, str]) -> bytes:
    """The first bytes of what git writes; the rest is never made."""
    streams: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    command = _command({**_APART, **settings}, words)
    with subprocess.Popen(command, env={**_apart(), **environment}, **streams) as process:
        assert process.stdout is not None
        watch = threading.Timer(PATIENCE_S, process.kill)
        watch.start()
        try:
            output: bytes = process.stdout.read(most)
            if len(output) == most:
                process.kill()
        finally:
            watch.cancel()
    if process.returncode and len(output) < most:
        raise GitFailed(f"git {words[0]} ended with {process.returncode}")
    return output


def _apart() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return {**kept, **_QUIET, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "GIT_ATTR_NOSYSTEM": "1"}


def _command(settings: Mapping[str, str], words: Sequence[str | os.PathLike[str]]) -> list[str]:
    options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
    return ["git", *options, *(os.fspath(word) for word in words)]


def _run(command: list[str], environment: dict[str, str], stdin: bytes, allowed: Sequence[int], limit: float) -> bytes:
    new_session = True  # without a terminal nothing can ask for a password
    try:
        done = subprocess.run(
            command, env=environment, input=stdin, capture_output=True, timeout=limit, start_new_session=new_session
        )
    except subprocess.TimeoutExpired:
        raise GitTooSlow(f"git took longer than {limit:,.0f} s") from None
    except OSError as error:
        raise GitFailed(f"git: {error.strerror or error}") from None
    if done.returncode not in allowed:
        raise GitFailed(_last_words(done.stderr) or f"git ended with {done.returncode}")
    return done.stdout


def _last_words(stderr: bytes) -> str:
    lines = [line.strip() for line in stderr.decode("utf-8", "replace").splitlines() if line.strip()]
    problems = [line for line in lines if line.startswith(("fatal:", "error:", "ERROR"))]
    return (problems or lines or [""])[0].removeprefix("fatal: ").removeprefix("error: ")


def seconds(told: str | bytes) -> int:
    """The date of a commit. What programs wrote may have none, or one that is in no calendar.

    >>> seconds("1700000000\\n"), seconds(""), seconds("9" * 30)
    (1700000000, 0, 253402300799)
    """
    text = told.decode("ascii", "replace").strip() if isinstance(told, bytes) else told.strip()
    return min(int(text[:30]), LATEST) if text.isdecimal() else 0


def folder_of(path: Path) -> Path:
    """The directory of objects and refs of the repository at a path, wherever it keeps them."""
    told = run_as_user("-C", path, "rev-parse", "--git-common-dir", patience_s=30.0)
    return (path / os.fsdecode(told.removesuffix(b"\n"))).absolute()


def is_address(written: str) -> bool:
    """Whether this is a repository elsewhere, and not a folder.

    >>> is_address("https://example.org/a.git"), is_address("git@example.org:a.git"), is_address("../a")
    (True, True, False)
    """
    return _URL.fullmatch(written) is not None


def without_secret(text: str) -> str:
    """The same without names and passwords before hosts."""
    return _BEFORE_HOST.sub("", text)


def has_secret(address: str) -> bool:
    """Whether something before the host is a password, or a token instead of a name.

    >>> [has_secret(f"https://{who}example.org/a") for who in ("", "ann@", "ann:pass@", f"{'0a' * 20}@")]
    [False, False, True, True]
    """
    found = _BEFORE_HOST.search(address)
    name, _, password = found[0].removesuffix("@").partition(":") if found else ("", "", "")
    return bool(password) or len(name) > _LONGEST_NAME
