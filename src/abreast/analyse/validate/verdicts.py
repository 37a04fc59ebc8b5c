"""What speaks against a verdict itself: censoring that falls on one side, lost pairs, intervals that contradict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from abreast.analyse.decision.verdicts import lopsided
from abreast.analyse.run import analyse
from abreast.analyse.validate.evidence import Evidence
from abreast.analyse.validate.finding import Finding, of_variants


def lopsided_censoring(evidence: Evidence) -> Iterator[Finding]:
    """Timeouts, caps and refusals that one variant meets more often than the baseline, beyond chance."""
    errors = {variant.index: Counter[tuple[str, str]]() for variant in evidence.variants}
    for index, kind, count in evidence.store.queries.error_counts(evidence.run_id):
        errors[index][str(kind), ""] += count
    for variant in evidence.others:
        for item in lopsided(errors[evidence.baseline.index], errors[variant.index]):
            yield of_variants(
                "censoring",
                "serious",
                f"{item.noun}: {item.variant:,} of {variant.name}, {item.baseline:,} of {evidence.baseline.name}; the "
                "verdict compares the limits too",
                "raise the limit for both, or say that it is part of the comparison",
                (variant.name,),
            )


def doubtful_verdicts(evidence: Evidence) -> Iterator[Finding]:
    """Verdicts that lost pairs could change, and those whose two intervals exclude each other."""
    for item in analyse(evidence.store, evidence.run["run"]).comparisons:
        result = item.verdict
        if result.demoted is not None:
            yield of_variants(
                "verdict",
                "serious",
                f"{item.variant} would be {result.demoted}, but what was lost could change that",
                f"abreast resume {evidence.run['run']} executes what failed again",
                (item.variant,),
            )
        if result.final is not None and result.interval is not None and result.interval.level == 1:
            yield of_variants(
                "verdict",
                "serious",
                f"{item.variant}: the final interval and the confidence sequence exclude each other",
                "results may have drifted during the run: look at early and late cases, and run again",
                (item.variant,),
            )
