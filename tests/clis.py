"""The real agent CLIs that `make test` installs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

CACHE = Path(__file__).parent.parent / ".cache" / "clis"


def real_cli(name: str) -> Path:
    """The program, as `make test` installed it into the project's own cache; without it the test fails."""
    folder = Path(os.environ.get("ABREAST_TEST_CLIS") or CACHE)
    path = folder / "node_modules" / ".bin" / name
    if not path.exists():
        pytest.fail(f"the real {name} is not there: run make test, which installs it")
    return path
