"""Answers that are suspiciously alike."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import combinations

from abreast.analyse.validate.evidence import Evidence
from abreast.analyse.validate.finding import FEWEST, FEWEST_ALIKE, SHOWN, Finding, listed, of_trials, of_variants
from abreast.text import many

ANSWERS_LOOKED_AT = 200  # of each variant, before all of them are compared
SHORT_ANSWER = 40  # characters: two who are right say the same


def _sampled_answers(evidence: Evidence) -> dict[int, dict[int, str]]:
    """By variant and case the beginning of the answers to some cases, spread over all."""
    step = max(1, evidence.cases // ANSWERS_LOOKED_AT)
    found: dict[int, dict[int, str]] = defaultdict(dict)
    for variant, case, answer in evidence.store.queries.sample_answers(evidence.run_id, evidence.per_case, step):
        found[variant][case] = answer or ""
    return found


def one_answer_for_all(evidence: Evidence) -> Iterator[Finding]:
    """A variant that says the same to most cases although it is right for hardly any."""
    for index, answers in _sampled_answers(evidence).items():
        answer, times = Counter(answers.values()).most_common(1)[0]
        if len(answers) < FEWEST or times < len(answers) / 2:
            continue
        queries = evidence.store.queries
        all_, same, expected, right, scored = queries.same_answers(
            evidence.run_id, index, answer, evidence.run["primary_score"]
        )
        wrong = expected > 1 and right <= 0.1 * scored if scored else expected >= FEWEST_ALIKE
        if same >= all_ / 2 and wrong:
            shown = " ".join(answer.split())[:SHORT_ANSWER]
            count, ids = evidence.named(queries.trials_answering(evidence.run_id, index, answer, SHOWN))
            yield of_trials(
                "answers",
                "serious",
                f'{evidence.variants[index].name} gives the same answer ("{shown}") in {count:,} of {all_:,} cases '
                "that expect different ones",
                "look at abreast logs: a refusal, a default, a prompt without its question?",
                count,
                ids,
            )


def variants_that_answer_alike(evidence: Evidence) -> Iterator[Finding]:
    """Two variants with different parameters and the same answers: do the parameters reach the target?"""
    sampled = _sampled_answers(evidence)
    for one, other in combinations(evidence.variants, 2):
        mine, theirs = sampled[one.index], sampled[other.index]
        both = mine.keys() & theirs.keys()
        differ = one.differs_in(other)
        if not differ or len(both) < FEWEST_ALIKE or any(mine[case] != theirs[case] for case in both):
            continue
        compared, different, alike, distinct = evidence.store.queries.alike_answers(
            evidence.run_id, one.index, other.index, evidence.run["primary_score"], SHORT_ANSWER
        )
        if different or alike < FEWEST_ALIKE or distinct < 2:
            continue
        yield of_variants(
            "answers",
            "serious" if distinct > 2 else "note",
            f"{one.name} and {other.name} differ in {listed(sorted(differ))} and give the same answer in all "
            f"{many(compared, 'block')}, also where it is not simply the right one: does it reach the target?",
            "look at what is sent with abreast logs; if it does reach the target, it has no effect on these cases",
            (one.name, other.name),
        )
