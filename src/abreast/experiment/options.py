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

Keywords = ParamSpec("Keywords")
Owner = TypeVar("Owner")
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Overrides from the command line or a call of `run`."""

    parallel: int | str | Mapping[str, int] | None = None
    trial_parallelism: int | None = None
    repeats: int | None = None
    seed: int | None = None
    store: str | Path | None = None
    case: str | Sequence[str] = ()  # stored as a tuple
    tag: Mapping[str, str] = field(default_factory=dict)
    variant: str | Sequence[str] = ()
    columns: Mapping[str, Any] = field(default_factory=dict)  # of the case file, by field of a case
    limit: int | None = None
    debug: int | None = None
    fresh: bool = False
    retry_failed: bool = False
    budget_usd: float | None = None
    quota: str | None = None
    free_cores: float | None = None
    allow_failing: bool = False
    on_quota: str = "wait"
    engine: str | None = None  # where trials execute
    address: str | None = None  # of the Ray cluster
    until_decided: bool | None = None
    margin: float | None = None
    min_cases: int | None = None
    label: str | None = None
    lock: bool | str | Path | None = None  # write the plan to a file; None: only check an existing file
    refuse_costly: bool = False  # refuse a run whose estimated cost is above limits.ask_above_usd
    strict: bool = False
    force: bool = False
    keep_workspaces: bool = False
    try_tests: int = TRIED_CASES  # cases whose tests are tried before the run
    try_setup: bool = True  # set up the environments of workspaces before the run
    online: bool = True  # connect to the providers before the run
    resume: str | None = None
    progress: bool = False  # show progress: below the cell of a notebook, else on standard error
    listeners: Sequence[Listener] = ()

    def __post_init__(self) -> None:
        for name in ("case", "variant", "listeners"):
            value = getattr(self, name)
            object.__setattr__(self, name, (value,) if isinstance(value, str) else tuple(value or ()))
        if not isinstance(self.tag, Mapping):
            raise BadInput(f"tag: {self.tag!r} is not a mapping", 'use tag={"category": "easy"}')
        if self.label is not None:
            check_label(self.label)


def accepts(
    options: Callable[Keywords, Options], **defaults: Any
) -> Callable[[Callable[[Owner, Options], Value]], Callable[Concatenate[Owner, Keywords], Value]]:
    """Turn a method that takes `Options` into one with the keyword arguments of `options`.

    Type checkers and `help()` see each of them. An `Options` object may come first. `defaults` replace those of
    the class.
    """
    parameters = inspect.signature(options).parameters

    def decorate(method: Callable[[Owner, Options], Value]) -> Callable[Concatenate[Owner, Keywords], Value]:
        @functools.wraps(method)
        def call(self: Owner, base: Options | None = None, /, **overrides: Any) -> Value:
            for name in overrides:
                if name not in parameters:
                    hint = did_you_mean(name, parameters) or f" (known: {', '.join(parameters)})"
                    raise TypeError(f"no option {name!r} of a run{hint}")
            return method(self, replace(base or Options(**defaults), **overrides))

        signature = inspect.signature(method)
        keywords = [item.replace(default=defaults.get(name, item.default)) for name, item in parameters.items()]
        call.__signature__ = signature.replace(  # type: ignore[attr-defined]
            parameters=[signature.parameters["self"], *keywords]
        )
        return call  # type: ignore[return-value]

    return decorate
