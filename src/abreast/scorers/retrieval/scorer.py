"""The scorer `retrieval`: which claims of an answer are right, and what of the truth they find."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from abreast.model import Answer, Case, Score
from abreast.scorers.base import NO_EXPECTED, Overlap, Settings, clipped, given_value, short
from abreast.scorers.retrieval.claims import Claims, claims_in
from abreast.scorers.retrieval.names import Span, distinct, path_of
from abreast.scorers.retrieval.truth import Truth, as_mapping, flaw_of, levelled
from abreast.settings import is_text

Hits = tuple[str, ...]
"""What of the truth a claim means; nothing if it is wrong."""
TOLERANCE = 2  # lines
_DRIVE = re.compile(r"[A-Za-z]:/")
WIDEST, LONGEST = 40, 1_000  # lines of a range that still says where something is; if it begins there, what it is


class Retrieval(Overlap):
    """F1, precision and recall of everything that an answer claims, over all fields that the truth has.

    What is found of the truth is compared with what is wrong of the claims; to claim a thing twice gains nothing, nor
    does what the question names itself, unless it names all. Paths are compared in their plain form, a folder of the
    truth stands for everything below it; symbols are whole identifiers, with what they belong to or without; a line is
    found by a number or a range that has it, else by the nearest, `line_tolerance` lines (2) off at most; a quotation
    is found if the answer has it, whatever its spaces and capitals. `root` is where the files are, for answers that
    name whole paths.

    >>> from abreast.scorers import build
    >>> from abreast.model import Answer, Case
    >>> truth = {"files": ["src/a.py"], "lines": {"src/a.py": [12]}}
    >>> scores = build("retrieval", {}).score(Case("c", "Where?", expected=truth), Answer("In src/a.py:13 and b.py"))
    >>> [(score.name, round(score.value, 2)) for score in scores]
    [('retrieval_f1', 0.8), ('retrieval_precision', 0.67), ('retrieval_recall', 1.0)]
    """

    revision = 2

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._tolerance: int = settings.take(
            "line_tolerance", TOLERANCE, _is_lines, "a whole number that is not negative"
        )
        root = settings.take("root", None, is_text, "the folder that paths count from")
        self._root = None if root is None else path_of(root)

    def score(self, case: Case, answer: Answer) -> tuple[Score, ...]:
        if case.expected is None:
            return self.fill(None, NO_EXPECTED)
        expected = as_mapping(case.expected)
        problem = flaw_of(expected)
        if problem is not None:
            return self.fill(None, f"expected{problem[0]}")
        asked = case.input if isinstance(case.input, str) else json.dumps(case.input, ensure_ascii=False, default=str)
        truth = Truth.read(expected, asked)
        text, note = clipped(answer.text)
        files = _Paths(truth.files, self._root)
        claims = claims_in(text, given_value(answer), lambda path: bool(files.meant(path)), asked, truth.symbols)
        counted = _Counted(truth.given)
        self._count(truth, files, claims, text, counted)
        why = counted.explanation(claims) + note
        return self.scores(counted.found, len(counted.wrong), len(counted.missing), why)

    def flaw(self, expected: Any) -> tuple[str, str] | None:
        return flaw_of(expected)

    def _count(self, truth: Truth, files: _Paths, claims: Claims, text: str, counted: _Counted) -> None:
        aside = claims.mentioned or Claims((), (), ())
        if truth.judges("files"):
            hits = {claim: files.meant(claim) for claim in claims.files}
            if "files" not in claims.listed:  # prose has folders on the way to a file, and names of any form
                hits = {claim: hit for claim, hit in hits.items() if hit or not files.is_above_one(claim)}
                hits |= _right(aside.files, files.meant)
                hits |= {want: (want,) for want in truth.files if " " in want and want in text}
            counted.add("/", truth.files, hits)
        if truth.judges("symbols"):
            hits = {claim: _symbol(claim, truth.symbols) for claim in claims.symbols}
            if "symbols" not in claims.listed:
                hits = {claim: hit for claim, hit in hits.items() if hit or not (claims.listed or _owns(claim, truth))}
                hits |= _right(aside.symbols, lambda claim: _symbol(claim, truth.symbols))
            counted.add(".", truth.symbols, hits)
        if truth.judges("lines"):
            hits = self._lines(truth, claims)
            hits |= {claim: hit for claim, hit in self._lines(truth, aside).items() if hit}
            counted.add("/", tuple(f"{file}:{span}" for file, span in truth.lines), hits)
        if truth.judges("content"):
            said = levelled("\n".join((text, *claims.content)))
            counted.add("\n", truth.content, {want: (want,) for want in truth.content if levelled(want) in said})

    def _lines(self, truth: Truth, claims: Claims) -> dict[str, Hits]:
        by_file: dict[str, list[Span]] = {}
        for file, span in truth.lines:
            by_file.setdefault(file, []).append(span)
        files = _Paths(tuple(by_file), self._root)
        return {
            f"{path}:{span}": tuple(
                f"{file}:{want}" for file in files.meant(path) for want in self._nearest(span, by_file[file])
            )
            for path, span in claims.lines
        }

    def _nearest(self, claim: Span, wanted: list[Span]) -> list[Span]:
        """The wanted places that a claimed one is: those that it has, else the nearest."""
        off = {want: max(0, claim.first - want.last, want.first - claim.last) for want in wanted}
        near = [want for want in wanted if off[want] <= self._tolerance and self._is_no_wider(claim, want)]
        return [want for want in near if off[want] == min(off[each] for each in near)]

    def _is_no_wider(self, claim: Span, want: Span) -> bool:
        """Whether a claimed range still says where: it begins there, or it is no whole file."""
        if abs(claim.first - want.first) <= self._tolerance:
            return claim.last - want.last <= LONGEST
        return claim.last - claim.first <= max(WIDEST, want.last - want.first + 2 * self._tolerance)


class _Paths:
    """Files and folders that are right, and which of them a claimed path means."""

    def __init__(self, wanted: tuple[str, ...], root: str | None) -> None:
        self._wanted, self._root = frozenset(wanted), root
        self._by_name: dict[str, list[str]] = {}
        for want in wanted:
            self._by_name.setdefault(want.rpartition("/")[2], []).append(want)
        self._above = {folder for want in wanted for folder in _and_above(want)} - self._wanted

    def meant(self, claim: str) -> Hits:
        """The file itself, or the folders that it is in; else the one whose end it is."""
        for form in self._forms(claim):
            if found := tuple(path for path in _and_above(form) if path in self._wanted):
                return found
        if claim.startswith("/") or _DRIVE.match(claim):
            parts = claim.split("/")
            tails = ("/".join(parts[at:]) for at in range(1, len(parts)))
            return next(((tail,) for tail in tails if tail in self._wanted), ()) if self._root is None else ()
        ends = [want for want in self._by_name.get(claim.rpartition("/")[2], ()) if want.endswith(f"/{claim}")]
        return tuple(ends) if len(ends) == 1 else ()

    def is_above_one(self, claim: str) -> bool:
        """Whether this is a folder on the way to a file that is right."""
        return any(form in self._above for form in self._forms(claim))

    def _forms(self, claim: str) -> tuple[str, ...]:
        """What a path may be, seen from the root."""
        if self._root is None:
            return (claim,)
        if claim.startswith(f"{self._root}/"):
            return (claim.removeprefix(f"{self._root}/"),)
        return claim, claim.removeprefix(f"{self._root.rpartition('/')[2]}/")


def _and_above(path: str) -> list[str]:
    """A path and the folders above it.

    >>> _and_above("a/b/c.py")
    ['a/b/c.py', 'a/b', 'a']
    """
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(len(parts), 0, -1)]


def _symbol(claim: str, wanted: tuple[str, ...]) -> Hits:
    """The symbol of the truth that a claimed name means: the same, or said with more before it, or, if that is clear,
    with less."""
    if claim in wanted:
        return (claim,)
    longer = [want for want in wanted if claim.endswith(f".{want}")]
    shorter = [want for want in wanted if want.endswith(f".{claim}")]
    return (max(longer, key=len),) if longer else tuple(shorter) if len(shorter) == 1 else ()


def _right(claims: Iterable[str], meant: Callable[[str], Hits]) -> dict[str, Hits]:
    return {claim: hit for claim in claims if (hit := meant(claim))}


def _owns(claim: str, truth: Truth) -> bool:
    """Whether this is what a symbol of the truth belongs to: `Store` of `Store.get`."""
    return any(f".{claim}." in f".{want}" for want in truth.symbols)


def _is_lines(value: Any) -> bool:
    return type(value) is int and value >= 0


@dataclass(slots=True)
class _Counted:
    """What is found of the truth and what is missing, and which claims are wrong, over all fields."""

    given: frozenset[str]
    found: int = 0
    missing: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def add(self, separator: str, truths: Iterable[str], hits: Mapping[str, Hits]) -> None:
        met = {want for hit in hits.values() for want in hit}
        asked_for = [want for want in truths if want not in self.given]
        missing = [want for want in asked_for if want not in met]
        self.found += len(asked_for) - len(missing)
        self.missing += missing
        self.wrong += [claim for claim in distinct(hits, separator) if not hits[claim]]

    def explanation(self, claims: Claims) -> str:
        text = f"{self.found} of {self.found + len(self.missing)} found, {len(self.wrong)} wrong"
        for word, items in (("missing", self.missing), ("wrong", self.wrong)):
            if items:
                text += f"; {word}: {short(', '.join(items[:10]), 120)}"
        return text if claims.listed else f"{text} (read from prose)"
