"""Run git with argument lists, never through a shell, and inspect repository addresses.

In our own repositories, the settings, hooks and prompts of users are disabled.
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

EnvVars = Mapping[str, str]

TIMEOUT_S = 300.0
FETCH_TIMEOUT_S = 3600.0
LATEST_DATE = 253_402_300_799  # the last second of the year 9999
_REPOSITORY_VARIABLES = {  # set when git itself started this process; they select another repository
    *("GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_COMMON_DIR", "GIT_CONFIG", "GIT_DIR", "GIT_GRAFT_FILE"),
    *("GIT_INDEX_FILE", "GIT_NAMESPACE", "GIT_OBJECT_DIRECTORY", "GIT_PREFIX", "GIT_SHALLOW_FILE"),
    *("GIT_WORK_TREE", "GIT_QUARANTINE_PATH"),
    *("GIT_CEILING_DIRECTORIES", "GIT_DISCOVERY_ACROSS_FILESYSTEM", "GIT_LITERAL_PATHSPECS", "GIT_ICASE_PATHSPECS"),
}
_URL = re.compile(r"(https?|ssh|git|file)://.+|[\w.+-]+@[\w.-]+:.+", re.IGNORECASE)
_CREDENTIALS = re.compile(r"(?<=://)[^/\s]+@")
_LONGEST_USER_NAME = 19  # characters; a longer one is a token
_QUIET = {"GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", "GIT_NO_REPLACE_OBJECTS": "1", "LC_ALL": "C"}
_SETTINGS = {"core.hooksPath": os.devnull, "core.fsmonitor": "false", "gc.auto": "0", "maintenance.auto": "false"}
_ISOLATED_SETTINGS = {
    **_SETTINGS,
    "core.excludesFile": os.devnull,
    "core.attributesFile": os.devnull,
    "core.protectNTFS": "false",
    "core.protectHFS": "false",
    "core.untrackedCache": "false",
    "core.looseCompression": "0",
    "core.bigFileThreshold": "32000000",  # bytes; twice the size of files that are listed by name only
}


class GitFailed(Exception):
    """A git command failed; the message is git's own."""


class GitTooSlow(GitFailed):
    """A git command timed out."""


def is_installed() -> bool:
    return shutil.which("git") is not None


def run(
    *arguments: str | os.PathLike[str],
    environment: EnvVars | None = None,
    stdin: bytes = b"",
    allowed: Sequence[int] = (0,),
    timeout_s: float | None = None,
) -> bytes:
    """Run git in a repository of ours, without the user's or the machine's settings; return its output."""
    command = _command(_ISOLATED_SETTINGS, arguments)
    return _run(command, {**_isolated_environment(), **(environment or {})}, stdin, allowed, timeout_s or TIMEOUT_S)


def run_as_user(*arguments: str | os.PathLike[str], timeout_s: float = FETCH_TIMEOUT_S) -> bytes:
    """Run git in the user's repository, with the user's credentials, proxies and safe folders; return its output."""
    environment = {name: value for name, value in os.environ.items() if name not in _REPOSITORY_VARIABLES}
    return _run(_command(_SETTINGS, arguments), {**environment, **_QUIET}, b"", (0,), timeout_s)


def first_bytes(limit: int, *arguments: str, environment: EnvVars) -> bytes:
    """Return the first bytes of git's output and kill it at the limit."""
    streams: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    command = _command(_ISOLATED_SETTINGS, arguments)
    with subprocess.Popen(command, env={**_isolated_environment(), **environment}, **streams) as process:
        assert process.stdout is not None
        watchdog = threading.Timer(TIMEOUT_S, process.kill)
        watchdog.start()
        try:
            output: bytes = process.stdout.read(limit)
            if len(output) == limit:
                process.kill()
        finally:
            watchdog.cancel()
    if process.returncode and len(output) < limit:
        raise GitFailed(f"git {arguments[0]} failed with exit code {process.returncode}")
    return output


def _isolated_environment() -> dict[str, str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    isolation = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "GIT_ATTR_NOSYSTEM": "1"}
    return {**environment, **_QUIET, **isolation}


def _command(settings: Mapping[str, str], arguments: Sequence[str | os.PathLike[str]]) -> list[str]:
    options = [option for name, value in settings.items() for option in ("-c", f"{name}={value}")]
    return ["git", *options, *(os.fspath(argument) for argument in arguments)]


def _run(command: list[str], environment: dict[str, str], stdin: bytes, allowed: Sequence[int], limit: float) -> bytes:
    new_session = True  # without a terminal, nothing can prompt for a password
    try:
        completed = subprocess.run(
            command, env=environment, input=stdin, capture_output=True, timeout=limit, start_new_session=new_session
        )
    except subprocess.TimeoutExpired:
        raise GitTooSlow(f"git took longer than {limit:,.0f} s") from None
    except OSError as error:
        raise GitFailed(f"git: {error.strerror or error}") from None
    if completed.returncode not in allowed:
        raise GitFailed(_error_message(completed.stderr) or f"git failed with exit code {completed.returncode}")
    return completed.stdout


def _error_message(stderr: bytes) -> str:
    lines = [line.strip() for line in stderr.decode("utf-8", "replace").splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith(("fatal:", "error:", "ERROR"))]
    return (errors or lines or [""])[0].removeprefix("fatal: ").removeprefix("error: ")


def parse_commit_date(output: str | bytes) -> int:
    """Parse the Unix time of a commit. Commits written by other programs may have no date, or an impossible one.

    >>> parse_commit_date("1700000000\\n"), parse_commit_date(""), parse_commit_date("9" * 30)
    (1700000000, 0, 253402300799)
    """
    text = output.decode("ascii", "replace").strip() if isinstance(output, bytes) else output.strip()
    return min(int(text[:30]), LATEST_DATE) if text.isdecimal() else 0


def common_directory(path: Path) -> Path:
    """Return the directory of objects and refs of the repository at a path, wherever it keeps them."""
    output = run_as_user("-C", path, "rev-parse", "--git-common-dir", timeout_s=30.0)
    return (path / os.fsdecode(output.removesuffix(b"\n"))).absolute()


def is_address(address: str) -> bool:
    """Whether this is the address of a remote repository, not a folder.

    >>> is_address("https://example.org/a.git"), is_address("git@example.org:a.git"), is_address("../a")
    (True, True, False)
    """
    return _URL.fullmatch(address) is not None


def strip_credentials(text: str) -> str:
    return _CREDENTIALS.sub("", text)


def has_credentials(address: str) -> bool:
    """Whether a URL contains a password, or a token as its user name.

    >>> [has_credentials(f"https://{user}example.org/a") for user in ("", "ann@", "ann:pass@", f"{'0a' * 20}@")]
    [False, False, True, True]
    """
    match = _CREDENTIALS.search(address)
    name, _, password = match[0].removesuffix("@").partition(":") if match else ("", "", "")
    return bool(password) or len(name) > _LONGEST_USER_NAME
