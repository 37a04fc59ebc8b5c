"""Times that cannot be, and variants that were asked at different times."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np

from abreast.analyse.rows import Floats
from abreast.analyse.validate.evidence import Evidence
from abreast.analyse.validate.finding import FEWEST_ALIKE, SHOWN, Finding, Level, listed, of_trials, of_variants
from abreast.text import many

CLOCK_S = 60.0  # clocks of several machines may differ by this
PAUSE_S = 600.0


_IMPOSSIBLE = {
    "negative": "has a negative duration",
    "reversed": "finished before it started",
    "too_long": "took longer than the time between its start and its end",
    "early": "started before the run began",
    "late": "finished in the future",
}


def clocks(evidence: Evidence) -> Iterator[Finding]:
    """Times that cannot be: a clock was set, or a machine slept."""
    queries, earliest = evidence.store.queries, float(evidence.run["created_at"]) - CLOCK_S
    for what, matches in queries.impossible_times(evidence.run_id, earliest, time.time() + CLOCK_S, SHOWN).items():
        count, ids = evidence.named(matches)
        yield _clock("serious", f"{many(count, 'trial')}: it {_IMPOSSIBLE[what]}", count, ids)
    stored = queries.execution_times(evidence.run_id)
    if len(stored):
        yield from _backwards(evidence, stored)
        yield from _pauses(evidence, stored)


def _clock(level: Level, message: str, count: int, ids: tuple[str, ...]) -> Finding:
    fix = "a clock was set or a machine slept: do not read latencies of this run; the scores are not touched"
    return of_trials("clock", level, message, fix, count, ids)


def _backwards(evidence: Evidence, stored: Floats) -> Iterator[Finding]:
    """Trials that were stored after others, in the order of `seq`, and say they finished long before them."""
    position, _, finished = stored[np.argsort(stored[:, 3], kind="stable"), :3].T
    late = position[finished < np.maximum.accumulate(finished) - CLOCK_S]
    if len(late):
        message = f"{many(len(late), 'trial')}: stored after others, finished more than {CLOCK_S:g} s before them"
        yield _clock("note", message, len(late), evidence.trial_ids(map(int, late[:SHOWN])))


def _pauses(evidence: Evidence, stored: Floats) -> Iterator[Finding]:
    """Times in which nothing was in flight and nobody said why. A run that was resumed has them by nature."""
    if evidence.run["epoch"] != 1:
        return
    position, started, finished, _ = stored[np.argsort(stored[:, 1], kind="stable")].T
    ended, began = np.maximum.accumulate(finished)[:-1], started[1:]
    said = np.array(evidence.store.queries.event_times(evidence.run_id), dtype=float)
    found = [at for at in np.flatnonzero(began > ended + PAUSE_S) if not _between(said, ended[at] - 5, began[at])]
    if found:
        longest = max(began[at] - ended[at] for at in found)
        message = f"nothing was in flight for {longest / 60:,.0f} minutes, and nothing says why"
        yield _clock("note", message, len(found), evidence.trial_ids(int(position[at + 1]) for at in found[:SHOWN]))


def _between(moments: Floats, low: float, high: float) -> bool:
    return bool(((moments >= low) & (moments <= high)).any())


def order(evidence: Evidence) -> Iterator[Finding]:
    """Variants that were asked at different times: what changed between them is taken for a difference of variants."""
    arms = [arm for arm in evidence.arms if arm["trials"]]
    shares = [arm["reused"] / arm["trials"] for arm in arms]
    if arms and max(shares) - min(shares) > 0.1:
        told = listed(f"{arm['name']} {arm['reused']:,} of {arm['trials']:,}" for arm in arms)
        yield of_variants(
            "order",
            "note",
            f"answers of earlier runs stand beside new ones, not for every variant alike: {told}",
            "if what is measured changes with time (a hosted model), run all anew: --fresh",
            (arm["name"] for arm, share in zip(arms, shares, strict=True) if share > min(shares)),
        )
    timed = [arm for arm in arms if arm["trials"] - arm["reused"] >= FEWEST_ALIKE]
    apart = [
        (one["name"], other["name"])
        for one in timed
        for other in timed
        if one["last_begun"] < other["begun"] and evidence.baseline.name in (one["name"], other["name"])
    ]
    if apart:
        yield of_variants(
            "order",
            "note",
            f"were not asked in turns: {listed(f'{one} ended before {other} began' for one, other in apart)}",
            "if what is measured changes with time (a hosted model), run all anew: --fresh",
            dict.fromkeys(name for pair in apart for name in pair),
        )


def kind_of_run(evidence: Evidence) -> Iterator[Finding]:
    """What the run itself says against being taken at face value."""
    if evidence.run["debug"]:
        message = "a debug run: a few cases, to see whether it works"
        yield of_trials("run", "note", message, "leave out --debug for a result", evidence.trials)
    if evidence.spec.get("options", {}).get("retry_failed"):
        message = "failures of the variants were retried on request (--retry-failed): that flatters flaky ones"
        yield of_trials("run", "note", message, "run it anew with --fresh for a fair result", evidence.trials, ())
