"""The base class of engines, which execute trials. Packages register theirs under the entry point `abreast.engines`."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from abreast.errors import BadInput, suggestion
from abreast.execute.job import Job
from abreast.model import Failure, Outcome, Variant
from abreast.plugins import find_plugin, plugin_names
from abreast.targets import Target, build

if TYPE_CHECKING:
    from abreast.execute.limits.base import Limit
    from abreast.spec.schema import Limits

Complete = Callable[[Job, Outcome], None]
"""Called with every attempt that has ended, on the loop of the run."""


@dataclass(frozen=True, kw_only=True)
class EngineSetup:
    """What an engine is built from. All of it can be pickled, except targets that are already built."""

    variants: Sequence[Variant]  # then the judges
    judges: int = 0  # number of judges among them
    seed: int = 0
    settings: Mapping[str, Any] = field(default_factory=dict)  # shared by the targets: see `targets.build`
    limits: Limits
    built_targets: Sequence[Target] | None = None  # for an engine in this process

    def portable(self) -> EngineSetup:
        """A copy for another process, which builds its own targets."""
        return replace(self, built_targets=None)

    def targets(self) -> Sequence[Target]:
        """Targets of the variants, then of the judges; built if necessary."""
        if self.built_targets is not None:
            return self.built_targets
        first_judge, shared = len(self.variants) - self.judges, dict(self.settings)
        unchecked = {**shared, "checks": []}  # for judges
        return [
            build(variant, self.seed, shared if index < first_judge else unchecked)
            for index, variant in enumerate(self.variants)
        ]

    def timeouts(self, targets: Sequence[Target]) -> list[Callable[[int], float]]:
        """For each target, a function from the length of a prompt to seconds."""
        first_judge = len(self.variants) - self.judges
        return [
            self.limits.seconds_of(variant.name, target.name)
            if index < first_judge
            else self.limits.of(target.name).seconds
            for index, (variant, target) in enumerate(zip(self.variants, targets, strict=True))
        ]


class Engine(ABC):
    """Executes jobs, and completes each of them exactly once, whatever happens to it.

    An engine is built with a `Complete`, which it calls with every job and its outcome: the answer or the failure.
    Outcomes contain no secrets. Before that it sets `job.prompt` and completes `job.timing`. It owns the targets, with
    their connections and processes, and monitors the machines it uses.
    """

    prepares_ahead: bool = False
    """Whether it uses `prepare_ahead`."""

    @abstractmethod
    def submit(self, job: Job) -> None:
        """Start an attempt and return at once."""

    @abstractmethod
    def cancel(self) -> None:
        """Soon end everything in flight, and what is submitted later, as `cancelled`."""

    def capacity(self) -> int | None:
        """Most jobs in flight; None: as many as the limits of the run allow."""
        return None

    def limits(self, requested: int | None, emit: Callable[..., Any]) -> Sequence[Limit]:
        """Limits that make jobs wait while its machines are short of memory or cores.

        `requested` is how many trials may be in flight, None if that is adaptive; `emit` reports an event.
        """
        return ()

    def prepare_ahead(self, jobs: Iterable[Job]) -> None:
        """Make the requests of the jobs that will probably start next, in this order, and of no others."""
        return

    def reaping(self) -> contextlib.AbstractContextManager[None]:
        """A context that owns the processes started in it, and ends those that remain after it."""
        return contextlib.nullcontext()

    async def close(self) -> list[str]:
        """Close the targets and everything that was started; return warnings."""
        return []


def cancelled_outcome() -> Outcome:
    return Outcome("cancelled", failure=Failure("cancelled", "unknown", "cancelled while in flight"))


Factory = Callable[[EngineSetup, Complete], Engine]


def find_engine(name: str) -> Factory:
    """The factory of an engine: a built-in one, or one that a package registers as `abreast.engines`."""
    if name == "local":
        from abreast.execute.engine.local import LocalEngine

        return LocalEngine.from_setup
    plugin = find_plugin("engine", name)
    if plugin is None:
        names = ["local", *plugin_names("engine")]
        raise BadInput(f'unknown engine "{name}"{suggestion(name, names)}', f"choose one of {', '.join(names)}")

    def from_plugin(setup: EngineSetup, complete: Complete) -> Engine:
        engine = plugin.build("a function that returns an Engine", ("setup", "complete"), setup, complete)
        if not isinstance(engine, Engine):
            plugin.refuse("its entry point must return an abreast.execute.engine.base.Engine", engine)
        return engine

    return from_plugin
