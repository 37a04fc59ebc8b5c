"""The options of a run."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

from abreast.errors import BadInput, did_you_mean
from abreast.preflight.context import TRIED_CASES
from abreast.store.run_names import check_label

if TYPE_CHECKING:
    from abreast.execute.listener import Listener

Method = TypeVar("Method", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line, or a call of `run`, overrides."""

    parallel: Any = None
    trial_parallelism: int | None = None
    repeats: int | None = None
    seed: int | None = None
    store: str | Path | None = None
    case: tuple[str, ...] = ()
    tag: Mapping[str, str] = field(default_factory=dict)
    variant: tuple[str, ...] = ()
    limit: int | None = None
    debug: int | None = None
    fresh: bool = False
    retry_failed: bool = False
    budget_usd: float | None = None
    quota: str | None = None
    free_cores: float | None = None
    allow_failing: bool = False
    on_quota: str = "wait"
    engine: str = "local"  # where trials execute
    until_decided: bool | None = None
    margin: float | None = None
    min_cases: int | None = None
    label: str | None = None
    lock: bool | str | Path | None = None  # write the plan to a file; None: compare if there is one; False: do not
    strict: bool = False
    force: bool = False
    keep_workspaces: bool = False
    try_tests: int = TRIED_CASES  # try the tests of this many cases before anything is paid for
    try_setup: bool = True  # make the environments of workspaces before anything is paid for
    online: bool = True  # connect to the providers before anything is paid for
    resume: str | None = None
    progress: bool = False  # show how far the run is: in a notebook below the cell, else on standard error
    listeners: tuple[Listener, ...] = ()

    def __post_init__(self) -> None:
        if self.label is not None:
            check_label(self.label)


class RunOptions(TypedDict, total=False):
    """The same as keyword arguments; what is left out has its default."""

    parallel: int | str | Mapping[str, int] | None
    trial_parallelism: int | None
    repeats: int | None
    seed: int | None
    store: str | Path | None
    case: str | Sequence[str]
    tag: Mapping[str, str]
    variant: str | Sequence[str]
    limit: int | None
    debug: int | None
    fresh: bool
    retry_failed: bool
    budget_usd: float | None
    quota: str | None
    free_cores: float | None
    allow_failing: bool
    on_quota: str
    engine: str
    until_decided: bool | None
    margin: float | None
    min_cases: int | None
    label: str | None
    lock: bool | str | Path | None
    strict: bool
    force: bool
    keep_workspaces: bool
    try_tests: int
    try_setup: bool
    online: bool
    resume: str | None
    progress: bool
    listeners: Sequence[Listener]


def choose(options: Options | None, overrides: RunOptions) -> Options:
    """The options with these overrides. One name stands for a list of it."""
    known = [item.name for item in fields(Options)]
    for name in overrides:
        if name not in known:
            hint = did_you_mean(name, known) or f" (known: {', '.join(known)})"
            raise TypeError(f"no option {name!r} of a run{hint}")
    changes: dict[str, Any] = dict(overrides)
    for name in ("case", "variant", "listeners"):
        if name in changes:
            value = changes[name]
            changes[name] = (value,) if isinstance(value, str) else tuple(value or ())
    if "tag" in changes and not isinstance(changes["tag"], Mapping):
        raise BadInput(f"tag: {changes['tag']!r} is not a mapping", 'write tag={"category": "easy"}')
    return replace(options or Options(), **changes)


def with_options(method: Method) -> Method:
    """Show the options by name in `help()` and notebooks instead of `**overrides`."""
    signature = inspect.signature(method)
    types = {name: getattr(kind, "__forward_arg__", kind) for name, kind in RunOptions.__annotations__.items()}
    own = [item for item in signature.parameters.values() if item.kind is not item.VAR_KEYWORD]
    for item in fields(Options):
        default = item.default if item.default is not MISSING else {}
        kind = inspect.Parameter.KEYWORD_ONLY
        own.append(inspect.Parameter(item.name, kind, default=default, annotation=types[item.name]))
    method.__signature__ = signature.replace(parameters=own)  # type: ignore[attr-defined]
    return method
