"""Outcomes that are not there, or are failures: blocks that cannot be compared, variants that hardly answer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from abreast.analyse.validate.evidence import Evidence
from abreast.analyse.validate.finding import FEWEST_ALIKE, MANY, SHOWN, Finding, finding, listed, of_variants
from abreast.text import many

OFTEN = 0.2  # of a variant's outcomes


def unbalanced_blocks(evidence: Evidence) -> Iterator[Finding]:
    """Cases and repeats where one variant has an outcome and another has not, by why it has none."""
    if all(arm["outcomes"] * len(evidence.variants) == evidence.run["planned_trials"] for arm in evidence.arms):
        return
    wide = len(evidence.variants)
    queries = evidence.store.queries
    blocks = queries.count_blocks(evidence.run_id, wide)
    found: dict[str, list[int]] = defaultdict(list)
    for block, why in queries.unbalanced_blocks(evidence.run_id, wide):
        found[why].append(block)
    outcomes = listed(f"{arm['name']} {arm['outcomes']:,}" for arm in evidence.arms)
    for why, (told, fix) in _WITHOUT_OUTCOME.items():
        if found[why]:
            cases = list(dict.fromkeys(block // evidence.repeats for block in found[why]))
            serious = why != "missing" and len(found[why]) > max(FEWEST_ALIKE - 1, MANY * blocks)
            yield finding(
                "balance",
                "serious" if serious or (why == "failed" and _uneven(evidence)) else "note",
                f"{many(len(found[why]), 'block')} of {blocks:,} cannot be compared: {told} (outcomes: {outcomes})"
                + (_failures(evidence) if why == "failed" else ""),
                fix.replace("RUN", evidence.run["run"]),
                "cases",
                len(cases),
                queries.case_ids(evidence.run_id, evidence.per_case, cases[:SHOWN]),
            )


_WITHOUT_OUTCOME = {
    "failed": ("infrastructure failed on one side", "abreast resume RUN executes what failed again"),
    "skipped": ("one side skipped it", "the comparison holds only for cases that no variant skips"),
    "missing": ("one side was not run yet", "abreast resume RUN runs the rest"),
}


def _uneven(evidence: Evidence) -> bool:
    """Whether infrastructure fails one variant much more often than another: the cases that are left are a choice."""
    failed = [(arm["infrastructure"], arm["trials"]) for arm in evidence.arms if arm["trials"]]
    most, least = max(failed, key=lambda f: f[0] / f[1]), min(failed, key=lambda f: f[0] / f[1])
    return bool(most[0] - least[0] >= FEWEST_ALIKE and most[0] / most[1] - least[0] / least[1] > MANY)


def _failures(evidence: Evidence) -> str:
    told = listed(f"{arm['name']} {arm['infrastructure']:,}" for arm in evidence.arms)
    return f"; failures by infrastructure: {told}" + (", much more of one than of another" if _uneven(evidence) else "")


def own_failures(evidence: Evidence) -> Iterator[Finding]:
    """Variants that hardly answer: their failures count as wrong answers, and the comparison is one of failing."""
    for arm in evidence.arms:
        failed = arm["outcomes"] - arm["ok"]
        if failed and (arm["ok"] == 0 or failed >= max(FEWEST_ALIKE, OFTEN * arm["outcomes"])):
            told = f"{arm['name']} gave no answer at all" if arm["ok"] == 0 else f"{arm['name']} failed"
            yield of_variants(
                "failures",
                "serious" if arm["ok"] == 0 else "note",
                f"{told}: {failed:,} of {arm['outcomes']:,} trials by its own fault, each scored 0",
                f"look at them: abreast logs {evidence.run['run']} --errors",
                (arm["name"],),
            )
