"""Times that cannot be, and variants that were asked at different times."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np

from abreast.analyse.validate.evidence import Evidence, Floats
from abreast.analyse.validate.finding import FEWEST_ALIKE, SHOWN, Finding, Level, listed, of_trials, of_variants
from abreast.text import many

CLOCK_S = 60.0  # clocks of several machines may differ by this
PAUSE_S = 600.0


_EXECUTED = "t.reused_from IS NULL AND t.status IN ('ok', 'error')"


def _impossible(began: float, now: float) -> dict[str, str]:
    """What no trial can do on a clock that nobody sets, and how rows show it."""
    return {
        "has a negative duration": "MIN(t.latency_s, t.queue_s, t.backoff_s, t.service_s) < -0.001",
        "finished before it started": "t.finished_at < t.started_at - 0.001",
        "took longer than the time between its start and its end": "t.finished_at >= t.started_at - 0.001 "
        "AND t.service_s > t.finished_at - t.started_at + MAX(1.0, 0.1 * t.service_s)",
        "started before the run began": f"t.started_at < {began - CLOCK_S!r}",
        "finished in the future": f"t.finished_at > {now + CLOCK_S!r}",
    }


def clocks(evidence: Evidence) -> Iterator[Finding]:
    """Times that cannot be: a clock was set, or a machine slept."""
    impossible = _impossible(float(evidence.run["created_at"]), time.time())
    totals = ", ".join(f"TOTAL({condition})" for condition in impossible.values())
    counts = evidence.ask(f"SELECT {totals} FROM trials t WHERE t.run_id = ?1 AND {_EXECUTED}")[0]
    for (what, condition), number in zip(impossible.items(), counts, strict=True):
        if number:
            count, ids = evidence.matching(f"{_EXECUTED} AND {condition}")
            yield _clock("serious", f"{many(count, 'trial')}: it {what}", count, ids)
    stored = evidence.moments(_EXECUTED)
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
    said = np.array([row[0] for row in evidence.ask("SELECT happened_at FROM events WHERE run_id = ?1")], dtype=float)
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
