"""The real agent CLIs, and the sandbox, that `make test` installs."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

PROJECT = Path(__file__).parent.parent
CACHE = PROJECT / ".tools" / "clis"
BUBBLEWRAP = PROJECT / ".tools" / "bubblewrap" / "usr" / "bin"


def real_cli(name: str) -> Path:
    """The path of the program that `make test` installed into the project's cache; fail the test without it."""
    folder = Path(os.environ.get("ABREAST_TEST_CLIS") or CACHE)
    path = folder / "node_modules" / ".bin" / name
    if not path.exists():
        pytest.fail(f"the real {name} is not there: run make test, which installs it")
    return path


def bubblewrap_folder() -> Path:
    """The folder of `bwrap`; skip the test where it cannot work."""
    actual = shutil.which("bwrap") or shutil.which("bwrap", path=str(BUBBLEWRAP))
    if actual is None:
        pytest.skip("bubblewrap cannot be installed here")
    tried = subprocess.run([actual, "--unshare-pid", "--ro-bind", "/", "/", "--proc", "/proc", "true"], check=False)
    if tried.returncode:
        pytest.skip("bubblewrap cannot work here: namespaces are forbidden")
    return Path(actual).parent
