"""Cases that count twice, contradict each other or give their answer away."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator

from abreast.analyse.validate import leaks
from abreast.analyse.validate.evidence import MANY, Evidence, ExaminedVariant, Level, ResultFinding, listed, of_cases
from abreast.digest import digest
from abreast.text import many

MOST_PROMPTS = 20_000
MOST_CHARACTERS = 10_000_000
NO_INPUT = digest(None)
PROMPT_ENDS = 5_000  # characters of the beginning and of the end of a long prompt


def duplicate_inputs(evidence: Evidence) -> Iterator[ResultFinding]:
    """Cases with the same input: contradictory ones, and copies that count as independent."""
    by_tags = any(_reads_tags(variant) for variant in evidence.variants)
    alike: dict[tuple[str, str], list[tuple[str, str, str | None]]] = defaultdict(list)
    rows = evidence.queries.cases_of_shared_inputs(evidence.run_id, evidence.per_case)
    for input_digest, tags, case, expected, group in rows:
        if input_digest == NO_INPUT:  # as in logs of other tools that have none
            continue
        alike[input_digest, tags if by_tags else ""].append((case, expected, group))
    contradictory, independent, grouped = list[str](), list[str](), list[str]()
    surplus = 0
    for same in alike.values():
        ids, expected, groups = zip(*same, strict=True)
        if len(ids) == 1:
            continue
        if len(set(expected)) > 1:
            contradictory += ids
        elif groups[0] is None or len(set(groups)) > 1:
            independent += ids
            surplus += len(ids) - 1
        else:
            grouped += ids
    if contradictory:
        shared = f"{many(len(contradictory), 'case')} share an input with another case"
        message = f"{shared} but expect another answer: no answer can be right for both"
        fix = "correct the expected answers, or put the difference between these cases into their input"
        yield of_cases("duplicates", "serious", message, fix, contradictory)
    if independent:
        shared = f"{many(len(independent), 'case')} share an input with another case"
        message = f"{shared} but count as independent: the interval is narrower than the data support"
        fix = "remove the copies, or put cases with the same input into one group"
        level: Level = "serious" if surplus > MANY * evidence.cases else "note"
        yield of_cases("duplicates", level, message, fix, independent)
    if grouped:
        message = f"{many(len(grouped), 'case')} of one group share an input: repeats would do the same"
        fix = "remove the copies and use repeats, unless they are intended"
        yield of_cases("duplicates", "note", message, fix, grouped)


def _reads_tags(variant: ExaminedVariant) -> bool:
    """Whether the variant may treat cases with the same input differently because of their tags."""
    return variant.target.startswith("python:") or "tags" in str(variant.params.get("prompt", ""))


def _sample_size(evidence: Evidence) -> float:
    """The number of prompts that can be read in about a second, estimated from the mean length of a sample."""
    spread = max(1, evidence.cases // 20)
    length = evidence.queries.prompt_length(evidence.run_id, evidence.per_case, spread, 2 * PROMPT_ENDS)
    return min(MOST_PROMPTS, MOST_CHARACTERS / max(1.0, length))


def leaked_answers(evidence: Evidence) -> Iterator[ResultFinding]:
    """Prompts that give the expected answer away (see `leaks`)."""
    step = max(1, math.ceil(evidence.cases * len(evidence.variants) / _sample_size(evidence)))
    prompts = evidence.queries.sample_prompts(evidence.run_id, evidence.per_case, step, PROMPT_ENDS)
    statistics, expected = leaks.scan(prompts, len(evidence.variants), evidence.baseline.index)
    announced = {variant.name: statistics[variant.index].gives_away(expected) for variant in evidence.variants}
    announced = {name: cases for name, cases in announced.items() if cases}
    look = "read them with `abreast logs --case ID`, and take the answer out of the input"
    few = list(dict.fromkeys(case for of_variant in statistics for case in of_variant.stand_out()))
    if announced:
        message = f"prompts of {listed(announced)} announce the expected answer, as in `answer: X`"
        cases = list(dict.fromkeys(case for cases in announced.values() for case in cases))
        yield of_cases("leaks", "serious", message, f"{look}, the template or the transform", cases)
    elif few:
        message = f"the prompt of {many(len(few), 'case')} contains the expected answer, other prompts do not"
        yield of_cases("leaks", "serious", message, look, few)
    for variant in evidence.others:
        more = statistics[variant.index].contains_more()
        if more and variant.name not in announced:
            where = f"where those of {evidence.baseline.name} do not"
            message = f"prompts of {variant.name} contain the expected answer {where}"
            fix = "expected if the variant retrieves the answer; else fix its prompt or transform, which reveals it"
            yield of_cases("leaks", "note", message, fix, more)
