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
    from abreast.targets.checks.workspace_checks import CheckFacts
    from abreast.targets.mcp.declaration import Server

Sees = Literal["input", "case", "truth"]
"""The part of a case that a target sees: its input; also its id, tags and group; or also the expected answer."""


def widest(*scopes: Sees) -> Sees:
    """Return the scope that includes all others.

    >>> widest("input", "case")
    'case'
    """
    order: tuple[Sees, ...] = ("input", "case", "truth")
    return max(scopes, key=order.index)


Place = Literal["loop", "thread", "process"]
"""Where a trial runs. On the loop it only waits; a process takes memory and a core."""


CHARACTERS_PER_TOKEN = 4  # an estimate, for targets that do not report tokens


class Expected(NamedTuple):
    """The expected use of a trial; None for what the target cannot estimate."""

    input_tokens: float | None = None
    output_tokens: float | None = None
    cost_usd: float | None = None
    seconds: float | None = None


class Problem(NamedTuple):
    """Why a target cannot answer at all, and how to fix it. Checked before a run."""

    message: str
    fix: str = ""


Moment = Literal["preparing", "ready", "over", "checking"]


class Workers(Protocol):
    """Runs blocking code for targets, so that no target owns a thread. Passed by the engine."""

    def clock(self, moment: Moment, ago: float = 0.0) -> None:
        """Record a moment of the trial, some seconds `ago`. The trial lasts from `ready` to `over`, by default as long
        as `answer`. `checking` follows and ends by itself."""

    def more_time(self) -> Callable[[float], None]:
        """Return a function that extends the deadline of this trial by some seconds. Call it in the trial's task."""

    def in_thread(self, function: Callable[..., Any], *arguments: Any) -> Awaitable[Any]: ...

    def in_turn(self, function: Callable[..., Any], *arguments: Any) -> Awaitable[Any]:
        """Run a short call, such as a few file operations, in a thread that all such calls share."""

    def in_process(self, function: Callable[..., Any] | str, *arguments: Any) -> Awaitable[Any]: ...


class AgentTarget(Protocol):
    """What the checks before a run need of a target whose trials run a program in a workspace."""

    @property
    def cli_versions(self) -> Mapping[str, str]: ...

    @property
    def sandbox(self) -> object | None: ...

    @property
    def has_checks(self) -> bool: ...

    @property
    def has_setup(self) -> bool: ...

    @property
    def start(self) -> str:
        """Return a digest of the start of its workspaces."""

    def workspace_bytes(self, trial: Trial) -> int: ...

    def set_up(self, trial: Trial) -> str | None:
        """Run the setup of a case if needed; return the key of its environment."""

    async def knows_checks(self, trial: Trial, workers: Workers) -> bool:
        """Whether the results of `checked_without_agent` are stored."""

    async def checked_without_agent(self, trial: Trial, workers: Workers) -> dict[str, CheckFacts]:
        """Run the checks of a case on its start and on the reference solution."""

    async def close(self) -> None: ...


class Target(ABC):
    """What is measured: `answer` turns a trial into an answer. Everything else has a default.

    Subclass it for your own target; docs/how-to/extending.md shows one in a single file.
    """

    name: str  # name in limits and displays
    version: str  # part of the key of every answer: it must change when answers could change
    simulated: bool = False  # marks every result
    sees: Sees = "case"  # what an answer may depend on, for reuse
    transforms: bool = False  # `request` runs the user's code
    quick: bool = False  # with `transforms`: estimates may call `request` nevertheless
    place: Place = "loop"
    is_service: bool = False  # a network service whose latency shows its load, for `parallel: auto`
    warmup: bool = False  # send one request before measuring
    subscription: bool = False  # warn if more than a few trials are in flight
    asks_often: bool = False  # a trial makes many requests, so that rates count trials
    has_workspace: bool = False  # scorers may run commands in the workspace of a trial
    account: str | None = None  # account whose quota it uses; None: its name
    pool: str | None = None  # targets of one pool share the rate that a provider announces; None: its name
    endpoint: str | None = None  # the address of its provider, which is tried before a run
    sent_with_each: float = 0  # characters of every request, without its prompt
    start_cpu_s: float = 0.0  # CPU time that starting a trial takes
    keyed_params: Mapping[str, Any] | None = None  # parameters that can change answers; None: all
    cli_versions: Mapping[str, str] = MappingProxyType({})  # versions of the programs it starts, by name
    mcp_servers: Sequence[Server] = ()  # started before a run, to list their tools
    mcp_folder: Path | None = None  # where they start; None: the folder of the spec
    function: Callable[..., Any] | None = None  # the user's function that is measured

    @abstractmethod
    async def answer(self, trial: Trial, request: Request, attempt: int, workers: Workers) -> Answer:
        """Return the answer, or raise a TrialError. Any other exception is a crash of the variant."""

    def request(self, trial: Trial) -> Request:
        """Return the request of a trial, or raise a TrialError. The default sends the input."""
        params = trial.variant.params
        return Request(prompt_of(trial.case.input), trial.case.input, params if isinstance(params, dict) else {})

    def expects(self, trial: Trial, request: Request) -> Expected | None:
        """Return the expected use of a trial, for estimates; None if only the prompt size is known."""
        return None

    def costs(self, input_tokens: float, output_tokens: float) -> float | None:
        """Return the dollars of one request; None without a price."""
        return None

    def problems(self) -> Iterable[Problem]:
        """Return reasons why the target cannot answer at all. Called before a run."""
        return ()

    def notes(self) -> Iterable[str]:
        """Return notes for the user. Called before a run."""
        return ()

    def after(self, case: Case) -> str | None:
        """Return the case whose final workspace, of the same variant and repeat, a trial of `case` continues from;
        empty for the first case, None if trials do not continue from others."""
        return None

    @property
    def agent(self) -> AgentTarget | None:
        """The target itself if its trials run a program in a workspace."""
        return None

    async def close(self) -> None:  # noqa: B027 - most targets have nothing to close
        """Close connections and end processes."""


def prompt_of(value: Any) -> str:
    """Return the prompt of an input: text as it is, other values as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def may_render(target: Target) -> bool:
    """Whether requests may be rendered before a run. A transform may be slow or cost money unless it is `quick`."""
    return not target.transforms or target.quick
