"""An experiment over time: its runs in order, each compared with the one before."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from abreast.analyse.compare import AcrossRuns, compare
from abreast.analyse.rows import Rows
from abreast.analyse.variants import summarise
from abreast.errors import BadInput
from abreast.store import Store

FINISHED = ("complete", "stopped_early")


@dataclass(frozen=True, slots=True)
class Step:
    """One variant of one run, and what became of it since the run before that had it too."""

    run: dict[str, Any]
    variant: str
    score: float | None
    commit: str | None
    against_previous: AcrossRuns | None
    series: int = 1
    series_why: str = ""  # why that series began


def history(
    store: Store, experiment: str, every: bool = False, variant: str | None = None, margin: float = 0.0
) -> Iterator[Step]:
    """The labelled runs of an experiment, or every finished one, from first to last. Debug runs are no history."""
    last: dict[str, str] = {}  # the run that had a variant last
    for run in store.runs():
        if (
            run["experiment"] != experiment
            or run["debug"]
            or not (run["label"] or (every and run["status"] in FINISHED))
        ):
            continue
        rows = Rows(store, run["run"])
        provenance = json.loads(rows.meta["provenance"])
        commit = str(provenance["commit"])[:12] if provenance.get("commit") else None
        for index, name in enumerate(rows.variants):
            if variant not in (None, name):
                continue
            score = summarise(rows, index).score
            yield Step(
                rows.meta,
                name,
                score.estimate if score else None,
                commit,
                _compared(store, last.get(name), run["run"], name, margin),
                int(provenance.get("series") or 1),
                str(provenance.get("series_why") or ""),
            )
            last[name] = run["run"]


def _compared(store: Store, before: str | None, run: str, variant: str, margin: float) -> AcrossRuns | None:
    """None for the first, and where the two have no score in common."""
    if before is None:
        return None
    try:
        (found,) = compare([store], [before, run], variant, margin)
    except BadInput:
        return None
    return found
