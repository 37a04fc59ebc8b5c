"""What `abreast compare` says: the same sentences as of one run, and which cases could not be paired."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from xml.etree import ElementTree

from abreast.analyse.compare import AcrossRuns
from abreast.report.formats import json_report, markdown
from abreast.report.formats.junit import add_requirements, clean, finished
from abreast.report.words.verdict_sentence import SIMULATED, advice, aside, sentence
from abreast.text import many

SCHEMA = "abreast.compare/1"
LISTED = 20  # ids of cases in a sentence; all of them are in the JSON
NOT_INTERLEAVED = "the runs were not interleaved: whatever else changed in between counts as well"


def lines(item: AcrossRuns) -> list[str]:
    """The verdict on one contender of a later run, and what qualifies it."""
    comparison, match = item.comparison, item.match
    if item.is_compared:
        said = [_headline(item), *advice(comparison)]
        said += [line for line in (aside(comparison),) if line]
    else:
        contenders = f"{item.second.name} vs {item.first.name}"
        said = [f"no comparison: {contenders}: {comparison.reason}", *advice(comparison)]
    if match.shared and comparison.planned:
        what = f"{many(match.shared, 'answer')} of {item.second.variant}"
        said.append(f"set aside, shared by both runs because reused: {what}, in {_listed(match.shared_cases)}")
    elif match.shared and item.first.run != item.second.run:
        said.append("to compare new answers, run it again with --fresh")
    reasons = (
        (f"only in {item.first.run}{_or_not_begun(item.second.run, match.not_begun[1])}", match.only_first),
        (f"only in {item.second.run}{_or_not_begun(item.first.run, match.not_begun[0])}", match.only_second),
        ("another input under the same id", match.changed),
        ("another expected answer to the same input", match.other_truth),
        ("not complete in one of them", match.unfinished),
    )
    said += [f"not paired, {why}: {_listed(ids)}" for why, ids in reasons if ids]
    if item.changes:
        said.append(f"changed: {'; '.join(item.changes)}")
    return said


def _headline(item: AcrossRuns) -> str:
    """`regression: b is worse than a: …`; what is not decided says so by itself."""
    text = sentence(item.comparison)
    return text if item.word in ("not known", "no comparison") else f"{item.word}: {text}"


def _or_not_begun(run: str, cases: int) -> str:
    """A run that is not finished may have planned what it has no row of."""
    return f", or among the {many(cases, 'case')} that {run} has not begun" if cases else ""


def _listed(ids: Sequence[str]) -> str:
    """`c1, c2 (2 cases)`, with the rest counted if they are many."""
    more = f", … {len(ids) - LISTED:,} more" if len(ids) > LISTED else ""
    return f"{', '.join(ids[:LISTED])}{more} ({many(len(ids), 'case')})"


def text(items: Sequence[AcrossRuns]) -> list[str]:
    """Everything, a line each; what belongs to a verdict stands indented under it."""
    said = [SIMULATED] if any(item.simulated for item in items) else []
    for item in items:
        first, *rest = lines(item)
        said += [first, *(f"  {line}" for line in rest)]
    return said + _cautions(items)


def _cautions(items: Sequence[AcrossRuns]) -> list[str]:
    """What every comparison of runs must be read with."""
    apart = any(item.is_compared and item.first.run != item.second.run for item in items)
    said = [NOT_INTERLEAVED] if apart else []
    early = sorted({side.run for item in items for side in (item.first, item.second) if side.stopped_early})
    if early:
        said.append(f"{', '.join(early)} stopped when it was decided: its scores favour the variant that led then")
    return said


def as_markdown(items: Sequence[AcrossRuns]) -> str:
    parts = [f"**{SIMULATED}**"] if any(item.simulated for item in items) else []
    for item in items:
        first, *rest = [markdown.safe(line) for line in lines(item)]
        parts += [f"**{first}**", "\n".join(f"- {line}" for line in rest)]
        rows = [(each.case_id, f"{each.baseline:.3g}", f"{each.variant:.3g}") for each in item.comparison.differences]
        if rows:
            parts.append(markdown.table(("case", item.first.name, item.second.name), rows))
    return "\n\n".join(part for part in [*parts, *map(markdown.safe, _cautions(items))] if part) + "\n"


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
                "changed_expected": item.match.other_truth,
                "unfinished": item.match.unfinished,
                "shared_answers": item.match.shared,
                "shared_cases": item.match.shared_cases,
                "changes": item.changes,
                "before": json_report.variant(item.first.summary),
                "after": json_report.variant(item.second.summary),
            }
            for item, verdict in zip(items, verdicts, strict=True)
        ],
    }


def as_junit(items: Sequence[AcrossRuns], unmet: Sequence[str]) -> str:
    """A test for each contender, which fails on a regression and is an error where nothing could be compared, and one
    for each requirement that is not met."""
    root = ElementTree.Element("testsuites", name="compare")
    suite = ElementTree.SubElement(root, "testsuite", name="compare")
    for item in items:
        test = ElementTree.SubElement(
            suite,
            "testcase",
            classname="compare",
            name=clean(f"{item.second.name} against {item.first.name}"),
            time="0",
        )
        if item.word == "regression":
            ElementTree.SubElement(test, "failure", message=clean(lines(item)[0]), type="regression")
        elif not item.is_compared:
            ElementTree.SubElement(test, "error", message=clean(lines(item)[0]), type="no comparison")
        ElementTree.SubElement(test, "system-out").text = clean("\n".join(lines(item)))
    add_requirements(suite, "compare", unmet)
    return finished(root)
