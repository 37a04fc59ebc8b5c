"""Cases that count twice, contradict each other or give their answer away."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator

from abreast.analyse.validate import leaks
from abreast.analyse.validate.evidence import MANY, Evidence, ExaminedVariant, Level, ResultFinding, listed, of_cases
from abreast.text import many

PROMPTS_LOOKED_AT = 20_000
CHARACTERS_LOOKED_AT = 10_000_000
PROMPT_ENDS = 5_000  # characters of the beginning and of the end of a long prompt


def duplicate_inputs(evidence: Evidence) -> Iterator[ResultFinding]:
    """Cases with one input: what contradicts itself, and what is counted as independent and is not."""
    found = evidence.queries.cases_of_shared_inputs(evidence.run_id, evidence.per_case)
    by_tags = any(_reads_tags(variant) for variant in evidence.variants)
    alike: dict[tuple[str, str], list[tuple[str, str, str | None]]] = defaultdict(list)
    for input_digest, tags, case, expected, group in found:
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
        shared = f"{many(len(contradictory), 'case')} share an input with another"
        message = f"{shared} and expect something else: no answer can be right for both"
        fix = "correct the expected answers, or put what tells these cases apart into their input"
        yield of_cases("duplicates", "serious", message, fix, contradictory)
    if independent:
        message = (
            f"{many(len(independent), 'case')} share an input with another: they count as independent and are not, so "
            "the interval is narrower than the data allow"
        )
        fix = "remove the copies, or give the cases of one input one group"
        level: Level = "serious" if surplus > MANY * evidence.cases else "note"
        yield of_cases("duplicates", level, message, fix, independent)
    if grouped:
        what = f"{many(len(grouped), 'case')} of one group share an input"
        message, fix = (
            f"{what}: they tell no more than repeats would",
            "remove the copies and use repeats, unless they are meant",
        )
        yield of_cases("duplicates", "note", message, fix, grouped)


def _reads_tags(variant: ExaminedVariant) -> bool:
    """Whether cases of one input can be told apart by their tags."""
    return variant.target.startswith("python:") or "tags" in str(variant.params.get("prompt", ""))


def _prompts_to_look_at(evidence: Evidence) -> float:
    """As many as can be read in about a second, by the length of some."""
    spread = max(1, evidence.cases // 20)
    length = evidence.queries.prompt_length(evidence.run_id, evidence.per_case, spread, 2 * PROMPT_ENDS)
    return min(PROMPTS_LOOKED_AT, CHARACTERS_LOOKED_AT / max(1.0, length))


def leaked_answers(evidence: Evidence) -> Iterator[ResultFinding]:
    """Prompts that give the expected answer away; `leaks` says when one does."""
    step = max(1, math.ceil(evidence.cases * len(evidence.variants) / _prompts_to_look_at(evidence)))
    prompts = evidence.queries.sample_prompts(evidence.run_id, evidence.per_case, step, PROMPT_ENDS)
    seen, expected = leaks.look(prompts, len(evidence.variants), evidence.baseline.index)
    announced = {variant.name: seen[variant.index].gives_away(expected) for variant in evidence.variants}
    announced = {name: cases for name, cases in announced.items() if cases}
    look = "look at them with abreast logs --case ID, and take the answer out of the input"
    few = list(dict.fromkeys(case for prompts_seen in seen for case in prompts_seen.stand_out()))
    if announced:
        message = f"prompts of {listed(announced)} announce the expected answer, as in `answer: X`"
        cases = list(dict.fromkeys(case for cases in announced.values() for case in cases))
        yield of_cases("leaks", "serious", message, f"{look}, the template or the transform", cases)
    elif few:
        which = f"the prompt of {many(len(few), 'case')} contains the expected answer"
        yield of_cases("leaks", "serious", f"{which}, those of the others do not", look, few)
    for variant in evidence.others:
        more = seen[variant.index].contains_more()
        if more and variant.name not in announced:
            where = f"where those of {evidence.baseline.name} do not"
            message = f"prompts of {variant.name} contain the expected answer {where}"
            fix = "right if it is meant to find the answer (retrieval); else its prompt or transform tells it"
            yield of_cases("leaks", "note", message, fix, more)
