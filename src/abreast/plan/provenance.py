"""The provenance of a run: commit, versions, machine, data."""

from __future__ import annotations

import os
import platform
from functools import cache
from importlib import metadata
from typing import Any

from abreast.plan import git
from abreast.spec.cases import CaseTable

_PACKAGES = ("abreast", "apsw", "duckdb", "numpy", "scipy", "pydantic", "anthropic", "openai")


def provenance(repository: git.GitState | None, cases: CaseTable, seed: int) -> dict[str, Any]:
    return {
        **recorded(repository),
        "data_hash": cases.hash,
        "cases": len(cases),
        "seed": seed,
        "python": platform.python_version(),
        "packages": dict(_versions()),
        "host": platform.node(),
        "platform": _platform(),
        "cores": os.cpu_count(),
    }


def _platform() -> str:
    """`platform.platform()` without starting a process and searching the interpreter's file."""
    try:
        system, libc = os.uname(), os.confstr("CS_GNU_LIBC_VERSION")
    except (AttributeError, ValueError, OSError):
        return platform.platform()
    if system.sysname != "Linux" or not libc:
        return platform.platform()
    return f"{system.sysname}-{system.release}-{system.machine}-with-{libc.replace(' ', '')}"


@cache
def _versions() -> dict[str, str]:
    versions = {}
    for name in _PACKAGES:
        try:
            versions[name] = _version(metadata.distribution(name))
        except metadata.PackageNotFoundError:
            continue
    return versions


def _version(package: metadata.Distribution) -> str:
    """The version of a package, without parsing all of its metadata as an email."""
    head = (package.read_text("METADATA") or "").partition("\n\n")[0]
    version = next((line.partition(":")[2].strip() for line in head.splitlines() if line.startswith("Version:")), "")
    return version or package.version


def recorded(repository: git.GitState | None) -> dict[str, Any]:
    if repository is None or repository.commit is None:
        return {"commit": None, "dirty": None, "branch": None}
    dirty = None if repository.changed is None else bool(repository.changed)
    return {"commit": repository.commit, "dirty": dirty, "branch": repository.branch or "HEAD"}
