"""The base class of log formats, and the parts of a log."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from abreast.importers.log_file import LogFile
from abreast.model import Answer, Blame, Case, Failure, Score
from abreast.targets.untrusted_json import mapping

_EXPORTED = re.compile(r"(\w+) \((variant|infrastructure|unknown)\): (.*)", re.DOTALL)


LONGEST_TAG = 60


Range = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions:
    """Options of an import: the format, the columns of a table by field, the lowest and highest value of scores that
    are not from 0 to 1, and the score that the verdict uses."""

    format: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    ranges: Mapping[str, Range] = field(default_factory=dict)
    score: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogHeader:
    """Facts in a log about its run as a whole.

    `task` becomes the name of the experiment. Unlisted variants are added when a trial has them; the first
    is the baseline. Without `planned_cases` and `repeats`, the plan is what has trials. `primary` is the score
    that the verdict uses, by default the first score of the first trial that has one. `facts` are kept as provenance.
    """

    tool: str
    tool_version: str | None = None
    task: str
    created_at: float | None = None
    finished_at: float | None = None
    status: Literal["complete", "incomplete"] = "complete"
    reason: str | None = None  # why it is incomplete
    variants: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # parameters by name
    planned_cases: int | None = None
    repeats: int | None = None
    primary: str | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedTrial:
    """One trial of a log.

    It was answered (`answer`), failed (`failure`, with an answer if it cost something) or was `skipped`, for the reason
    given. `repeat` counts from 0; None if the trials of a case and variant are its repeats in the order of the log. A
    score is from 0 to 1, or between the values that the user declares.
    """

    case: Case
    variant: str
    prompt: str = ""
    answer: Answer | None = None
    failure: Failure | None = None
    skipped: str | None = None
    scores: Sequence[Score] = ()
    repeat: int | None = None
    started_at: float | None = None
    latency_s: float | None = None
    service_s: float | None = None  # part of `latency_s` without waiting; by default all of it


class LogFormat(ABC):
    """A file format of another tool. Each is a subclass in its own file, listed in `catalogue.BUILT_IN`; other packages
    register theirs as entry points of the group `abreast.importers`, under the name of the format.
    """

    name: str
    title: str  # for messages, such as `Inspect log`
    error_rule: str  # rule that separates infrastructure errors from wrong answers; part of a sentence in reports

    @abstractmethod
    def recognises(self, log: LogFile) -> bool:
        """Whether the content has this format, in any version. Called for every file, so look only at its head."""

    def digest(self, log: LogFile) -> str:
        """SHA-256 of everything that is read; override if that is more than the named file."""
        return log.digest()

    @abstractmethod
    def header(self, log: LogFile) -> LogHeader:
        """Read the facts about the run. Refuse unknown versions by `raise log.error(...)`, with the version in the
        message."""

    @abstractmethod
    def trials(self, log: LogFile, header: LogHeader) -> Iterator[LoggedTrial]:
        """Read the trials one by one: a log may be larger than memory. `raise log.error(...)` where it is damaged."""


@contextmanager
def as_written_by(tool: str, log: LogFile, place: str) -> Iterator[None]:
    """Refuse content whose types the tool never writes. `place` locates it in messages."""
    try:
        yield
    except (TypeError, ValueError, KeyError, IndexError, AttributeError, OverflowError) as error:
        raise log.error(f"{place}: not in the format of {tool} ({type(error).__name__}: {error})") from None


def tags_of(metadata: Any) -> dict[str, str]:
    """Return the metadata of a case that become segments of a report: short texts and booleans.

    >>> tags_of({"kind": "sum", "hard": True, "source": "a\\nb", "year": 2024})
    {'kind': 'sum', 'hard': 'True'}
    """
    return {
        str(name): str(value)
        for name, value in mapping(metadata).items()
        if isinstance(value, bool) or (isinstance(value, str) and 0 < len(value) <= LONGEST_TAG and "\n" not in value)
    }


def failure_from_message(message: str) -> Failure:
    """Classify an error message of another tool, by the rules for agents. Without a sign of its cause, the blame is
    unknown; messages that abreast exported state it.

    >>> failure_from_message("RateLimitError: 429 Too Many Requests").blame
    'infrastructure'
    >>> failure_from_message("KeyError: 'answer'").blame
    'unknown'
    """
    if exported := _EXPORTED.match(message):
        kind, blame, text = exported.groups()
        return Failure(kind, cast(Blame, blame), text)
    from abreast.errors import Crashed
    from abreast.targets.agents.presets.agent_output import error_from_message  # late: heavy

    error = error_from_message(message, "")
    if isinstance(error, Crashed):
        return Failure("error", "unknown", message)
    return Failure(error.kind, error.blame, message)
