"""What a scorer is, and what the families share: settings, comparison of values, and a cap on hostile text."""

from __future__ import annotations

import hashlib
import json
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from abreast.model import Answer, Case, Check, Score
from abreast.settings import Settings as Named
from abreast.settings import is_number

LONGEST_TEXT = 100_000
LONGEST_PROSE = 30_000
"""For scorers that weigh every sentence."""

NO_EXPECTED = "no expected value"

Mark = tuple[float | None, str]
"""A value in [0, 1], or None if it could not be judged, and a short sentence why."""


class Scorer(ABC):
    """Turns a case and an answer into scores in [0, 1].

    Derive a class from it for a scorer of your own; docs/extending.md shows one in a single file.
    """

    columns: tuple[str, ...]  # names of its scores, without `score_`; a verdict uses the first
    version: str  # changes when the same answer could get another score: stored scores carry it
    needs_expected: bool = True  # every case must have an expected value
    takes_expected: bool = False  # at least one case must have one
    check: Check | None = None  # a command that is run where an agent worked, for its score

    @abstractmethod
    def score(self, case: Case, answer: Answer) -> tuple[Score, ...]: ...

    def flaw(self, expected: Any) -> tuple[str, str] | None:
        """Return what is wrong with the expected value of a case and how to fix it, or None. Asked before a run."""
        return None

    def fill(self, value: float | None, why: str) -> tuple[Score, ...]:
        """Return the same score in every column."""
        return tuple(Score(column, value, why) for column in self.columns)


class ScorerSettings(Named):
    """The settings of one scorer. Files that they name are seen from `base`, the folder of the spec."""

    def __init__(self, kind: str, settings: Mapping[str, Any], base: Path | None = None) -> None:
        super().__init__(f'scorer "{kind}"', settings)
        self.kind = kind
        self.base = base or Path()

    def name(self, default: str) -> str:
        """The prefix of the columns: the setting `name`, which every scorer accepts, or the default."""
        expects = "lowercase letters, digits and underscores, starting with a letter"
        return str(self.take("name", default, is_column, expects))

    def tolerance(self, key: str) -> float | None:
        """A tolerance: a finite number that is not negative, or None if it is not given."""
        value = self.take(key, None, is_tolerance, "a number that is not negative")
        return None if value is None else float(value)

    def version(self, revision: int, *more: str) -> str:
        """A digest of the kind, its settings and the revision of its code. A mere `name` changes no score."""
        given = {key: value for key, value in self.given.items() if key != "name"}
        text = json.dumps([self.kind, revision, given, *more], sort_keys=True, default=str)
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


class Overlap(Scorer):
    """A scorer of what an answer names: F1, precision and recall."""

    revision = 1

    def __init__(self, settings: ScorerSettings) -> None:
        name = settings.name(settings.kind)
        self.columns = (f"{name}_f1", f"{name}_precision", f"{name}_recall")
        self.version = settings.version(self.revision)

    def scores(self, right: int, wrong: int, missing: int, why: str) -> tuple[Score, ...]:
        """The scores for these numbers of items. To name nothing is right where there is nothing."""
        if right:
            values = 2 * right / (2 * right + wrong + missing), right / (right + wrong), right / (right + missing)
        else:
            values = (0.0,) * 3 if wrong or missing else (1.0,) * 3
        return tuple(Score(column, value, why) for column, value in zip(self.columns, values, strict=True))


class SingleColumn(Scorer):
    """A scorer with one column: the family only says how to `mark` an answer."""

    revision = 1

    def __init__(self, settings: ScorerSettings, needs_expected: bool = True) -> None:
        self.columns = (settings.name(settings.kind),)
        self.version = settings.version(self.revision)
        self.needs_expected = needs_expected

    def score(self, case: Case, answer: Answer) -> tuple[Score, ...]:
        if self.needs_expected and case.expected is None:
            return self.fill(None, NO_EXPECTED)
        return self.fill(*self.mark(case.expected, answer))

    @abstractmethod
    def mark(self, expected: Any, answer: Answer) -> Mark:
        """The value and the reason. `expected` is not None if the scorer needs it."""


def is_tolerance(value: Any) -> bool:
    return is_number(value) and 0 <= value < math.inf


def is_range(value: Any) -> bool:
    """Whether a value is two finite numbers, the lower first."""
    if not isinstance(value, list | tuple) or len(value) != 2 or not all(map(is_number, value)):
        return False
    try:
        width = float(value[1]) - float(value[0])
    except OverflowError:  # a whole number beyond the floats
        return False
    return 0 < width < math.inf


def is_column(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch(r"[a-z][a-z0-9_]*", value) is not None


def clipped(text: str, longest: int = LONGEST_TEXT) -> tuple[str, str]:
    """The text, or its beginning and end if it is very long, and a note that says so.

    >>> clipped("short")
    ('short', '')
    """
    if len(text) <= longest:
        return text, ""
    half = longest // 2
    return f"{text[:half]}\n{text[-half:]}", f" (only the first and last {half:,} characters were read)"


def texts_of(expected: Any) -> list[str]:
    """The strings that are right: one, or any of a list. Other values as JSON writes them.

    >>> texts_of(["yes", 1, True])
    ['yes', '1', 'true']
    """
    items = expected if isinstance(expected, list | tuple | set | frozenset) else [expected]
    return [item if isinstance(item, str) else _as_json(item) for item in items]


def returned_value(answer: Answer) -> Any:
    """The value a Python target returned, if it is more than its text; arrays as lists."""
    value = answer.value
    if isinstance(value, str):
        return None
    tolist = getattr(value, "tolist", None)
    return tolist() if callable(tolist) else value


def same(left: Any, right: Any, number: Callable[[Any, Any], bool] = lambda a, b: bool(a == b)) -> bool:
    """Whether two JSON-like values are equal. True is not 1, 1 is 1.0, NaN is nothing.

    >>> same(True, 1), same([1], [1.0]), same({"a": "x"}, {"a": "x"})
    (False, True, True)
    """
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if is_number(left) and is_number(right):
        return number(left, right)
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(same(left[key], right[key], number) for key in left)
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(same(a, b, number) for a, b in zip(left, right, strict=True))
    return type(left) is type(right) and bool(left == right)


def within(found: Any, expected: Any, rel: float, abs_: float) -> bool:
    """|found - expected| <= max(abs, rel * |expected|), for numbers of any size; never for NaN or infinity.

    >>> within(66.0, 66.2, rel=0.01, abs_=0), within(float("nan"), 1, rel=1, abs_=1)
    (True, False)
    """
    try:
        if not (math.isfinite(found) and math.isfinite(expected)):
            return False
        return bool(abs(found - expected) <= max(abs_, rel * abs(expected)))
    except OverflowError:  # an integer beyond the floats
        return bool(found == expected)


def short(value: Any, longest: int = 60) -> str:
    """A value in one short line, whatever it is.

    >>> short("x" * 100, longest=10)
    "'xxxxx..."
    """
    text = rendered(value[:longest] if isinstance(value, str) else value)
    cut = len(text) > longest or (isinstance(value, str) and len(value) > longest)
    return text[: longest - 4] + "..." if cut else text


def rendered(value: Any) -> str:
    """Its `repr`, if it has one."""
    try:
        return repr(value)
    except (ValueError, RecursionError):  # digits beyond the interpreter's limit; nesting beyond its stack
        return f"a huge {type(value).__name__}"


def _as_json(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, sort_keys=True)
    except (TypeError, ValueError, RecursionError):
        return short(value)
