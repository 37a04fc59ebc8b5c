"""The ground truth of a case: what it may be, and what of it a question gives away."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from abreast.errors import suggestion
from abreast.scorers.base import short
from abreast.scorers.retrieval.listed import FIELDS
from abreast.scorers.retrieval.names import Span, names_it, path_of, stands_in, symbol_of

_EXAMPLE = '{"files": ["src/a.py"], "symbols": ["load"], "lines": {"src/a.py": [12]}, "content": ["..."]}'


@dataclass(frozen=True, slots=True)
class Truth:
    """What is right. Only fields that say something are judged; if none does, there is nothing to claim in those that
    are there. `given` is what the question names itself: it is neither found nor wrong."""

    fields: frozenset[str]
    files: tuple[str, ...]
    symbols: tuple[str, ...]
    lines: tuple[tuple[str, Span], ...]
    content: tuple[str, ...]
    given: frozenset[str] = frozenset()

    @classmethod
    def read(cls, expected: Mapping[str, Any], asked: str) -> Truth:
        """Of a mapping that has no flaw, for a question."""
        lines = expected.get("lines") or {}
        spans = [(path_of(path), Span.read(each)) for path, told in lines.items() for each in _several(told)]
        there = frozenset(name for name in FIELDS if expected.get(name) is not None)
        found = cls(
            frozenset(name for name in there if expected[name]) or there,
            tuple(dict.fromkeys(map(path_of, expected.get("files") or ()))),
            tuple(dict.fromkeys(symbol_of(each) or each.strip() for each in expected.get("symbols") or ())),
            tuple(dict.fromkeys((path, span) for path, span in spans if span is not None)),
            tuple(dict.fromkeys(each.strip() for each in expected.get("content") or ())),
        )
        given = {path for path in found.files if stands_in(path, asked)}
        given |= {name for name in found.symbols if all(names_it(asked, part) for part in name.split("."))}
        given |= {text for text in found.content if levelled(text) in levelled(asked)}
        rest = any(found.left(name, given) for name in FIELDS)
        return replace(found, given=frozenset(given)) if rest else found

    def left(self, name: str, given: Collection[str]) -> list[Any]:
        """What there is to find in a field."""
        return [each for each in getattr(self, name) if each not in given]

    def judges(self, name: str) -> bool:
        """Whether the claims of a field are right or wrong: not if the question names all of it."""
        return name in self.fields and bool(self.left(name, self.given) or not getattr(self, name))


def _several(told: Any) -> list[Any]:
    return list(told) if isinstance(told, list | tuple) else [told]


def as_mapping(expected: Any) -> Any:
    """Tables hold it as a text."""
    if isinstance(expected, str):
        try:
            return json.loads(expected)
        except (ValueError, RecursionError):
            return expected
    return expected


def flaw_of(expected: Any) -> tuple[str, str] | None:
    """What is wrong with a ground truth, after its name, and how to mend it; None if nothing is.

    >>> flaw_of({"file": ["a.py"]})[0]
    ': unknown key "file" (did you mean "files"?)'
    """
    expected = as_mapping(expected)
    if not isinstance(expected, Mapping):
        what = " is missing" if expected is None else f" must be a mapping, got {short(expected)}"
        return what, f"write {_EXAMPLE}"
    for key in expected:
        if key not in FIELDS:
            return f': unknown key "{key}"{suggestion(str(key), FIELDS)}', f"it has {', '.join(FIELDS)}"
    if all(expected.get(name) is None for name in FIELDS):
        return ": says nothing", f"write {_EXAMPLE}; an empty list says that there is nothing to find"
    for name in ("files", "symbols", "content"):
        if (problem := _flaw_of_list(name, expected.get(name))) is not None:
            return problem
    return _flaw_of_lines(expected.get("lines"))


def _flaw_of_list(name: str, value: Any) -> tuple[str, str] | None:
    if value is None:
        return None
    if not isinstance(value, list | tuple):
        return f".{name} must be a list, got {short(value)}", f"write {_EXAMPLE}"
    for index, item in enumerate(value):
        if not isinstance(item, str) or not item.strip():
            return f".{name}[{index}] must be a text, got {short(item)}", f"write {_EXAMPLE}"
        if name == "files" and (problem := _flaw_of_path(item)) is not None:
            return f".{name}[{index}]{problem}", "write it from the root of the repository, such as src/a.py"
    return None


def _flaw_of_path(text: Any) -> str | None:
    plain = path_of(text) if isinstance(text, str) else ""
    if not plain:
        return f" is no path: {short(text)}"
    outside = plain.startswith(("/", "~")) or plain.split("/")[0] == ".."
    return f" leads out of the repository: {short(text)}" if outside else None


def _flaw_of_lines(value: Any) -> tuple[str, str] | None:
    how = 'write {"src/a.py": [12, "40-52"]}'
    if value is None:
        return None
    if not isinstance(value, Mapping):
        return f".lines must be a mapping of paths, got {short(value)}", how
    for path, told in value.items():
        if (problem := _flaw_of_path(path)) is not None:
            return f".lines{problem}", how
        for each in _several(told):
            if Span.read(each) is None:
                return f".lines.{path} has {short(each)}, which is no line", how
    return None


def levelled(text: str) -> str:
    return " ".join(text.casefold().split())
