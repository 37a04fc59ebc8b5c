"""What a suite's report has besides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from abreast.report.charts.drawing import Picture


@dataclass(frozen=True, slots=True)
class NamedTable:
    """A table with a title; every cell is words."""

    name: str
    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Section:
    """One part of a report, as every format shows it."""

    name: str
    title: str
    sentences: tuple[str, ...] = ()
    tables: tuple[NamedTable, ...] = ()
    pictures: tuple[Picture, ...] = ()
    data: Mapping[str, Any] = field(default_factory=dict)
