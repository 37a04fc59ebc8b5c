"""A scripted agent that answers questions with `git grep`, to measure the difficulty of cases."""

from __future__ import annotations

import json
import re
from typing import Any

from abreast.plan import git
from abreast.suites.code_search.mining.proposal import f1
from abreast.suites.code_search.mining.repository import CodeRepository

EASY, MEDIUM = 0.8, 0.3  # minimum F1 of easy and medium cases
MOST_HITS = 200  # lines that the agent reads
FILES_OF_COMMIT = 3  # files in an answer about a commit message

_BACKTICKS = re.compile(r"`([^`\s]+)`")
_QUOTED = re.compile(r'"([^"]+)"')
_ASKS_DEFINITION = re.compile(r"\b(?:defined|override|set\?|get its value|declares)")
_WORDS = r"^\s*(?:(?:[\w@{}!\"]+|pub\([^)]*\))\s+)*?"
_DEFINES = re.compile(
    _WORDS + r"(?:def|class|func|fn|function|interface|trait|struct|enum|type|const|let|var)\b\s*\*?\s*"
    r"(?:\([^)]*\)\s*)?(?P<name>\w+)"
)
_SCOPES = (  # headers of functions and classes
    re.compile(
        _WORDS + r"(?:def|class|func|fn|function|interface|trait|struct|enum)\b\s*\*?\s*(?:\([^)]*\)\s*)?(?P<name>\w+)"
    ),
    re.compile(r"^\s*impl\b(?:<[^>]*>)?\s+(?:[^{]*\sfor\s+)?(?P<name>\w+)"),
    re.compile(r"^\s*(?:export\s+)?(?:const|let|var)\s+(?P<name>\w+)[^=]*=\s*(?:async\s*)?(?:function\b|\(|\w+\s*=>)"),
    re.compile(
        r"^\s*(?!(?:if|for|while|switch|catch|return|match|with|else|\}|let|const|var)\b)"
        r"(?:[\w<>\[\],.]+\s+)*(?P<name>\w+)\s*(?:<[^(]*>)?\([^;=]*\{\s*$"
    ),
)
_IMPORTS = re.compile(r"^\s*(?:import|from|use|pub use|export \*|export \{|#include|//|#|\*)")
_STOP_WORDS = {
    *("about", "added", "adding", "after", "also", "allow", "before", "being", "change", "changed", "does", "fixed"),
    *("from", "have", "into", "make", "made", "more", "only", "over", "remove", "removed", "should", "some", "support"),
    *("than", "that", "their", "them", "then", "this", "update", "using", "when", "where", "which", "with"),
}

Hit = tuple[str, int, str]


def difficulty(score: float) -> str:
    return "easy" if score >= EASY else "medium" if score >= MEDIUM else "hard"


def measure(repository: CodeRepository, case: dict[str, Any]) -> float:
    """Return the F1 of the agent's answer to a case, rounded to two digits."""
    return round(f1(case["prompt"], case["ground_truth"], json.dumps(answer(repository, case["prompt"]))), 2)


def answer(repository: CodeRepository, question: str) -> dict[str, Any]:
    """Answer a question from its text alone.

    Search for the last name in backticks: return lines that look like a definition if the question asks for one, else
    the others but imports and comments. For a commit message, return the files with most of its rare words.
    """
    if quoted := _QUOTED.search(question):
        return {"files": _files_with_words(repository, quoted[1])}
    names = _BACKTICKS.findall(question)
    if not names:
        return {"files": []}
    hits = _grep(repository, names[-1])
    defining = [hit for hit in hits if _defines(hit[2], names[-1])]
    is_definition = _ASKS_DEFINITION.search(question) is not None
    if is_definition:
        hits = defining or hits
    else:
        hits = [hit for hit in hits if hit not in defining and not _IMPORTS.match(hit[2])]
    if question.startswith("Which tests"):
        hits = [hit for hit in hits if "test" in f"{hit[0]} {_find_enclosing(repository, hit, None)}".lower()]
    return _make_answer(repository, question, hits, names[-1] if is_definition else None)


def _make_answer(repository: CodeRepository, question: str, hits: list[Hit], name: str | None) -> dict[str, Any]:
    result: dict[str, Any] = {"files": sorted({path for path, _, _ in hits})}
    if re.search(r"\bnames?\b", question):
        symbols = [_find_enclosing(repository, hit, name) for hit in hits]
        result["symbols"] = sorted({symbol for symbol in symbols if symbol})
    if re.search(r"\blines?\b", question):
        result["lines"] = {path: sorted({line for file, line, _ in hits if file == path}) for path in result["files"]}
    if "quotation" in question:
        result["content"] = [text.strip() for _, _, text in hits]
    return result


def _grep(repository: CodeRepository, word: str, *options: str) -> list[Hit]:
    output = _run(repository, "-n", "-w", *options, "-e", word)
    hits = []
    for line in output.splitlines()[:MOST_HITS]:
        path, number, text = (*line.split("\0", 2), "", "")[:3]
        if number.isdigit():
            hits.append((path, int(number), text))
    return hits


def _run(repository: CodeRepository, *options: str) -> str:
    """Run `git grep` in tracked files, or in all files outside of a repository."""
    tracked = ("grep", "-I", "-z", "-F", *options)
    if repository.is_tracked:
        return git.output(repository.root, *tracked) or ""
    return git.output(repository.root, "grep", "--no-index", *tracked[1:]) or ""


def _files_with_words(repository: CodeRepository, message: str) -> list[str]:
    words = {word.lower() for word in re.findall(r"\w{4,}", message)} - _STOP_WORDS
    weights: dict[str, float] = {}
    for word in sorted(words):
        paths = [path for path in _run(repository, "-l", "-i", "-w", "-e", word).split("\0") if path]
        for path in paths:
            weights[path] = weights.get(path, 0.0) + 1 / len(paths)
    ranked = sorted(weights, key=lambda path: (-weights[path], path))
    return ranked[:FILES_OF_COMMIT]


def _defines(text: str, name: str) -> bool:
    match = _DEFINES.match(text)
    return (
        name in (match and match["name"], _scope(text))
        or re.match(rf"\W*(?:[\w.]+\s+)?{re.escape(name)}['\"]?(?:\s*[:=](?!=)|\s+v\d)", text) is not None
    )


def _scope(text: str) -> str | None:
    return next((match["name"] for pattern in _SCOPES if (match := pattern.match(text))), None)


def _find_enclosing(repository: CodeRepository, hit: Hit, name: str | None) -> str | None:
    """Return the enclosing definition by indentation, with `name` as a member of it."""
    path, number, text = hit
    own = _scope(text)
    if own and name is None:
        return own
    lines = repository.text(path).split("\n")
    indent = _indent(text)
    for line in reversed(lines[: number - 1]):
        if line.strip() and _indent(line) < indent:
            indent = _indent(line)
            if defined := _scope(line):
                return f"{defined}.{name}" if name else defined
    return name


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
