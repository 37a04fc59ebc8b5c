"""Cases of a spec file that know the lines they are written in; they are plain values otherwise."""

from __future__ import annotations

from typing import Any


class WrittenText(str):
    """The name of a file, a pattern or a function."""

    place: str


class WrittenCall(dict[str, Any]):
    """A function with its arguments."""

    place: str


class WrittenCases(list[Any]):
    """A list of cases."""

    place: str
    places: list[str]


def place_of(cases: Any) -> str:
    """`experiment.yaml:3: cases`, or just `cases` if it is not from a file."""
    return f"{cases.place}: cases" if isinstance(cases, WrittenText | WrittenCall | WrittenCases) else "cases"


def place_of_item(cases: Any, index: int) -> str:
    return f"{cases.places[index]}: cases[{index}]" if isinstance(cases, WrittenCases) else f"cases[{index}]"
