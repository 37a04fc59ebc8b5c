"""The real CLIs that the tests use: installed by `make test`, never by a test."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def real_cli(name: str) -> Path:
    """The program; a test without it fails with what to do."""
    told = os.environ.get("ABREAST_TEST_CLIS")
    path = (Path(told) if told else ROOT / ".cache" / "clis") / "node_modules" / ".bin" / name
    if not path.exists():
        pytest.fail(f"{name} is not there: run make test: it installs the CLI", pytrace=False)
    return path.absolute()
