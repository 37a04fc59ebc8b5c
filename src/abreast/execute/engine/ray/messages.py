"""Messages between the driver and the runners, sent as bytes that are opaque to Ray."""

from __future__ import annotations

import pickle
from typing import Any, Generic, NamedTuple, TypeVar

from abreast.errors import Crashed, classify
from abreast.execute.job import Job
from abreast.model import Case, Outcome

MOST_CASES = 20_000  # kept by a runner
PROTOCOL = pickle.HIGHEST_PROTOCOL

Value = TypeVar("Value")


class Start(NamedTuple):
    """An attempt to start. A case travels with its first trial; later ones name it by its index."""

    ticket: int
    lease: int
    job_type: type[Job]
    variant: int  # of the runner, which has only the variants that its node can execute
    position: int
    repeat: int
    occurrence: int
    attempt: int
    case_index: int  # -1: not kept
    case: Case | None
    carried: Any = None  # the workspace state that it continues from


class AttemptResult(NamedTuple):
    """An attempt that ended. Its times are those of the node's clock."""

    ticket: int
    lease: int
    outcome: Outcome
    prompt: str
    queue_s: float  # waited on the node
    first_started_at: float | None


class Report(NamedTuple):
    """A runner's report to the driver: results, events of its node, and how many attempts wait there."""

    sent_at: float  # by the node's clock
    received: int  # attempts so far
    waiting: int
    first: int  # number of the first result
    results: list[AttemptResult]
    events: list[tuple[str, dict[str, Any]]]


class RecentCases(Generic[Value]):
    """The cases sent last. Driver and runner keep the same ones, because both add them in the same order."""

    def __init__(self) -> None:
        self._values: dict[int, Value] = {}

    def __contains__(self, index: int) -> bool:
        return index in self._values

    def __getitem__(self, index: int) -> Value:
        return self._values[index]

    def add(self, index: int, value: Value) -> None:
        self._values[index] = value
        if len(self._values) > MOST_CASES:
            del self._values[next(iter(self._values))]


def dumps(message: Any) -> bytes:
    return pickle.dumps(message, PROTOCOL)


def dumps_code(message: Any) -> bytes:
    """Serialise with functions and classes that exist only in the user's script."""
    from ray import cloudpickle

    content: bytes = cloudpickle.dumps(message)  # type: ignore[no-untyped-call]
    return content


def sendable(result: AttemptResult) -> AttemptResult:
    """Return the result, or a failure if its answer cannot be sent."""
    try:
        dumps(result)
    except Exception as error:  # noqa: BLE001 - of a user's class
        old, problem = result.outcome, f"the answer cannot be sent from its node: {classify(error).message}"
        outcome = Outcome("error", None, classify(Crashed(problem)), old.started_at, old.finished_at, old.service_s)
        return result._replace(outcome=outcome)
    return result
