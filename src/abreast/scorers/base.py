"""The base class of scorers, their settings, comparison of values, and a cap on hostile text."""

from __future__ import annotations

import hashlib
import json
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

from abreast.model import Answer, Case, Check, Score
from abreast.settings import Settings, is_number

LONGEST_TEXT = 100_000
LONGEST_PROSE = 30_000
"""Limit for scorers that examine every sentence, in characters."""

NO_EXPECTED = "no expected value"

Mark = tuple[float | None, str]
"""A value in [0, 1], or None if there is no score, and a short explanation."""


class Scorer(ABC):
    """Turns a case and an answer into scores in [0, 1].

    Subclass it for a scorer of your own; docs/how-to/extending.md shows one in a single file.
    """

    columns: tuple[str, ...]  # names of its scores, without `score_`; a verdict uses the first
    version: str  # changes when the same answer could get another score: stored scores carry it
    needs_expected: bool = True  # every case must have an expected value
    takes_expected: bool = False  # at least one case must have an expected value
    scored_by: Literal["code", "judge", "people"] = "code"  # who scores; only `code` calls `score`
    check: Check | None = None  # a command to run in the workspace of an agent

    @abstractmethod
    def score(self, case: Case, answer: Answer) -> tuple[Score, ...]: ...

    def flaw(self, expected: Any) -> tuple[str, str] | None:
        """Return the fault of a case's expected value and how to fix it, or None; called before a run."""
        return None

    def fill(self, value: float | None, why: str) -> tuple[Score, ...]:
        """Return the same score in every column."""
        return tuple(Score(column, value, why) for column in self.columns)


class ScorerSettings(Settings):
    """The settings of one scorer. Relative file names are resolved against `base`, the folder of the spec."""

    def __init__(self, kind: str, settings: Mapping[str, Any], base: Path | None = None) -> None:
        super().__init__(f'scorer "{kind}"', settings)
        self.kind = kind
        self.base = base or Path()

    def name(self, default: str) -> str:
        """Return the prefix of the columns: the setting `name`, which every scorer accepts, or the default."""
        expects = "lowercase letters, digits and underscores, starting with a letter"
        return str(self.take("name", default, is_column, expects))

    def tolerance(self, key: str) -> float | None:
        """Take a tolerance, or None if it is not set."""
        value = self.take(key, None, is_tolerance, "a number of at least 0")
        return None if value is None else float(value)

    def version(self, revision: int, *more: str) -> str:
        """Digest the kind, its settings except `name`, and the revision of its code."""
        settings = {key: value for key, value in self.values.items() if key != "name"}
        text = json.dumps([self.kind, revision, settings, *more], sort_keys=True, default=str)
        return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


class Overlap(Scorer):
    """Base class of scorers with F1, precision and recall."""

    revision = 1

    def __init__(self, settings: ScorerSettings) -> None:
        name = settings.name(settings.kind)
        self.columns = (f"{name}_f1", f"{name}_precision", f"{name}_recall")
        self.version = settings.version(self.revision)

    def scores(self, right: int, wrong: int, missing: int, why: str) -> tuple[Score, ...]:
        """Return the scores for these numbers of items; all are 1 if nothing was expected or named."""
        if right:
            values = 2 * right / (2 * right + wrong + missing), right / (right + wrong), right / (right + missing)
        else:
            values = (0.0,) * 3 if wrong or missing else (1.0,) * 3
        return tuple(Score(column, value, why) for column, value in zip(self.columns, values, strict=True))


class SingleColumn(Scorer):
    """Base class of scorers with one column."""

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
        """Return the value and the reason. `expected` is not None if `needs_expected`."""


def is_tolerance(value: Any) -> bool:
    return is_number(value) and 0 <= value < math.inf


def is_range(value: Any) -> bool:
    """Whether a value is a pair of finite numbers, the lower first."""
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
    """Shorten a very long text to its beginning and end, with a note.

    >>> clipped("short")
    ('short', '')
    """
    if len(text) <= longest:
        return text, ""
    half = longest // 2
    return f"{text[:half]}\n{text[-half:]}", f" (only the first and last {half:,} characters were read)"


def texts_of(expected: Any) -> list[str]:
    """Return the expected strings; values that are not strings become JSON.

    >>> texts_of(["yes", 1, True])
    ['yes', '1', 'true']
    """
    items = expected if isinstance(expected, list | tuple | set | frozenset) else [expected]
    return [item if isinstance(item, str) else _as_json(item) for item in items]


def returned_value(answer: Answer) -> Any:
    """Return the value of a Python target, unless it is a string; arrays become lists."""
    value = answer.value
    if isinstance(value, str):
        return None
    tolist = getattr(value, "tolist", None)
    return tolist() if callable(tolist) else value


def same(left: Any, right: Any, number: Callable[[Any, Any], bool] = lambda a, b: bool(a == b)) -> bool:
    """Whether two JSON values are equal; True differs from 1, NaN from itself.

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


def within(actual: Any, expected: Any, rel: float, abs_: float) -> bool:
    """|actual - expected| <= max(abs, rel * |expected|), for numbers of any size; never for NaN or infinity.

    >>> within(66.0, 66.2, rel=0.01, abs_=0), within(float("nan"), 1, rel=1, abs_=1)
    (True, False)
    """
    try:
        if not (math.isfinite(actual) and math.isfinite(expected)):
            return False
        return bool(abs(actual - expected) <= max(abs_, rel * abs(expected)))
    except OverflowError:  # an integer beyond the floats
        return bool(actual == expected)


def short(value: Any, longest: int = 60) -> str:
    """Show a value in one short line.

    >>> short("x" * 100, longest=10)
    "'xxxxx..."
    """
    text = rendered(value[:longest] if isinstance(value, str) else value)
    cut = len(text) > longest or (isinstance(value, str) and len(value) > longest)
    return text[: longest - 4] + "..." if cut else text


def rendered(value: Any) -> str:
    """Return `repr(value)`, or a description if that fails."""
    try:
        return repr(value)
    except (ValueError, RecursionError):  # too many digits or nested too deeply for `repr`
        return f"a huge {type(value).__name__}"


def _as_json(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, sort_keys=True)
    except (TypeError, ValueError, RecursionError):
        return short(value)
