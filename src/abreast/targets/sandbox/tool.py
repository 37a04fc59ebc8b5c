"""Is bubblewrap there, and does it work on this machine?"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence

from abreast.targets.sandbox.config import Sandbox

INSTALL = "install it (apt install bubblewrap, dnf install bubblewrap), or remove sandbox:"
FORBIDDEN = "allow unprivileged user namespaces (see docs/limits.md), or remove sandbox:"
TRY_S = 20.0


def bubblewrap() -> str | None:
    """The program; None if it is not installed."""
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


NAMESPACES = (
    *("--unshare-user-try", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"),
    *("--die-with-parent", "--new-session", "--cap-drop", "ALL"),
)
