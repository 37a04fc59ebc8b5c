"""Impossible times, and variants that ran at different times."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np

from abreast.analyse.rows import Floats
from abreast.analyse.validate.evidence import (
    FEWEST_ALIKE,
    LISTED,
    Evidence,
    ResultFinding,
    listed,
    of_trials,
    of_variants,
)
from abreast.text import many

CLOCK_S = 60.0  # clocks of several machines may differ by this much
PAUSE_S = 600.0
_SET_CLOCK = "ignore the latencies of this run (a clock was set or a machine slept); the scores are not affected"
_FRESH = "use --fresh if the target changes with time, such as a hosted model"

_IMPOSSIBLE = {
    "negative": "has a negative duration",
    "reversed": "finished before it started",
    "too_long": "took longer than the time between its start and its end",
    "early": "started before the run began",
    "late": "finished in the future",
}


def clocks(evidence: Evidence) -> Iterator[ResultFinding]:
    """Impossible times, after a clock was set or a machine slept."""
    queries, earliest = evidence.queries, float(evidence.run["created_at"]) - CLOCK_S
    for problem, matches in queries.impossible_times(evidence.run_id, earliest, time.time() + CLOCK_S, LISTED).items():
        message = f"{many(matches.total, 'trial')}: it {_IMPOSSIBLE[problem]}"
        yield evidence.of_matches("clock", "serious", message, _SET_CLOCK, matches)
    stored = queries.execution_times(evidence.run_id)
    if len(stored):
        yield from _backwards(evidence, stored)
        yield from _pauses(evidence, stored)


def _backwards(evidence: Evidence, stored: Floats) -> Iterator[ResultFinding]:
    """Trials that were stored after others (by `seq`) but finished long before them by their clock."""
    position, _, finished = stored[np.argsort(stored[:, 3], kind="stable"), :3].T
    late = position[finished < np.maximum.accumulate(finished) - CLOCK_S]
    if len(late):
        message = f"{many(len(late), 'trial')}: stored after others, finished more than {CLOCK_S:g} s before them"
        ids = evidence.trial_ids(map(int, late[:LISTED]))
        yield of_trials("clock", "note", message, _SET_CLOCK, len(late), ids)


def _pauses(evidence: Evidence, stored: Floats) -> Iterator[ResultFinding]:
    """Pauses that no event explains; a resumed run always has pauses."""
    if evidence.run["epoch"] != 1:
        return
    position, started, finished, _ = stored[np.argsort(stored[:, 1], kind="stable")].T
    ended, began = np.maximum.accumulate(finished)[:-1], started[1:]
    events = np.array(evidence.queries.event_times(evidence.run_id), dtype=float)
    gaps = [at for at in np.flatnonzero(began > ended + PAUSE_S) if not _between(events, ended[at] - 5, began[at])]
    if gaps:
        longest = max(began[at] - ended[at] for at in gaps)
        message = f"nothing was in flight for {longest / 60:,.0f} minutes, for no recorded reason"
        ids = evidence.trial_ids(int(position[at + 1]) for at in gaps[:LISTED])
        yield of_trials("clock", "note", message, _SET_CLOCK, len(gaps), ids)


def _between(moments: Floats, low: float, high: float) -> bool:
    return bool(((moments >= low) & (moments <= high)).any())


def order(evidence: Evidence) -> Iterator[ResultFinding]:
    """Variants that ran at different times, so that changes in between look like a difference of variants."""
    arms = [arm for arm in evidence.arms if arm["trials"]]
    shares = {arm["name"]: arm["reused"] / arm["trials"] for arm in arms}
    if arms and max(shares.values()) - min(shares.values()) > 0.1:
        counts = listed(f"{arm['name']} {arm['reused']:,} of {arm['trials']:,}" for arm in arms)
        message = f"some variants reuse more answers from earlier runs than others: {counts}"
        names = [name for name, share in shares.items() if share > min(shares.values())]
        yield of_variants("order", "note", message, _FRESH, names)
    begun = [arm for arm in arms if arm["begun"] is not None]  # logs of other tools may not record it
    timed = [arm for arm in begun if arm["trials"] - arm["reused"] >= FEWEST_ALIKE]
    consecutive = [
        (first["name"], second["name"])
        for first in timed
        for second in timed
        if first["last_begun"] < second["begun"] and evidence.baseline.name in (first["name"], second["name"])
    ]
    if consecutive:
        pairs = listed(f"{first} ended before {second} began" for first, second in consecutive)
        names = list(dict.fromkeys(name for pair in consecutive for name in pair))
        yield of_variants("order", "note", f"not interleaved: {pairs}", _FRESH, names)


def kind_of_run(evidence: Evidence) -> Iterator[ResultFinding]:
    """Options of the run that qualify its result."""
    if evidence.run["debug"]:
        message = "a debug run: a few cases, to see whether it works"
        yield of_trials("run", "note", message, "run without --debug for a result", evidence.trials)
    if evidence.spec.get("options", {}).get("retry_failed"):
        message = "failures of the variants were retried (--retry-failed), which flatters flaky variants"
        yield of_trials("run", "note", message, "run again with --fresh for a fair result", evidence.trials)
