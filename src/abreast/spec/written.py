"""Cases of a spec file that know where they are written: plain values otherwise, so that nobody else needs to know."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


class WrittenText(str):
    """The name of a file, a pattern or a function, and the line it stands in."""

    __slots__ = ("place",)
    place: str

    def __new__(cls, text: str, place: str) -> WrittenText:
        self = super().__new__(cls, text)
        self.place = place
        return self

    def __getnewargs__(self) -> tuple[str, str]:  # type: ignore[override]
        return str(self), self.place


class WrittenCall(dict[str, Any]):
    """A function with its arguments, and the line it stands in."""

    def __init__(self, items: Mapping[str, Any], place: str) -> None:
        super().__init__(items)
        self.place = place


class WrittenCases(list[Any]):
    """A list of cases, where it stands, and the place of each."""

    def __init__(self, items: Iterable[Any], place: str, places: list[str]) -> None:
        super().__init__(items)
        self.place = place
        self.places = places


def place_of(cases: Any) -> str:
    """`experiment.yaml:3: cases`, or just `cases` where nobody knows."""
    return f"{cases.place}: cases" if isinstance(cases, WrittenText | WrittenCall | WrittenCases) else "cases"


def place_of_item(cases: Any, index: int) -> str:
    """Where one item of a list of cases stands."""
    return f"{cases.places[index]}: cases[{index}]" if isinstance(cases, WrittenCases) else f"cases[{index}]"
