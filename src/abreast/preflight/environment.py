"""Is this the Python, and are these the packages and programs, of the last run?"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from abreast.preflight.context import Context
from abreast.preflight.finding import Finding, many


def check(context: Context) -> Finding:
    now = {**context.provenance, **context.surroundings.recorded()}
    software = _software(now)
    told = f"Python {now.get('python')}, {many(len(software) - 1, 'package and program')}".replace(
        "package and programs", "packages and programs"
    )
    details = tuple(f"{name} {version}" for name, version in software.items())
    if context.earlier is None:
        return Finding("environment", "pass", told, "", details, aside=True)
    before = _software(context.earlier.provenance)
    moved = [
        f"{name} {before[name]} → {version}"
        for name, version in software.items()
        if name in before and before[name] != version
    ]
    if not moved:
        return Finding("environment", "pass", f"{told}, as in {context.earlier.run}", "", details, aside=True)
    message = f"since {context.earlier.run}: {', '.join(moved[:5])}{' and others' if len(moved) > 5 else ''}"
    return Finding("environment", "note", message, "", (*moved, *details))


def _software(provenance: Mapping[str, Any]) -> dict[str, str]:
    """Versions by name: Python, packages that are recorded, those that the code imports, programs."""
    found = {"Python": str(provenance.get("python"))}
    for code in (provenance.get("code") or {}).values():
        found |= code.get("packages") or {}
    return {**found, **(provenance.get("packages") or {}), **(provenance.get("cli_versions") or {})}
