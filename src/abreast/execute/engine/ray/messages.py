"""Messages between the driver and the runners, sent as bytes that are opaque to Ray."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from typing import Any, Generic, NamedTuple, TypeVar

from abreast.errors import Crashed, classify
from abreast.execute.job import Job
from abreast.model import Answer, Case, Outcome
from abreast.store.rows import to_json

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
    results: list[bytes]  # of `dumps_result`
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


def dumps_result(result: AttemptResult) -> bytes:
    """Serialise a result. Objects in its answer that cannot be sent become what the store would keep of them."""
    old, answer = result.outcome, result.outcome.answer
    if answer is None or (answer.value is None and not answer.data):
        return dumps(result)
    try:
        return _dumps_loadable(result)
    except Exception:  # noqa: BLE001 - of a user's class
        try:
            return _dumps_loadable(result._replace(outcome=replace(old, answer=_sendable(answer))))
        except Exception as error:  # noqa: BLE001 - of a user's subclass of `Answer`
            problem = f"the answer cannot be sent from its node: {classify(error).message}"
            outcome = Outcome("error", None, classify(Crashed(problem)), old.started_at, old.finished_at, old.service_s)
            return dumps(result._replace(outcome=outcome))


def _dumps_loadable(value: Any) -> bytes:
    """Serialise what can be restored, which some exceptions cannot."""
    try:
        content = dumps(value)
    except Exception:  # noqa: BLE001 - of a class of the script, or of a lambda
        content = dumps_code(value)
    pickle.loads(content)
    return content


def _sendable(answer: Answer) -> Answer:
    data = {name: _sendable_value(value) for name, value in answer.data.items()}
    return replace(answer, value=_sendable_value(answer.value), data=data)


def _sendable_value(value: Any) -> Any:
    try:
        _dumps_loadable(value)
    except Exception:  # noqa: BLE001 - of a user's class
        return json.loads(to_json(value))
    return value
