"""Outcomes that are suspiciously alike, missing or failed, and doubtful verdicts."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import combinations

from abreast.analyse.decision.verdicts import lopsided
from abreast.analyse.run import analyse
from abreast.analyse.validate.evidence import (
    FEWEST,
    FEWEST_ALIKE,
    LISTED,
    MANY,
    Evidence,
    Level,
    ResultFinding,
    finding,
    listed,
    of_variants,
)
from abreast.text import many

SAMPLE = 200  # answers of each variant that are compared first
SHORT_ANSWER = 40  # characters; two variants that are right may give the same short answer
OFTEN = 0.2  # share of a variant's outcomes


def _sampled_answers(evidence: Evidence) -> dict[int, dict[int, str]]:
    """The beginnings of answers to evenly spread cases, by variant and case."""
    step = max(1, evidence.cases // SAMPLE)
    answers: dict[int, dict[int, str]] = defaultdict(dict)
    for variant, case, answer in evidence.queries.sample_answers(evidence.run_id, evidence.per_case, step):
        answers[variant][case] = answer or ""
    return answers


def one_answer_for_all(evidence: Evidence) -> Iterator[ResultFinding]:
    """A variant that gives most cases the same answer, which is hardly ever right."""
    queries, fix = evidence.queries, "check `abreast logs`: a refusal, a default, a prompt without its question?"
    for index, answers in _sampled_answers(evidence).items():
        answer, count = Counter(answers.values()).most_common(1)[0]
        if len(answers) < FEWEST or count < len(answers) / 2:
            continue
        total, same, expected, right, scored = queries.same_answers(evidence.run_id, index, answer, evidence.primary)
        is_wrong = expected > 1 and right <= 0.1 * scored if scored else expected >= FEWEST_ALIKE
        if same >= total / 2 and is_wrong:
            matches = queries.trials_answering(evidence.run_id, index, answer, LISTED)
            message = (
                f'{evidence.variants[index].name} gives the same answer ("{" ".join(answer.split())[:SHORT_ANSWER]}") '
                f"in {matches.total:,} of {total:,} cases that expect different ones"
            )
            yield evidence.of_matches("answers", "serious", message, fix, matches)


def variants_that_answer_alike(evidence: Evidence) -> Iterator[ResultFinding]:
    """Two variants with different parameters and the same answers: the parameters may not reach the target."""
    sampled = _sampled_answers(evidence)
    for first, second in combinations(evidence.variants, 2):
        answers, others = sampled[first.index], sampled[second.index]
        both, different = answers.keys() & others.keys(), first.differs_in(second)
        if not different or len(both) < FEWEST_ALIKE or any(answers[case] != others[case] for case in both):
            continue
        compared, unlike, alike, distinct = evidence.queries.alike_answers(
            evidence.run_id, first.index, second.index, evidence.primary, SHORT_ANSWER
        )
        if unlike or alike < FEWEST_ALIKE or distinct < 2:
            continue
        message = (
            f"{first.name} and {second.name} differ in {listed(sorted(different))} and give the same answer in all "
            f"{many(compared, 'block')}, even where it is wrong or long: does the parameter reach the target?"
        )
        fix = "check what is sent with `abreast logs`; if it reaches the target, it has no effect on these cases"
        yield of_variants("answers", "serious" if distinct > 2 else "note", message, fix, (first.name, second.name))


_WITHOUT_OUTCOME = {
    "failed": ("infrastructure failed on one side", "RESUME to retry what failed"),
    "skipped": ("one side skipped it", "note that the comparison covers only cases that no variant skips"),
    "missing": ("one side was not run yet", "RESUME to run the rest"),
}


def unbalanced_blocks(evidence: Evidence) -> Iterator[ResultFinding]:
    """Blocks in which one variant has an outcome and another has none, by reason."""
    variants, queries = len(evidence.variants), evidence.queries
    if all(arm["outcomes"] * variants == evidence.run["planned_trials"] for arm in evidence.arms):
        return
    total = queries.count_blocks(evidence.run_id, variants)
    by_reason: dict[str, list[int]] = defaultdict(list)
    for block, reason in queries.unbalanced_blocks(evidence.run_id, variants):
        by_reason[reason].append(block)
    outcomes = listed(f"{arm['name']} {arm['outcomes']:,}" for arm in evidence.arms)
    for reason, (description, fix) in _WITHOUT_OUTCOME.items():
        blocks = by_reason[reason]
        if not blocks:
            continue
        cases = list(dict.fromkeys(block // evidence.repeats for block in blocks))
        is_serious = reason != "missing" and len(blocks) > max(FEWEST_ALIKE - 1, MANY * total)
        message = f"{many(len(blocks), 'block')} of {total:,} cannot be compared: {description} (outcomes: {outcomes})"
        if reason == "failed":
            failures = listed(f"{arm['name']} {arm['infrastructure']:,}" for arm in evidence.arms)
            message += f"; failures by infrastructure: {failures}"
            if _is_uneven(evidence):
                is_serious, message = True, f"{message}, much more of one than of another"
        ids = queries.case_ids(evidence.run_id, evidence.per_case, cases[:LISTED])
        level: Level = "serious" if is_serious else "note"
        yield finding("balance", level, message, fix.replace("RESUME", evidence.resume), "cases", len(cases), ids)


def _is_uneven(evidence: Evidence) -> bool:
    """Whether infrastructure failed one variant much more often than another, so that the other cases are biased."""
    failed = [(arm["infrastructure"], arm["trials"]) for arm in evidence.arms if arm["trials"]]
    most, least = max(failed, key=lambda f: f[0] / f[1]), min(failed, key=lambda f: f[0] / f[1])
    return bool(most[0] - least[0] >= FEWEST_ALIKE and most[0] / most[1] - least[0] / least[1] > MANY)


def own_failures(evidence: Evidence) -> Iterator[ResultFinding]:
    """Variants that hardly answer, so that the comparison is mainly one of failures."""
    for arm in evidence.arms:
        failed, never = arm["outcomes"] - arm["ok"], arm["ok"] == 0
        if failed and (never or failed >= max(FEWEST_ALIKE, OFTEN * arm["outcomes"])):
            claim = f"{arm['name']} {'gave no answer at all' if never else 'failed'}"
            message = f"{claim}: {failed:,} of {arm['outcomes']:,} trials failed by its own fault and are scored 0"
            fix = f"run `{evidence.command('logs')} --errors` to see why"
            yield of_variants("failures", "serious" if never else "note", message, fix, (arm["name"],))


def lopsided_censoring(evidence: Evidence) -> Iterator[ResultFinding]:
    """Timeouts, caps and refusals that hit one variant more often than the baseline, beyond chance."""
    baseline, fix = evidence.baseline, "raise the limit for both, or report that it is part of the comparison"
    errors = {variant.index: Counter[tuple[str, str]]() for variant in evidence.variants}
    for index, kind, count in evidence.queries.error_counts(evidence.run_id):
        errors[index][str(kind), ""] += count
    for variant in evidence.others:
        for item in lopsided(errors[baseline.index], errors[variant.index]):
            counts = f"{item.variant:,} of {variant.name}, {item.baseline:,} of {baseline.name}"
            message = f"{item.noun}: {counts}; the verdict also reflects the limits"
            yield of_variants("censoring", "serious", message, fix, (variant.name,))


def doubtful_verdicts(evidence: Evidence) -> Iterator[ResultFinding]:
    """Verdicts that lost pairs could change, and those whose two intervals contradict each other."""
    for item in analyse(evidence.store, evidence.run["run"]).comparisons:
        result = item.verdict
        if result.demoted is not None:
            message = f"{item.variant} would be {result.demoted}, but the lost trials could change that"
            fix = f"{evidence.resume} to retry what failed"
            yield of_variants("verdict", "serious", message, fix, (item.variant,))
        if result.final is not None and result.interval is not None and result.interval.level == 1:
            message = f"{item.variant}: the final interval and the confidence sequence contradict each other"
            fix = "compare early and late cases, since results may have drifted during the run, and run again"
            yield of_variants("verdict", "serious", message, fix, (item.variant,))
