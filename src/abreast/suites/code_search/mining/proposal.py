"""A proposed case, and the lines of code that support it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from abreast.model import Answer, Case
from abreast.scorers import Scorer, build
from abreast.suites.code_search.mining.repository import Repository

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
        truth: dict[str, Any] = {"files": sorted({*self.lines, *self.files})}
        if self.symbols:
            truth["symbols"] = self.symbols
        if self.lines:
            truth["lines"] = {path: self.lines[path] for path in sorted(self.lines)}
        if self.content:
            truth["content"] = self.content
        return truth


def make_proposal(
    repository: Repository,
    *,
    kind: str,
    language: str | None,
    name: tuple[str, str],
    category: str,
    description: str,
    prompt: str,
    truth: Truth,
    why: str,
    places: Iterable[tuple[str, int]],
) -> Proposal:
    """A proposal whose id is made of `name`, with the lines at `places` (paths and lines) as evidence."""
    case = {
        "id": slug(*name),
        "category": category,
        "description": description,
        "prompt": prompt,
        "ground_truth": truth.written(),
    }
    evidence = tuple(Evidence(path, line, repository.line(path, line)) for path, line in places)
    return Proposal(case, kind, language, why, evidence)


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


def is_understood(proposal: Proposal) -> bool:
    """Whether the scorer accepts the truth as JSON, and as prose with plain paths: JSON alone has those with spaces."""
    truth = proposal.case["ground_truth"]
    plain = _with_plain_paths(truth)
    return all(name.replace(".", "_").isidentifier() for name in truth.get("symbols", ())) and (
        _is_right(proposal, truth, json.dumps(truth)) and _is_right(proposal, plain, as_prose(plain))
    )


def as_prose(truth: dict[str, Any]) -> str:
    lines = truth.get("lines", {})
    items = [f"- `{path}:{line}`" for path, numbers in lines.items() for line in numbers]
    items += [f"- `{path}`" for path in truth["files"] if path not in lines]
    items += [f"- `{name}`" for name in truth.get("symbols", ())]
    items += [f"The line is:\n```\n{text}\n```" for text in truth.get("content", ())]
    return "\n".join(["I have found it.", *items])


def _with_plain_paths(truth: dict[str, Any]) -> dict[str, Any]:
    plain = {path: f"folder/file{number}.py" for number, path in enumerate(truth["files"])}
    lines = {plain[path]: lines for path, lines in truth.get("lines", {}).items()}
    return {**truth, "files": list(plain.values()), **({"lines": lines} if lines else {})}


def _is_right(proposal: Proposal, truth: dict[str, Any], answer: str) -> bool:
    return f1(proposal.case["prompt"], truth, answer) == 1.0


def f1(question: str, truth: dict[str, Any], answer: str) -> float:
    score, *_ = _scorer().score(Case("case", question, expected=truth), Answer(answer))
    return score.value or 0.0


@cache
def _scorer() -> Scorer:
    return build("retrieval", {})
