"""A proposed case, and the lines of code that support it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

CONTENT = 200  # characters of a line that is shown as evidence

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_A-Za-z]+")


@dataclass(frozen=True, slots=True)
class Evidence:
    """A line of a file that the truth rests on."""

    path: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.text[:CONTENT]}"


@dataclass(frozen=True, slots=True)
class Proposal:
    """A case as it stands in a case file, the kind and language it comes from, and the lines to judge it by."""

    case: dict[str, Any]
    kind: str
    language: str | None
    why: str
    evidence: tuple[Evidence, ...]

    @property
    def id(self) -> str:
        return str(self.case["id"])


@dataclass(frozen=True, slots=True)
class Known:
    """Cases that are there or were rejected: what is not proposed again."""

    ids: frozenset[str] = frozenset()
    prompts: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Truth:
    """What a right answer names. The files are those with `lines`, and `files`."""

    lines: dict[str, list[int]] = field(default_factory=dict)
    symbols: list[str] = field(default_factory=list)
    content: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)

    def written(self) -> dict[str, Any]:
        """Return the ground truth as a case file has it."""
        truth: dict[str, Any] = {"files": sorted({*self.lines, *self.files})}
        if self.symbols:
            truth["symbols"] = self.symbols
        if self.lines:
            truth["lines"] = {path: self.lines[path] for path in sorted(self.lines)}
        if self.content:
            truth["content"] = self.content
        return truth


def words_of(name: str) -> list[str]:
    """The words that a name is made of.

    >>> words_of("parseHTTPLine"), words_of("line-length_2")
    (['parse', 'http', 'line'], ['line', 'length', '2'])
    """
    return [word.lower() for word in _WORDS.findall(name)]


def slug(prefix: str, name: str) -> str:
    """An id that can be read.

    >>> slug("def", "Store.openFile")
    'def-store-open-file'
    """
    return "-".join([prefix, *(word for word in words_of(name) if word.isascii())]).removesuffix("-") or prefix
