"""Answers that are suspiciously alike."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import combinations

from abreast.analyse.validate.evidence import Evidence
from abreast.analyse.validate.finding import FEWEST, FEWEST_ALIKE, Finding, listed, of_trials, of_variants
from abreast.text import many

ANSWERS_LOOKED_AT = 200  # of each variant, before all of them are compared
SHORT_ANSWER = 40  # characters: two who are right say the same


def _sampled_answers(evidence: Evidence) -> dict[int, dict[int, str]]:
    """By variant and case the beginning of the answers to some cases, spread over all."""
    step = max(1, evidence.cases // ANSWERS_LOOKED_AT)
    found: dict[int, dict[int, str]] = defaultdict(dict)
    for variant, case, answer in evidence.ask(
        "SELECT t.variant, t.position / ?2, substr(p.answer, 1, 2000) FROM trials t "
        "JOIN payloads p ON p.run_id = t.run_id AND p.position = t.position "
        "WHERE t.run_id = ?1 AND t.repeat = 0 AND t.status = 'ok' AND (t.position / ?2) % ?3 = 0",
        evidence.per_case,
        step,
    ):
        found[variant][case] = answer or ""
    return found


def one_answer_for_all(evidence: Evidence) -> Iterator[Finding]:
    """A variant that says the same to most cases although it is right for hardly any."""
    for index, answers in _sampled_answers(evidence).items():
        answer, times = Counter(answers.values()).most_common(1)[0]
        if len(answers) < FEWEST or times < len(answers) / 2:
            continue
        ((all_, same, expected, right, scored),) = evidence.ask(
            "SELECT COUNT(*), TOTAL(same), COUNT(DISTINCT CASE WHEN same THEN expected END), "
            "TOTAL(same AND value > 0.5), COUNT(CASE WHEN same THEN value END) FROM ("
            "SELECT substr(p.answer, 1, 2000) = ?3 AS same, c.expected, s.value FROM trials t "
            "JOIN payloads p ON p.run_id = t.run_id AND p.position = t.position "
            "JOIN cases c ON c.digest = t.case_digest "
            "LEFT JOIN scores s ON s.run_id = t.run_id AND s.position = t.position AND s.name = ?4 "
            "WHERE t.run_id = ?1 AND t.variant = ?2 AND t.status = 'ok' AND t.repeat = 0)",
            index,
            answer,
            evidence.run["primary_score"],
        )
        wrong = expected > 1 and right <= 0.1 * scored if scored else expected >= FEWEST_ALIKE
        if same >= all_ / 2 and wrong:
            shown = " ".join(answer.split())[:SHORT_ANSWER]
            count, ids = evidence.matching(
                "t.variant = ?2 AND t.status = 'ok' AND t.repeat = 0 AND EXISTS (SELECT 1 FROM payloads p "
                "WHERE p.run_id = t.run_id AND p.position = t.position AND substr(p.answer, 1, 2000) = ?3)",
                index,
                answer,
            )
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
        compared, different, alike, distinct = evidence.ask(
            _ALIKE, one.index, other.index, evidence.run["primary_score"]
        )[0]
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


# Two who are right say the same; what counts is being alike where the answer is long or not right.
_ALIKE = (
    "SELECT COUNT(*), TOTAL(p.answer <> q.answer), COUNT(DISTINCT CASE WHEN NOT explained THEN case_digest END), "
    "COUNT(DISTINCT CASE WHEN NOT explained THEN substr(p.answer, 1, 2000) END) FROM ("
    "SELECT t.run_id, t.position AS mine, u.position AS theirs, t.case_digest, "
    f"COALESCE((s.value >= 1 AND length(a.answer) <= {SHORT_ANSWER}) "
    "OR trim(a.answer) = json_extract(CASE WHEN json_valid(c.expected, 2) THEN c.expected END, '$'), 0) "
    "AS explained FROM trials t "
    "JOIN trials u ON u.run_id = t.run_id AND u.position = t.position + ?3 - ?2 AND u.status = 'ok' "
    "JOIN cases c ON c.digest = t.case_digest "
    "JOIN payloads a ON a.run_id = t.run_id AND a.position = t.position "
    "LEFT JOIN scores s ON s.run_id = t.run_id AND s.position = t.position AND s.name = ?4 "
    "WHERE t.run_id = ?1 AND t.variant = ?2 AND t.status = 'ok') pair "
    "JOIN payloads p ON p.run_id = pair.run_id AND p.position = pair.mine "
    "JOIN payloads q ON q.run_id = pair.run_id AND q.position = pair.theirs"
)
