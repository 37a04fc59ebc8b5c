"""The base class of engines, which execute trials. Packages register theirs under the entry point `abreast.engines`."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from abreast.errors import BadInput, suggestion
from abreast.execute.job import Job
from abreast.model import Failure, Outcome, Trial, Variant
from abreast.plugins import find_plugin, plugin_names
from abreast.targets import Target, build

if TYPE_CHECKING:
    from abreast.execute.limits.base import Limit
    from abreast.spec.schema import Limits, RayEngineChoice

Complete = Callable[[Job, Outcome], None]
"""Called with every attempt that has ended, on the loop of the run."""


@dataclass(frozen=True, kw_only=True)
class EngineSetup:
    """What an engine is built from. It can be pickled, except `built_targets` and `carrying`."""

    variants: Sequence[Variant]  # then the judges
    judges: int = 0  # number of judges among them
    seed: int = 0
    settings: Mapping[str, Any] = field(default_factory=dict)  # shared by the targets: see `targets.build`
    limits: Limits
    built_targets: Sequence[Target] | None = None  # for an engine in this process
    carrying: Callable[[Trial], Any] | None = None  # in this process, the workspace state that a trial continues from

    def portable(self, variants: Collection[int] | None = None) -> EngineSetup:
        """Copy for another process, which builds its own targets; with only these variants and judges, in order."""
        indexes = range(len(self.variants)) if variants is None else sorted(variants)
        first_judge = len(self.variants) - self.judges
        return replace(
            self,
            variants=[self.variants[index] for index in indexes],
            judges=sum(index >= first_judge for index in indexes),
            built_targets=None,
            carrying=None,
        )

    def targets(self) -> Sequence[Target]:
        """Return the targets of the variants, then of the judges; build them if necessary."""
        if self.built_targets is not None:
            return self.built_targets
        first_judge, shared = len(self.variants) - self.judges, dict(self.settings)
        unchecked = {**shared, "checks": []}  # for judges
        return [
            build(variant, self.seed, shared if index < first_judge else unchecked)
            for index, variant in enumerate(self.variants)
        ]

    def timeouts(self, targets: Sequence[Target]) -> list[Callable[[int], float]]:
        """Return, for each target, a function from the length of a prompt to seconds."""
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
        """Soon end everything in flight, and whatever is submitted later, as `cancelled`."""

    def capacity(self) -> int | None:
        """Return the most jobs in flight; None: as many as the limits of the run allow."""
        return None

    def limits(
        self, requested: int | None, emit: Callable[..., Any], stop: Callable[[str, str, str], None]
    ) -> Sequence[Limit]:
        """Return limits that make jobs wait while the engine's machines are short of memory or cores.

        `requested` is how many trials may be in flight, None if that is adaptive; `emit` reports an event; `stop` ends
        the run, with a kind, a message and a fix.
        """
        return ()

    def prepare_ahead(self, jobs: Iterable[Job]) -> None:
        """Prepare the requests of these jobs, which will probably start next, in this order, and drop all others."""
        return

    def reaping(self) -> contextlib.AbstractContextManager[None]:
        """Return a context that owns the processes started in it, and ends those that remain at its exit."""
        return contextlib.nullcontext()

    async def close(self) -> list[str]:
        """Close the targets and everything that was started; return warnings."""
        return []


def cancelled_outcome() -> Outcome:
    return Outcome("cancelled", failure=Failure("cancelled", "unknown", "cancelled while in flight"))


class EngineFactory(ABC):
    """Makes the engine of a run, after examining the machines that it will use."""

    def examine(self, setup: EngineSetup) -> Sequence[Mapping[str, Any]]:
        """Check that other machines can execute these targets; return facts to store about each. Raises BadInput."""
        return ()

    @abstractmethod
    def build(self, setup: EngineSetup, complete: Complete) -> Engine:
        """Make the engine, on the loop of the run."""

    def close(self) -> None:  # noqa: B027 - most have nothing to close
        """Release what `examine` used, if no engine is built."""


@dataclass(frozen=True)
class SimpleFactory(EngineFactory):
    """Makes engines that use only this machine."""

    function: Callable[[EngineSetup, Complete], Engine]

    def build(self, setup: EngineSetup, complete: Complete) -> Engine:
        return self.function(setup, complete)


def find_engine(engine: str | RayEngineChoice) -> EngineFactory:
    """Find the factory of a built-in engine, or of one that a package registers as `abreast.engines`."""
    if not isinstance(engine, str) or engine == "ray":
        from abreast.execute.engine.ray.cluster import RayFactory
        from abreast.spec.schema import RaySettings

        return RayFactory.of(RaySettings() if isinstance(engine, str) else engine.ray)
    name = engine
    if name == "local":
        from abreast.execute.engine.local import LocalEngine

        return SimpleFactory(LocalEngine.from_setup)
    plugin = find_plugin("engine", name)
    if plugin is None:
        names = ["local", "ray", *plugin_names("engine")]
        raise BadInput(f'unknown engine "{name}"{suggestion(name, names)}', f"choose one of {', '.join(names)}")

    def from_plugin(setup: EngineSetup, complete: Complete) -> Engine:
        engine = plugin.build("a function that returns an Engine", ("setup", "complete"), setup, complete)
        if not isinstance(engine, Engine):
            plugin.refuse("its entry point must return an abreast.execute.engine.base.Engine", engine)
        return engine

    return SimpleFactory(from_plugin)
