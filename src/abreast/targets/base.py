"""What a target is: one async method that turns a trial into an answer."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Awaitable, Callable
from typing import Any, Literal, NamedTuple, Protocol

from abreast.model import Answer, Request, Trial

Sees = Literal["input", "case", "truth"]
"""What of a case a target sees: its input; also its id, tags and group; or even the expected answer."""


def widest(*seen: Sees) -> Sees:
    """All that one of them sees.

    >>> widest("input", "case")
    'case'
    """
    order: tuple[Sees, ...] = ("input", "case", "truth")
    return max(seen, key=order.index)


Place = Literal["loop", "thread", "process"]
"""Where a trial runs: what only waits costs next to nothing, a process of its own costs memory and a core."""


CHARACTERS_PER_TOKEN = 4  # about; what a target reports counts where there is a report


class Expected(NamedTuple):
    """What one trial will probably take, as far as its target can say beforehand."""

    input_tokens: float | None = None
    output_tokens: float | None = None
    cost_usd: float | None = None
    seconds: float | None = None


class Problem(NamedTuple):
    """Why a target could not answer at all, found out before anything is executed, and what to do about it."""

    message: str
    fix: str = ""


Moment = Literal["preparing", "ready", "over", "checking"]


class Workers(Protocol):
    """Where blocking code runs: handed to targets by the engine, so that no target owns a thread."""

    def clock(self, moment: Moment, ago: float = 0.0) -> None:
        """Note a moment of the trial, which may be some seconds `ago`. The trial lasts from `ready` to `over`; without
        them, as long as `answer` takes. `checking` comes after that, and ends by itself."""

    def more_time(self) -> Callable[[float], None]:
        """Return a function that moves this trial's deadline by some seconds. To be called in the trial's task."""

    def in_thread(self, function: Callable[..., Any], *arguments: Any) -> Awaitable[Any]: ...

    def in_turn(self, function: Callable[..., Any], *arguments: Any) -> Awaitable[Any]:
        """Run a call that is usually short, such as a few file operations, in a thread that all such calls share."""
        ...

    def in_process(self, function: Callable[..., Any] | str, *arguments: Any) -> Awaitable[Any]: ...


class Target(Protocol):
    """What is measured. `version` is part of the key of every answer: whatever could change one must change it.

    `name` is what limits and displays go by; `simulated` marks every result for good. `sees` is what of a case an
    answer may depend on: answers are reused by it. `transforms` says that making a request runs a user's code.
    `is_service` marks a network service, whose latency shows how busy it is: adaptive concurrency goes by it.

    A target may have more. `expects(trial, request)` returns an `Expected`, which estimates use; so they do
    `costs(input_tokens, output_tokens)`, dollars or None, `sent_with_each`, characters of every request beside its
    prompt, and `quick = True`, by which they may make requests although that runs a user's code. `problems()` are
    reasons why it could not answer at all, and `notes()` sentences worth knowing, both asked before a run. By
    `warmup = True` it is asked once before anything is measured. By `subscription = True` more than a few of its trials
    in flight are warned of. `account` is whose quota it uses, and `pool` what shares a rate that a provider announces;
    both are its name if it says nothing. `endpoint` is the address of its provider; before a run, a connection to it is
    tried. `keyed_params` are the parameters that can change an answer, if not all can.

    Of one that starts programs: `cli_versions` by name, `start_cpu_s` seconds of a core that a start takes,
    `asks_often` if a trial makes many requests, `mcp_servers` that are tried before a run, in `mcp_folder`.
    """

    name: str
    version: str
    simulated: bool = False
    sees: Sees = "case"
    transforms: bool = False
    place: Place = "loop"
    is_service: bool = False

    def request(self, trial: Trial) -> Request:
        """What this trial sends: its input. Raises a `TrialError` if it cannot be made."""
        params = trial.variant.params
        return Request(prompt_of(trial.case.input), trial.case.input, params if isinstance(params, dict) else {})

    @abstractmethod
    async def answer(self, trial: Trial, request: Request, attempt: int, workers: Workers) -> Answer:
        """The answer, or a `TrialError`. Any other exception is a crash of the variant."""

    async def close(self) -> None:
        """Let go of connections and processes."""
        return


def prompt_of(value: Any) -> str:
    """An input as the text that is sent: text as it is, other values as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def may_render(target: Target) -> bool:
    """Whether requests may be rendered before a run: a transform may take long or cost, unless it says it is quick."""
    return not target.transforms or getattr(target, "quick", False)
