"""The options of a run."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from abreast.errors import BadInput, did_you_mean
from abreast.preflight.context import TRIED_CASES
from abreast.store.run_names import check_label

if TYPE_CHECKING:
    from abreast.execute.listener import Listener

Given = ParamSpec("Given")
Owner = TypeVar("Owner")
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What the command line, or a call of `run`, overrides."""

    parallel: int | str | Mapping[str, int] | None = None
    trial_parallelism: int | None = None
    repeats: int | None = None
    seed: int | None = None
    store: str | Path | None = None
    case: str | Sequence[str] = ()  # a name stands for a list of it; kept as a tuple
    tag: Mapping[str, str] = field(default_factory=dict)
    variant: str | Sequence[str] = ()
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
    listeners: Sequence[Listener] = ()

    def __post_init__(self) -> None:
        for name in ("case", "variant", "listeners"):
            value = getattr(self, name)
            object.__setattr__(self, name, (value,) if isinstance(value, str) else tuple(value or ()))
        if not isinstance(self.tag, Mapping):
            raise BadInput(f"tag: {self.tag!r} is not a mapping", 'write tag={"category": "easy"}')
        if self.label is not None:
            check_label(self.label)


def accepts(
    options: Callable[Given, Options], **defaults: Any
) -> Callable[[Callable[[Owner, Options], Value]], Callable[Concatenate[Owner, Given], Value]]:
    """Turn a method that takes `Options` into one with the keyword arguments of `options`, typed and shown by name in
    `help()`. An `Options` object may come first. `defaults` replace those of the class."""
    known = inspect.signature(options).parameters

    def decorate(method: Callable[[Owner, Options], Value]) -> Callable[Concatenate[Owner, Given], Value]:
        @functools.wraps(method)
        def call(self: Owner, start: Options | None = None, /, **overrides: Any) -> Value:
            for name in overrides:
                if name not in known:
                    hint = did_you_mean(name, known) or f" (known: {', '.join(known)})"
                    raise TypeError(f"no option {name!r} of a run{hint}")
            return method(self, replace(start or Options(**defaults), **overrides))

        own = next(iter(inspect.signature(method).parameters.values()))
        shown = [item.replace(default=defaults.get(name, item.default)) for name, item in known.items()]
        call.__signature__ = inspect.signature(method).replace(parameters=[own, *shown])  # type: ignore[attr-defined]
        return call  # type: ignore[return-value]

    return decorate
