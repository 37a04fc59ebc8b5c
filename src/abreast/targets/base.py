"""What a target is: one async method that turns a trial into an answer."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol

from abreast.model import Answer, Case, Request, Trial

if TYPE_CHECKING:
    from abreast.targets.mcp.declaration import Server

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


class Target(ABC):
    """What is measured: `answer` turns a trial into an answer. Everything else has a default.

    Derive a class from it for a target of your own; docs/how-to/extending.md shows one in a single file.
    """

    name: str  # what limits and displays call it
    version: str  # part of the key of every answer: whatever could change an answer must change it
    simulated: bool = False  # marks every result for good
    sees: Sees = "case"  # what of a case an answer may depend on: answers are reused by it
    transforms: bool = False  # `request` runs a user's code
    quick: bool = False  # although `transforms`, estimates may call `request`
    place: Place = "loop"
    is_service: bool = False  # a network service, whose latency shows how busy it is, for `parallel: auto`
    warmup: bool = False  # is asked once before anything is measured
    subscription: bool = False  # more than a few trials in flight are warned of
    asks_often: bool = False  # a trial makes many requests, so that rates count trials
    has_workspace: bool = False  # scorers may run commands where a trial worked
    account: str | None = None  # whose quota it uses; None: its name
    pool: str | None = None  # what shares a rate that the provider announces; None: its name
    endpoint: str | None = None  # the address of its provider, which is tried before a run
    sent_with_each: float = 0  # characters of every request besides its prompt
    start_cpu_s: float = 0.0  # seconds of a core that starting a trial takes
    keyed_params: Mapping[str, Any] | None = None  # the parameters that can change an answer; None: all of them
    cli_versions: Mapping[str, str] = MappingProxyType({})  # of the programs it starts, by name
    mcp_servers: Sequence[Server] = ()  # started and asked for their tools before a run
    mcp_folder: Path | None = None  # where they are started; None: the folder of the spec
    function: Callable[..., Any] | None = None  # the user's function that is measured

    @abstractmethod
    async def answer(self, trial: Trial, request: Request, attempt: int, workers: Workers) -> Answer:
        """Return the answer, or raise a `TrialError`. Any other exception is a crash of the variant."""

    def request(self, trial: Trial) -> Request:
        """Return what this trial sends: its input. Raises a `TrialError` if it cannot be made."""
        params = trial.variant.params
        return Request(prompt_of(trial.case.input), trial.case.input, params if isinstance(params, dict) else {})

    def expects(self, trial: Trial, request: Request) -> Expected | None:
        """Return what a trial will probably take, for estimates; None if only the size of the prompt is known."""
        return None

    def costs(self, input_tokens: float, output_tokens: float) -> float | None:
        """Return the dollars of one request; None without a price."""
        return None

    def problems(self) -> Iterable[Problem]:
        """Return reasons why it could not answer at all, before a run."""
        return ()

    def notes(self) -> Iterable[str]:
        """Return sentences worth knowing before a run."""
        return ()

    def after(self, case: Case) -> str | None:
        """Return the case whose trial, of the same variant and repeat, leaves what one of this case begins with; empty
        if it is the first, None if nothing is carried on at all."""
        return None

    async def close(self) -> None:  # noqa: B027 - most targets have nothing to close
        """Close connections and end processes."""


def prompt_of(value: Any) -> str:
    """An input as the text that is sent: text as it is, other values as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def may_render(target: Target) -> bool:
    """Whether requests may be rendered before a run: a transform may take long or cost, unless it says it is quick."""
    return not target.transforms or target.quick
