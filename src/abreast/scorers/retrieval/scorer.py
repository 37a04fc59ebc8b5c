"""The scorer `retrieval`: which claims of an answer are right, and how much of the truth they cover."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from abreast.model import Answer, Case, Score
from abreast.scorers.base import NO_EXPECTED, Overlap, ScorerSettings, clipped, returned_value, short
from abreast.scorers.retrieval.claims import Claims, read_claims
from abreast.scorers.retrieval.names import Span, distinct, path_of
from abreast.scorers.retrieval.truth import GroundTruth, check_truth, normalize_text, parse_expected
from abreast.settings import is_text

Matches = tuple[str, ...]
"""The expected items that a claim stands for; empty if the claim is wrong."""
TOLERANCE = 2  # lines
_DRIVE = re.compile(r"[A-Za-z]:/")
WIDEST, LONGEST = 40, 1_000  # maximum lines of a range that locates something: anywhere, and from the right line on


class Retrieval(Overlap):
    """F1, precision and recall of everything that an answer claims, over all fields of the truth.

    Repeated claims count once; what the question itself names counts only if it names everything. Paths are compared
    in normal form, and a folder of the truth stands for everything below it. Symbols are whole identifiers, qualified
    or not. A line is matched by a number or range that contains it, else by the nearest one at most `line_tolerance`
    lines (2) away. A quotation is matched whatever its spaces and case. `root` is the folder that absolute paths in
    answers are relative to.

    >>> from abreast.scorers import build
    >>> from abreast.model import Answer, Case
    >>> truth = {"files": ["src/a.py"], "lines": {"src/a.py": [12]}}
    >>> scores = build("retrieval", {}).score(Case("c", "Where?", expected=truth), Answer("In src/a.py:13 and b.py"))
    >>> [(score.name, round(score.value, 2)) for score in scores]
    [('retrieval_f1', 0.8), ('retrieval_precision', 0.67), ('retrieval_recall', 1.0)]
    """

    revision = 3

    def __init__(self, settings: ScorerSettings) -> None:
        super().__init__(settings)
        self._tolerance: int = settings.take(
            "line_tolerance", TOLERANCE, lambda value: type(value) is int and value >= 0, "a whole number, 0 or more"
        )
        root = settings.take("root", None, is_text, "the folder that paths are relative to")
        self._root = None if root is None else path_of(root)

    def score(self, case: Case, answer: Answer) -> tuple[Score, ...]:
        if case.expected is None:
            return self.fill(None, NO_EXPECTED)
        expected = parse_expected(case.expected)
        problem = check_truth(expected)
        if problem is not None:
            return self.fill(None, f"expected{problem[0]}")
        question = (
            case.input if isinstance(case.input, str) else json.dumps(case.input, ensure_ascii=False, default=str)
        )
        truth = GroundTruth.read(expected, question)
        text, note = clipped(answer.text)
        files = _ExpectedPaths(truth.files, self._root)
        claims = read_claims(
            text, returned_value(answer), lambda path: bool(files.matches(path)), question, truth.symbols
        )
        counts = _ClaimCounts(truth.in_question)
        self._count(truth, files, claims, text, counts)
        return self.scores(counts.right, len(counts.wrong), len(counts.missing), counts.explanation(claims) + note)

    def flaw(self, expected: Any) -> tuple[str, str] | None:
        return check_truth(expected)

    def _count(
        self, truth: GroundTruth, files: _ExpectedPaths, claims: Claims, text: str, counts: _ClaimCounts
    ) -> None:
        mentioned = claims.mentioned or Claims((), (), ())
        if truth.judges("files"):
            matches = {claim: files.matches(claim) for claim in claims.files}
            if "files" not in claims.listed:  # prose also names parent folders, and paths with spaces
                matches = {claim: match for claim, match in matches.items() if match or not files.is_parent(claim)}
                matches |= _matching(mentioned.files, files.matches)
                matches |= {path: (path,) for path in truth.files if " " in path and path in text}
            counts.add("/", truth.files, matches)
        if truth.judges("symbols"):
            matches = {claim: _match_symbol(claim, truth.symbols) for claim in claims.symbols}
            if "symbols" not in claims.listed:
                is_read = not claims.listed
                matches = {
                    claim: match
                    for claim, match in matches.items()
                    if match or (is_read and not _is_owner(claim, truth))
                }
                matches |= _matching(mentioned.symbols, lambda claim: _match_symbol(claim, truth.symbols))
            counts.add(".", truth.symbols, matches)
        if truth.judges("lines"):
            matches = self._match_lines(truth, claims)
            matches |= {claim: match for claim, match in self._match_lines(truth, mentioned).items() if match}
            counts.add("/", tuple(f"{file}:{span}" for file, span in truth.lines), matches)
        if truth.judges("content"):
            answer = normalize_text("\n".join((text, *claims.content)))
            counts.add("\n", truth.content, {item: (item,) for item in truth.content if normalize_text(item) in answer})

    def _match_lines(self, truth: GroundTruth, claims: Claims) -> dict[str, Matches]:
        by_file: dict[str, list[Span]] = {}
        for file, span in truth.lines:
            by_file.setdefault(file, []).append(span)
        files = _ExpectedPaths(tuple(by_file), self._root)
        return {
            f"{path}:{span}": tuple(
                f"{file}:{match}" for file in files.matches(path) for match in self._nearest(span, by_file[file])
            )
            for path, span in claims.lines
        }

    def _nearest(self, claim: Span, expected: list[Span]) -> list[Span]:
        """Return the expected spans that a claim contains, else the nearest."""
        distances = {span: max(0, claim.first - span.last, span.first - claim.last) for span in expected}
        near = {
            span: distance
            for span, distance in distances.items()
            if distance <= self._tolerance and self._is_specific(claim, span)
        }
        return [span for span, distance in near.items() if distance == min(near.values())]

    def _is_specific(self, claim: Span, expected: Span) -> bool:
        """Whether a claimed range is narrow enough to locate the expected one."""
        if abs(claim.first - expected.first) <= self._tolerance:
            return claim.last - expected.last <= LONGEST
        return claim.last - claim.first <= max(WIDEST, expected.last - expected.first + 2 * self._tolerance)


class _ExpectedPaths:
    """The expected files and folders, and which of them a claimed path stands for."""

    def __init__(self, paths: tuple[str, ...], root: str | None) -> None:
        self._paths, self._root = frozenset(paths), root
        self._by_name: dict[str, list[str]] = {}
        for path in paths:
            self._by_name.setdefault(path.rpartition("/")[2], []).append(path)
        self._parents = {folder for path in paths for folder in _with_parents(path)} - self._paths

    def matches(self, claim: str) -> Matches:
        """Return the file itself or the folders that it is in; else the only path that ends with the claim."""
        for form in self._forms(claim):
            if matches := tuple(path for path in _with_parents(form) if path in self._paths):
                return matches
        if claim.startswith("/") or _DRIVE.match(claim):
            parts = claim.split("/")
            tails = ("/".join(parts[index:]) for index in range(1, len(parts)))
            return next(((tail,) for tail in tails if tail in self._paths), ()) if self._root is None else ()
        ends = [path for path in self._by_name.get(claim.rpartition("/")[2], ()) if path.endswith(f"/{claim}")]
        return tuple(ends) if len(ends) == 1 else ()

    def is_parent(self, claim: str) -> bool:
        return any(form in self._parents for form in self._forms(claim))

    def _forms(self, claim: str) -> tuple[str, ...]:
        """Return the possible forms of a path relative to the root."""
        if self._root is None:
            return (claim,)
        if claim.startswith(f"{self._root}/"):
            return (claim.removeprefix(f"{self._root}/"),)
        return claim, claim.removeprefix(f"{self._root.rpartition('/')[2]}/")


def _with_parents(path: str) -> list[str]:
    """Return a path and its parent folders.

    >>> _with_parents("a/b/c.py")
    ['a/b/c.py', 'a/b', 'a']
    """
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(len(parts), 0, -1)]


def _match_symbol(claim: str, symbols: tuple[str, ...]) -> Matches:
    """Return the expected symbol of this name; it may be qualified more, or less if that is unambiguous."""
    if claim in symbols:
        return (claim,)
    longer = [symbol for symbol in symbols if claim.endswith(f".{symbol}")]
    shorter = [symbol for symbol in symbols if symbol.endswith(f".{claim}")]
    return (max(longer, key=len),) if longer else tuple(shorter) if len(shorter) == 1 else ()


def _matching(claims: Iterable[str], matches: Callable[[str], Matches]) -> dict[str, Matches]:
    return {claim: match for claim in claims if (match := matches(claim))}


def _is_owner(claim: str, truth: GroundTruth) -> bool:
    """Whether an expected symbol is a member of this one: `Store` of `Store.get`."""
    return any(f".{claim}." in f".{symbol}" for symbol in truth.symbols)


@dataclass(slots=True)
class _ClaimCounts:
    """Right and wrong claims and missing items, over all fields."""

    in_question: frozenset[str]
    right: int = 0
    missing: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def add(self, separator: str, expected: Iterable[str], matches: Mapping[str, Matches]) -> None:
        matched = {item for match in matches.values() for item in match}
        required = [item for item in expected if item not in self.in_question]
        missing = [item for item in required if item not in matched]
        self.right += len(required) - len(missing)
        self.missing += missing
        self.wrong += [claim for claim in distinct(matches, separator) if not matches[claim]]

    def explanation(self, claims: Claims) -> str:
        text = f"{self.right} of {self.right + len(self.missing)} found, {len(self.wrong)} wrong"
        for word, items in (("missing", self.missing), ("wrong", self.wrong)):
            if items:
                text += f"; {word}: {short(', '.join(items[:10]), 120)}"
        return text if claims.listed else f"{text} (read from prose)"
