"""The output of `abreast compare`: verdicts as for one run, and the cases that could not be paired."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from xml.etree import ElementTree

from abreast.analyse.compare import AcrossRuns
from abreast.report.formats import json_report, markdown
from abreast.report.formats.junit import add_outcome, add_requirements, add_test, clean, finished
from abreast.report.words.verdict_sentence import SIMULATED, advice, cost_and_latency, sentence
from abreast.text import many

SCHEMA = "abreast.compare/1"
LISTED = 20  # ids of cases in a sentence; the JSON has all of them
NOT_INTERLEAVED = "the runs were not interleaved: anything else that changed in between counts as a difference"


def lines(item: AcrossRuns) -> list[str]:
    """Write the verdict on one contender of a later run, and its qualifications."""
    comparison, match = item.comparison, item.match
    if item.is_compared:
        sentences = [_headline(item), *advice(comparison), *filter(None, [cost_and_latency(comparison)])]
    else:
        contenders = f"{item.second.name} vs {item.first.name}"
        sentences = [f"no comparison: {contenders}: {comparison.reason}", *advice(comparison)]
    if match.shared and comparison.planned:
        answers = f"{many(match.shared, 'answer')} of {item.second.variant}"
        sentences.append(f"not compared, because one run reused them: {answers}, in {_listed(match.shared_cases)}")
    elif match.shared and item.first.run != item.second.run:
        sentences.append("to compare new answers, run it again with --fresh")
    reasons = (
        (f"only in {item.first.run}{_or_not_begun(item.second.run, match.not_begun[1])}", match.only_first),
        (f"only in {item.second.run}{_or_not_begun(item.first.run, match.not_begun[0])}", match.only_second),
        ("same id, different input", match.changed),
        ("the input is known in one run only", match.without_input),
        ("same input, different expected answer", match.other_truth),
        ("incomplete in one run", match.unfinished),
    )
    sentences += [f"not paired, {why}: {_listed(ids)}" for why, ids in reasons if ids]
    if item.changes:
        sentences.append(f"changed: {'; '.join(item.changes)}")
    return sentences


def _headline(item: AcrossRuns) -> str:
    """`regression: b is worse than a: …`; no prefix if undecided."""
    text = sentence(item.comparison)
    return text if item.word in ("not known", "no comparison") else f"{item.word}: {text}"


def _or_not_begun(run: str, cases: int) -> str:
    """A reminder that an unfinished run may have planned the same cases."""
    return f", or among the {many(cases, 'case')} that {run} has not started" if cases else ""


def _listed(ids: Sequence[str]) -> str:
    """`c1, c2 (2 cases)`; only the first of many ids are listed."""
    more = f", … {len(ids) - LISTED:,} more" if len(ids) > LISTED else ""
    return f"{', '.join(ids[:LISTED])}{more} ({many(len(ids), 'case')})"


def text(items: Sequence[AcrossRuns]) -> list[str]:
    """Write all lines; those that qualify a verdict are indented below it."""
    output = [SIMULATED] if any(item.simulated for item in items) else []
    for item in items:
        first, *rest = lines(item)
        output += [first, *(f"  {line}" for line in rest)]
    return output + cautions(items)


def cautions(items: Sequence[AcrossRuns]) -> list[str]:
    """Write lines about all comparisons together."""
    of_two_runs = any(item.is_compared and item.first.run != item.second.run for item in items)
    output = [NOT_INTERLEAVED] if of_two_runs else []
    output += dict.fromkeys(note for item in items for side in (item.first, item.second) for note in side.import_notes)
    early = sorted({side.run for item in items for side in (item.first, item.second) if side.stopped_early})
    if early:
        output.append(f"{', '.join(early)} stopped early: its scores favour the variant that was leading")
    return output


def as_markdown(items: Sequence[AcrossRuns]) -> str:
    parts = [f"**{SIMULATED}**"] if any(item.simulated for item in items) else []
    for item in items:
        first, *rest = [markdown.safe(line) for line in lines(item)]
        parts += [f"**{first}**", "\n".join(f"- {line}" for line in rest)]
        if item.comparison.differences:
            parts.append(markdown.case_table(item.comparison))
    return "\n\n".join(part for part in [*parts, *map(markdown.safe, cautions(items))] if part) + "\n"


def as_objects(items: Sequence[AcrossRuns]) -> dict[str, Any]:
    verdicts = json_report.adjusted([json_report.verdict(item.comparison, True) for item in items])
    return {
        "schema": SCHEMA,
        "simulated": any(item.simulated for item in items),
        "verdicts": [
            {
                **verdict,
                "regression": item.word,
                "variant": item.second.variant,
                "run": item.second.run,
                "baseline": item.first.variant,
                "baseline_run": item.first.run,
                "unmatched": {item.first.run: item.match.only_first, item.second.run: item.match.only_second},
                "not_begun": dict(zip((item.first.run, item.second.run), item.match.not_begun, strict=True)),
                "changed_inputs": item.match.changed,
                "inputs_in_one_run_only": item.match.without_input,
                "changed_expected": item.match.other_truth,
                "unfinished": item.match.unfinished,
                "shared_answers": item.match.shared,
                "shared_cases": item.match.shared_cases,
                "changes": item.changes,
                "import_notes": list(dict.fromkeys((*item.first.import_notes, *item.second.import_notes))),
                "before": json_report.variant(item.first.summary),
                "after": json_report.variant(item.second.summary),
            }
            for item, verdict in zip(items, verdicts, strict=True)
        ],
    }


def as_junit(items: Sequence[AcrossRuns], unmet: Sequence[str], allow_unchanged: bool = False) -> str:
    """A test for each contender, which fails on a regression and is an error if nothing could be compared (skipped if
    nothing changed, with `allow_unchanged`), and a failed test for each unmet requirement."""
    root = ElementTree.Element("testsuites", name="compare")
    suite = ElementTree.SubElement(root, "testsuite", name="compare")
    for item in items:
        test = add_test(suite, "compare", f"{item.second.name} against {item.first.name}")
        if allow_unchanged and item.is_unchanged:
            ElementTree.SubElement(test, "skipped", message=clean(lines(item)[0]))
        else:
            add_outcome(test, item.word, lines(item)[0])
        ElementTree.SubElement(test, "system-out").text = clean("\n".join(lines(item)))
    add_requirements(suite, "compare", unmet)
    return finished(root)
