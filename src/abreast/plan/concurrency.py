"""The most trials in flight by the limits of a spec: the rules that preflight explains and a run follows."""

from __future__ import annotations

from collections.abc import Sequence

from abreast.spec.schema import Bounds, Limits
from abreast.targets import Target


class Concurrency:
    """The concurrency limits of a spec for these targets. None means "not limited"."""

    def __init__(self, limits: Limits, targets: Sequence[Target]) -> None:
        self._limits = limits
        self._targets = [target.name for target in targets]
        self._number = len(targets)

    @property
    def blocks(self) -> int | None:
        """Blocks (a case and repeat) in flight."""
        limits = self._limits
        return max(1, limits.trial_parallelism or 1) if self._has_blocks else None

    @property
    def per_block(self) -> int:
        return 1 if self._limits.parallel is None else max(1, self._number)

    @property
    def total(self) -> int | None:
        """Jobs in flight, those of judges included."""
        parallel = self._limits.parallel
        if isinstance(parallel, int):
            return max(1, parallel)
        is_free = parallel is not None or self._has_blocks
        return None if is_free or any(own.parallel is not None for own in self._limits.targets.values()) else 1

    @property
    def per_variant(self) -> int | None:
        return None if self._limits.per_variant is None else max(1, self._limits.per_variant)

    @property
    def per_judges(self) -> int | None:
        """Questions to judges in flight where no total applies: as many as trials."""
        parallel = self._limits.parallel
        if parallel is not None and parallel != "variants":
            return None  # `parallel` counts judges too, or is adaptive
        return max(1, self._limits.trial_parallelism or 1) * self.per_block

    def of_target(self, name: str) -> int | Bounds | None:
        """Jobs of one target in flight; `Bounds` if adaptive."""
        parallel = self._limits.of(name).parallel
        if parallel == "auto":
            return Bounds()
        if isinstance(parallel, int):
            return max(1, parallel)
        return parallel if isinstance(parallel, Bounds) else None

    @property
    def requested(self) -> int | None:
        """Declared number of trials in flight; None if adaptive."""
        ceilings = [] if self.total is None else [self.total]
        if self.blocks is not None:
            ceilings.append(self.blocks * (1 if self._limits.parallel is None else self._number))
        if self.per_variant is not None:
            ceilings.append(self.per_variant * (1 if self._limits.turns else self._number))
        of_targets = [self.of_target(name) for name in dict.fromkeys(self._targets)]
        fixed = [number for number in of_targets if isinstance(number, int)]
        if len(fixed) == len(of_targets):
            ceilings.append(sum(fixed))
        return min(ceilings, default=None)

    @property
    def likely(self) -> int:
        """Expected number of trials in flight; if adaptive, the start."""
        requested = self.requested
        if requested is not None:
            return requested
        of_targets = [self.of_target(name) for name in dict.fromkeys(self._targets)]
        return max(1, sum(number if isinstance(number, int) else (number or Bounds()).start for number in of_targets))

    def most_of(self, target: str) -> int | None:
        """Most trials of one target in flight; None if adaptive."""
        variants, own, parallel = self._targets.count(target), self.of_target(target), self._limits.of(target).parallel
        ceilings = [own] if isinstance(own, int) else []
        if isinstance(parallel, Bounds):
            ceilings.append(parallel.max)
        if self.requested is not None:
            ceilings.append(self.requested)
        if self.per_variant is not None:
            ceilings.append(self.per_variant * variants)
        if parallel == "variants" or (self._limits.trial_parallelism is not None and parallel is not None):
            ceilings.append(max(1, self._limits.trial_parallelism or 1) * variants)
        return min(ceilings, default=None)

    @property
    def _has_blocks(self) -> bool:
        return self._limits.trial_parallelism is not None or self._limits.parallel == "variants"
