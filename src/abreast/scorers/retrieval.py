"""`retrieval`: which files, symbols, lines and quotations an answer claims, and which of them are right."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from abreast.errors import suggestion
from abreast.model import Answer, Case, Score
from abreast.scorers.base import NO_EXPECTED, Settings, clipped, given_value, short
from abreast.scorers.claims import FIELDS, Claims, Span, claims_in, names_it, path_of, symbol_of
from abreast.settings import is_text

TOLERANCE = 2  # lines
WIDEST, LONGEST = 100, 1_000  # lines of a range that still says where something is; if it begins there, what it is
_EXAMPLE = '{"files": ["src/a.py"], "symbols": ["load"], "lines": {"src/a.py": [12]}, "content": ["..."]}'


class Retrieval:
    """F1, precision and recall of everything that an answer claims, over all fields that the truth has.

    Paths are compared in their plain form, a folder stands for everything below it; symbols are whole identifiers,
    with what they belong to or without; a line is found by a number or a range that has it, `line_tolerance` lines (2)
    off at most; a quotation is found if the answer has it, whatever its spaces and capitals. `root` is where the files
    are, for answers that name whole paths.

    >>> from abreast.scorers import build
    >>> from abreast.model import Answer, Case
    >>> truth = {"files": ["src/a.py"], "lines": {"src/a.py": [12]}}
    >>> scores = build("retrieval", {}).score(Case("c", "Where?", expected=truth), Answer("In src/a.py:13 and b.py"))
    >>> [(score.name, round(score.value, 2)) for score in scores]
    [('retrieval_f1', 0.8), ('retrieval_precision', 0.67), ('retrieval_recall', 1.0)]
    """

    revision = 1
    needs_expected = True

    def __init__(self, settings: Settings) -> None:
        name = settings.name("retrieval")
        self._tolerance: int = settings.take(
            "line_tolerance", TOLERANCE, _is_lines, "a whole number that is not negative"
        )
        root = settings.take("root", None, is_text, "the folder that paths count from")
        self._root = None if root is None else path_of(root)
        self.columns: tuple[str, ...] = (f"{name}_f1", f"{name}_precision", f"{name}_recall")
        self.version = settings.version(self.revision)

    def score(self, case: Case, answer: Answer) -> tuple[Score, ...]:
        if case.expected is None:
            return self._all(None, NO_EXPECTED)
        expected = _as_mapping(case.expected)
        problem = flaw_of(expected)
        if problem is not None:
            return self._all(None, f"expected{problem[0]}")
        truth = Truth.read(expected)
        text, note = clipped(answer.text)
        asked = case.input if isinstance(case.input, str) else json.dumps(case.input, ensure_ascii=False, default=str)
        claims = claims_in(text, given_value(answer), lambda path: self._file(path, truth) is not None, asked)
        counted = _Counted(truth.fields)
        self._count(truth, claims, text, counted)
        return tuple(
            Score(column, value, counted.told(claims) + note)
            for column, value in zip(self.columns, counted.measures(), strict=True)
        )

    def flaw(self, expected: Any) -> tuple[str, str] | None:
        return flaw_of(expected)

    def _all(self, value: float | None, why: str) -> tuple[Score, ...]:
        return tuple(Score(column, value, why) for column in self.columns)

    def _count(self, truth: Truth, claims: Claims, text: str, counted: _Counted) -> None:
        if "files" in truth.fields:
            counted.add("files", truth.files, claims.files, {claim: self._file(claim, truth) for claim in claims.files})
        if "symbols" in truth.fields:
            symbols = claims.symbols
            if "symbols" not in claims.listed:  # in prose, a name need not be marked as code
                named = [want for want in truth.symbols if not _symbol_among(want, symbols) and names_it(text, want)]
                symbols = (*symbols, *named)
            counted.add("symbols", truth.symbols, symbols, {claim: _symbol(claim, truth.symbols) for claim in symbols})
        if "lines" in truth.fields:
            self._count_lines(truth, claims, counted)
        if "content" in truth.fields:
            plain = _plain(text)
            hits = tuple(want for want in truth.content if _plain(want) in plain)
            counted.add("content", truth.content, hits, {hit: (hit,) for hit in hits})

    def _count_lines(self, truth: Truth, claims: Claims, counted: _Counted) -> None:
        hits: dict[str, tuple[str, ...] | None] = {}
        for path, span in claims.lines:
            there = [(file, want) for file, want in truth.lines if self._is_same_file(path, file, truth.line_files)]
            near = tuple(f"{file}:{want}" for file, want in there if self._is_near(span, want))
            hits[f"{path}:{span}"] = near or None
        counted.add("lines", tuple(f"{file}:{span}" for file, span in truth.lines), tuple(hits), hits)

    def _is_near(self, claim: Span, want: Span) -> bool:
        """Whether a claimed place is the wanted one: it begins there, or it has it and is no whole file."""
        if abs(claim.first - want.first) <= self._tolerance:
            return claim.last - want.last <= LONGEST
        overlaps = claim.first - self._tolerance <= want.last and want.first <= claim.last + self._tolerance
        widest: int = max(WIDEST, want.last - want.first + 2 * self._tolerance)
        return overlaps and claim.last - claim.first <= widest

    # -- files ---------------------------------------------------------------------------------------------------------

    def _file(self, claim: str, truth: Truth) -> tuple[str, ...] | None:
        """The files of the truth that a claimed path means; None if it means none of them."""
        return tuple(want for want in truth.files if self._is_same_file(claim, want, truth.files)) or None

    def _is_same_file(self, claim: str, want: str, all_of_them: Iterable[str]) -> bool:
        if any(form == want or form.startswith(f"{want}/") for form in self._forms(claim)):
            return True
        if claim.startswith("/"):
            return self._root is None and claim.endswith(f"/{want}")
        return want.endswith(f"/{claim}") and sum(each.endswith(f"/{claim}") for each in all_of_them) == 1

    def _forms(self, claim: str) -> tuple[str, ...]:
        """What a path may be, seen from the root."""
        if self._root is None:
            return (claim,)
        if claim.startswith(f"{self._root}/"):
            return (claim.removeprefix(f"{self._root}/"),)
        return claim, claim.removeprefix(f"{self._root.rpartition('/')[2]}/")


def _symbol(claim: str, wanted: tuple[str, ...]) -> tuple[str, ...] | None:
    """The symbols of the truth that a claimed name means: the same, or said with more before it, or, if that is clear,
    with less."""
    longer = tuple(want for want in wanted if claim == want or claim.endswith(f".{want}"))
    shorter = tuple(want for want in wanted if want.endswith(f".{claim}"))
    return longer or (shorter if len(shorter) == 1 else None)


def _symbol_among(want: str, claims: Iterable[str]) -> bool:
    return any(_symbol(claim, (want,)) for claim in claims)


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


def _is_lines(value: Any) -> bool:
    return type(value) is int and value >= 0


# -- the truth --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Truth:
    """What is right. Only the fields that are there are judged; an empty one says that there is nothing to claim."""

    fields: tuple[str, ...]
    files: tuple[str, ...] = ()
    symbols: tuple[str, ...] = ()
    lines: tuple[tuple[str, Span], ...] = ()
    content: tuple[str, ...] = ()

    @classmethod
    def read(cls, expected: Mapping[str, Any]) -> Truth:
        """Of a mapping that has no flaw."""
        lines = expected.get("lines") or {}
        spans = [(path_of(path), Span.read(each)) for path, told in lines.items() for each in _several(told)]
        return cls(
            tuple(name for name in FIELDS if expected.get(name) is not None),
            tuple(dict.fromkeys(map(path_of, expected.get("files") or ()))),
            tuple(dict.fromkeys(symbol_of(each) or each.strip() for each in expected.get("symbols") or ())),
            tuple(dict.fromkeys((path, span) for path, span in spans if span is not None)),
            tuple(dict.fromkeys(each.strip() for each in expected.get("content") or ())),
        )

    @property
    def line_files(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(file for file, _ in self.lines))


def _several(told: Any) -> list[Any]:
    return list(told) if isinstance(told, list | tuple) else [told]


def _as_mapping(expected: Any) -> Any:
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
    expected = _as_mapping(expected)
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


# -- counting ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Counted:
    """What is right of the claims, and what is found of the truth, over all fields."""

    fields: tuple[str, ...]
    claims: int = 0
    truths: int = 0
    missing: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def add(
        self, name: str, truths: Iterable[str], claims: Iterable[str], hits: Mapping[str, tuple[str, ...] | None]
    ) -> None:
        truths, claims = list(truths), list(claims)
        found = {want for hit in hits.values() for want in hit or ()}
        self.claims += len(claims)
        self.truths += len(truths)
        self.missing += [want for want in truths if want not in found]
        self.wrong += [claim for claim in claims if not hits[claim]]

    def measures(self) -> tuple[float, float, float]:
        if not self.claims and not self.truths:
            return 1.0, 1.0, 1.0
        right, found = self.claims - len(self.wrong), self.truths - len(self.missing)
        if not right or not found:
            return 0.0, 0.0, 0.0
        precision, recall = right / self.claims, found / self.truths
        return 2 * precision * recall / (precision + recall), precision, recall

    def told(self, claims: Claims) -> str:
        said = (
            f"{self.truths - len(self.missing)} of {self.truths} found, {len(self.wrong)} of {self.claims} claims wrong"
        )
        for word, items in (("missing", self.missing), ("wrong", self.wrong)):
            if items:
                said += f"; {word}: {short(', '.join(items[:10]), 120)}"
        return said if claims.listed else f"{said} (read from prose)"
