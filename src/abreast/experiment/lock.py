"""The locked plan of an experiment: read from next to its spec, or written before its first run."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from abreast.errors import BadInput

if TYPE_CHECKING:
    from abreast.experiment.options import Options
    from abreast.plan.lock import LockedPlan
    from abreast.store.runs.provenance import LockCheck

SUFFIX = ".lock.json"


@dataclass(frozen=True, slots=True)
class Lock:
    """A locked plan, and whether this run follows it."""

    file: Path
    check: LockCheck
    unwritten: LockedPlan | None = None

    def write(self) -> None:
        """Write the file if it is new."""
        if self.unwritten is not None:
            self.unwritten.write(self.file)


def default_file(base: Path, origin: Path | None, experiment: str) -> Path:
    """Return `experiment.lock.json` next to `experiment.yaml`; without a spec file, named after the experiment."""
    if origin is not None:
        return origin.with_name(origin.stem + SUFFIX)
    return base / (re.sub(r"[^\w.-]+", "-", experiment) + SUFFIX)


def find_lock(options: Options, default: Path, stored: LockCheck | None, plan: Callable[[], LockedPlan]) -> Lock | None:
    """Find the locked plan that this run must follow, if any; debug runs follow none.

    `stored` is the check that a continued run recorded, `default` the file to read otherwise, `plan` the current plan.
    """
    if options.lock is False or options.debug is not None:
        if options.lock:
            raise BadInput("--lock and --debug exclude each other: a debug run follows no plan", "omit one of them")
        return None
    file = default if stored is None else Path(stored.file)
    if isinstance(options.lock, str | Path):
        file = Path(options.lock)
    locked, before = _read_lock(file), stored.differences if stored else ()
    if locked is not None:
        check = locked.check(file, plan())
        return Lock(file, replace(check, differences=tuple(dict.fromkeys((*before, *check.differences)))))
    if options.lock:
        planned = plan()
        return Lock(file, planned.check(file, planned), planned)
    missing = f"{file.name} is missing"
    return Lock(file, replace(stored, differences=(*before, missing))) if stored else None


def _read_lock(file: Path) -> LockedPlan | None:
    if not os.path.lexists(file):
        return None
    from abreast.plan.lock import read_lock  # late: most runs have no locked plan

    return read_lock(file)
