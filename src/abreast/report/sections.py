"""What a suite's report has besides, and which suite that is."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from typing import Any

from abreast.errors import BadInput

GROUP = "abreast.suites"


def entry_points_of_suites() -> list[EntryPoint]:
    """Where suites are, as installed packages say; of two with one name the first counts."""
    first: dict[str, EntryPoint] = {}
    for point in entry_points(group=GROUP):
        first.setdefault(point.name, point)
    return list(first.values())


def load_suite(name: str) -> Any:
    """The suite of this name; None if there is none."""
    point = next((point for point in entry_points_of_suites() if point.name == name), None)
    if point is None:
        return None
    try:
        return point.load()
    except Exception as error:
        raise broken(name, f"{type(error).__name__}: {error}") from error


def broken(name: str, what: str) -> BadInput:
    """A suite is there and cannot be used."""
    places = [point.value for point in entry_points_of_suites() if point.name == name]
    return BadInput(
        f'suite "{name}" ({", ".join(places)}) cannot be used: {what}',
        "check the package that brings it; --debug-traceback shows where",
    )
