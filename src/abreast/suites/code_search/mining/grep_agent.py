"""A scripted agent that answers a question with `git grep` alone: the measure of how difficult a case is."""

from __future__ import annotations

import json
import re
from typing import Any

from abreast.plan import git
from abreast.suites.code_search.mining.proposal import f1
from abreast.suites.code_search.mining.repository import CodeRepository

EASY, MEDIUM = 0.8, 0.3  # the least F1 of an easy and of a medium case; below, it is hard
MOST_HITS = 200  # lines that the agent reads
FILES_OF_COMMIT = 3  # files it names if all it has are the words of a commit message

_NAMED = re.compile(r"`([^`\s]+)`")
_QUOTED = re.compile(r'"([^"]+)"')
_ASKS_DEFINITION = re.compile(r"\b(?:defined|override|set\?|get its value|declares)")
_WORDS = r"^\s*(?:(?:[\w@{}!\"]+|pub\([^)]*\))\s+)*?"
_DEFINES = re.compile(
    _WORDS + r"(?:def|class|func|fn|function|interface|trait|struct|enum|type|const|let|var)\b\s*\*?\s*"
    r"(?:\([^)]*\)\s*)?(?P<name>\w+)"
)
_SCOPES = (  # what an agent takes for the function or class around a line
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
    """Return the F1 of the agent's answer to a case, to two digits."""
    return round(f1(case["prompt"], case["ground_truth"], json.dumps(answer(repository, case["prompt"]))), 2)


def answer(repository: CodeRepository, question: str) -> dict[str, Any]:
    """Answer a question, given nothing but its text.

    The last name in backticks is searched for: lines that look like a definition if the question asks for one, else all
    others but imports and comments. A commit message is answered with the files that have most of its rare words.
    """
    if quoted := _QUOTED.search(question):
        return {"files": _files_with_words(repository, quoted[1])}
    names = _NAMED.findall(question)
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
        hits = [hit for hit in hits if "test" in f"{hit[0]} {_around(repository, hit, None)}".lower()]
    return _as_answer(repository, question, hits, names[-1] if is_definition else None)


def _as_answer(repository: CodeRepository, question: str, hits: list[Hit], name: str | None) -> dict[str, Any]:
    result: dict[str, Any] = {"files": sorted({path for path, _, _ in hits})}
    if re.search(r"\bnames?\b", question):
        around = [_around(repository, hit, name) for hit in hits]
        result["symbols"] = sorted({symbol for symbol in around if symbol})
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
    """Run `git grep` in the files that git tracks; in all files where there is no git."""
    tracked = ("grep", "-I", "-z", "-F", *options)
    if repository.is_tracked:
        return git.ask(repository.root, *tracked) or ""
    return git.ask(repository.root, "grep", "--no-index", *tracked[1:]) or ""


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
    found = _DEFINES.match(text)
    names = [found["name"] if found else None, _scope(text)]
    return (
        name in names or re.match(rf"\W*(?:[\w.]+\s+)?{re.escape(name)}['\"]?(?:\s*[:=](?!=)|\s+v\d)", text) is not None
    )


def _scope(text: str) -> str | None:
    return next((found["name"] for pattern in _SCOPES if (found := pattern.match(text))), None)


def _around(repository: CodeRepository, hit: Hit, name: str | None) -> str | None:
    """Return the nearest definition above a line that is indented less; before a name that is given, if it is."""
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
