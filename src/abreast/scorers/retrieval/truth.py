"""The ground truth of a case, and the part of it that the question reveals."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

from abreast.errors import suggestion
from abreast.scorers.base import short
from abreast.scorers.retrieval.json_fields import FIELDS
from abreast.scorers.retrieval.names import Span, contains_word, names_symbol, path_of, symbol_of

_EXAMPLE = '{"files": ["src/a.py"], "symbols": ["load"], "lines": {"src/a.py": [12]}, "content": ["..."]}'


@dataclass(frozen=True, slots=True)
class GroundTruth:
    """The right answer. Empty fields are not judged, unless all are empty: then nothing is to be found.

    What the question itself names (`in_question`) counts neither as found nor as wrong.
    """

    fields: frozenset[str]
    files: tuple[str, ...]
    symbols: tuple[str, ...]
    lines: tuple[tuple[str, Span], ...]
    content: tuple[str, ...]
    in_question: frozenset[str] = frozenset()

    @classmethod
    def read(cls, expected: Mapping[str, Any], question: str) -> GroundTruth:
        """Read a mapping in which `check_truth` finds no fault."""
        lines = expected.get("lines") or {}
        spans = [(path_of(path), Span.read(line)) for path, value in lines.items() for line in _as_list(value)]
        present = frozenset(name for name in FIELDS if expected.get(name) is not None)
        truth = cls(
            frozenset(name for name in present if expected[name]) or present,
            tuple(dict.fromkeys(map(path_of, expected.get("files") or ()))),
            tuple(dict.fromkeys(symbol_of(name) or name.strip() for name in expected.get("symbols") or ())),
            tuple(dict.fromkeys((path, span) for path, span in spans if span is not None)),
            tuple(dict.fromkeys(text.strip() for text in expected.get("content") or ())),
        )
        in_question = {path for path in truth.files if contains_word(path, question)}
        in_question |= {name for name in truth.symbols if all(names_symbol(question, part) for part in name.split("."))}
        in_question |= {text for text in truth.content if normalize_text(text) in normalize_text(question)}
        has_more = any(truth._unnamed(name, in_question) for name in FIELDS)
        return replace(truth, in_question=frozenset(in_question)) if has_more else truth

    def _unnamed(self, name: str, in_question: Collection[str]) -> list[Any]:
        return [item for item in getattr(self, name) if item not in in_question]

    def judges(self, name: str) -> bool:
        """Whether claims of a field can be right or wrong: not if the question names all of it."""
        return name in self.fields and bool(self._unnamed(name, self.in_question) or not getattr(self, name))


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


def parse_expected(expected: Any) -> Any:
    """Decode an expected value that a table holds as JSON text."""
    if isinstance(expected, str):
        try:
            return json.loads(expected)
        except (ValueError, RecursionError):
            return expected
    return expected


def check_truth(expected: Any) -> tuple[str, str] | None:
    """Return the first fault of a ground truth, as the end of a sentence that begins with its name, and the fix.

    >>> check_truth({"file": ["a.py"]})[0]
    ': unknown key "file" (did you mean "files"?)'
    """
    expected = parse_expected(expected)
    example = f"write {_EXAMPLE}"
    if not isinstance(expected, Mapping):
        return " is missing" if expected is None else f" must be a mapping, got {short(expected)}", example
    for key in expected:
        if key not in FIELDS:
            return f': unknown key "{key}"{suggestion(str(key), FIELDS)}', f"use {', '.join(FIELDS)}"
    if all(expected.get(name) is None for name in FIELDS):
        return " is empty", f"{example}; use an empty list if there is nothing to find"
    for name in ("files", "symbols", "content"):
        value = expected.get(name)
        if value is None:
            continue
        if not isinstance(value, list | tuple):
            return f".{name} must be a list, got {short(value)}", example
        for index, item in enumerate(value):
            if not isinstance(item, str) or not item.strip():
                return f".{name}[{index}] must be a non-empty string, got {short(item)}", example
            if name == "files" and (problem := _check_path(item)) is not None:
                return f".{name}[{index}]{problem}", "use a path relative to the repository root, such as src/a.py"
    return _check_lines(expected.get("lines"))


def _check_path(text: Any) -> str | None:
    path = path_of(text) if isinstance(text, str) else ""
    if not path:
        return f" is not a path: {short(text)}"
    is_outside = path.startswith(("/", "~")) or path.split("/")[0] == ".."
    return f" is outside the repository: {short(text)}" if is_outside else None


def _check_lines(value: Any) -> tuple[str, str] | None:
    example = 'write {"src/a.py": [12, "40-52"]}'
    if value is None:
        return None
    if not isinstance(value, Mapping):
        return f".lines must be a mapping of paths, got {short(value)}", example
    for path, lines in value.items():
        if (problem := _check_path(path)) is not None:
            return f".lines{problem}", example
        for line in _as_list(lines):
            if Span.read(line) is None:
                return f".lines.{path} has {short(line)}, which is not a line or a range", example
    return None


def normalize_text(text: str) -> str:
    return " ".join(text.casefold().split())
