"""A proposed case, and the lines of code that support it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from abreast.model import Answer, Case
from abreast.scorers import Scorer, build
from abreast.suites.code_search.mining.repository import CodeRepository

CONTENT = 200  # characters of a line of evidence

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_A-Za-z]+")


@dataclass(frozen=True, slots=True)
class Proposal:
    """A case as in a case file, its kind and language, and lines of code as evidence (`path:line: text`)."""

    case: dict[str, Any]
    kind: str
    language: str | None
    why: str
    evidence: tuple[str, ...]

    @property
    def id(self) -> str:
        return str(self.case["id"])


@dataclass(frozen=True, slots=True)
class KnownCases:
    """Existing and rejected cases, which are not proposed again."""

    ids: frozenset[str] = frozenset()
    prompts: frozenset[str] = frozenset()


def make_proposal(
    repository: CodeRepository,
    *,
    kind: str,
    language: str | None,
    name: tuple[str, str],
    category: str,
    description: str,
    prompt: str,
    why: str,
    locations: Iterable[tuple[str, int]],
    files: Iterable[str] = (),
    symbols: Sequence[str] = (),
    lines: Mapping[str, Sequence[int]] | None = None,
    content: Sequence[str] = (),
) -> Proposal:
    """Make a proposal whose id comes from `name`, with the lines at `places` (paths and lines) as evidence.

    A right answer names the `symbols`, `content`, `lines`, and the files with lines or in `files`.
    """
    truth = {
        "files": sorted({*(lines or ()), *files}),
        "symbols": list(symbols),
        "lines": dict(sorted((lines or {}).items())),
        "content": list(content),
    }
    case = {
        "id": slug(*name),
        "category": category,
        "description": description,
        "prompt": prompt,
        "ground_truth": {key: value for key, value in truth.items() if value or key == "files"},
    }
    evidence = tuple(f"{path}:{line}: {repository.line(path, line)[:CONTENT]}" for path, line in locations)
    return Proposal(case, kind, language, why, evidence)


def words_of(name: str) -> list[str]:
    """Split a name into words.

    >>> words_of("parseHTTPLine"), words_of("line-length_2")
    (['parse', 'http', 'line'], ['line', 'length', '2'])
    """
    return [word.lower() for word in _WORDS.findall(name)]


def slug(prefix: str, name: str) -> str:
    """Make a readable id.

    >>> slug("def", "Store.openFile")
    'def-store-open-file'
    """
    return "-".join([prefix, *(word for word in words_of(name) if word.isascii())]).removesuffix("-") or prefix


def is_readable_truth(proposal: Proposal) -> bool:
    """Whether the scorer accepts the truth as JSON, and, with simple paths, as prose."""
    prompt, truth = proposal.case["prompt"], proposal.case["ground_truth"]
    renamed = {path: f"folder/file{number}.py" for number, path in enumerate(truth["files"])}
    plain = {**truth, "files": list(renamed.values())}
    if "lines" in truth:
        plain["lines"] = {renamed[path]: lines for path, lines in truth["lines"].items()}
    return (
        all(name.replace(".", "_").isidentifier() for name in truth.get("symbols", ()))
        and f1(prompt, truth, json.dumps(truth)) == 1.0
        and f1(prompt, plain, as_prose(plain)) == 1.0
    )


def as_prose(truth: dict[str, Any]) -> str:
    lines = truth.get("lines", {})
    items = [f"- `{path}:{line}`" for path, numbers in lines.items() for line in numbers]
    items += [f"- `{path}`" for path in truth["files"] if path not in lines]
    items += [f"- `{name}`" for name in truth.get("symbols", ())]
    items += [f"The line is:\n```\n{text}\n```" for text in truth.get("content", ())]
    return "\n".join(["I have found it.", *items])


def f1(question: str, truth: dict[str, Any], answer: str) -> float:
    score, *_ = _scorer().score(Case("case", question, expected=truth), Answer(answer))
    return score.value or 0.0


@cache
def _scorer() -> Scorer:
    return build("retrieval", {})
