"""Requirements on a result (`--fail-if`), such as `worse` or `score < 0.8`. Parsed before anything is executed."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from abreast.errors import BadInput, suggestion
from abreast.stats.intervals.population import THESE_CASES

if TYPE_CHECKING:
    from abreast.analyse.compare import AcrossRuns
    from abreast.analyse.run import Analysis, Comparison
    from abreast.analyse.variants import VariantSummary

WORDS = ("worse", "not better", "inconclusive")
HELP = (
    'use worse, "not better", inconclusive, "score < 0.8", "score[variant] < 0.8", "score_NAME < 0.8", '
    '"cost_usd > 5", "latency_p95 > +10%" or "errors > 2%"'
)


def _errors(summary: VariantSummary) -> float | None:
    failed = sum(summary.errors.values())
    return failed / (summary.ok + failed) if summary.ok + failed else None


MEASURES: dict[str, Callable[[VariantSummary], float | None]] = {
    "score": lambda summary: summary.score.estimate if summary.score else None,
    "cost_usd": lambda summary: (
        None if summary.unpriced or summary.cost_usd is None else summary.cost_usd + summary.in_vain_usd
    ),
    "latency_p50": lambda summary: summary.latency.get("p50"),
    "latency_p95": lambda summary: summary.latency.get("p95"),
    "errors": _errors,
}
_ALIASES = {"cost": "cost_usd", "latency": "latency_p50"}
_FORM = re.compile(
    r"(?P<measure>[a-z_0-9]+)\s*(?:\[(?P<variant>[^\]]+)\])?\s*(?P<sign><=|>=|<|>)\s*"
    r"(?P<number>[+-]?\d+(?:\.\d+)?)\s*(?P<percent>%)?",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Gate:
    """One requirement. The run fails if the condition holds."""

    text: str
    measure: str = ""  # empty for the verdict itself
    variant: str | None = None  # None for all variants but the baseline, or for the only one
    sign: str = "<"
    bound: float = 0.0
    relative: bool = False  # whether it is about the change against the baseline
    passes_inconclusive: bool = field(default=False, repr=False)  # with `--on-inconclusive pass`


def requirements(texts: Sequence[str], on_inconclusive: str | None = None) -> list[Gate]:
    """Parse requirements. `on_inconclusive` is "pass" or "fail"; without it, an inconclusive verdict fails those that
    name it.

    >>> [gate.text for gate in requirements(["worse"], "fail")]
    ['worse', 'inconclusive']
    """
    gates = list(dict.fromkeys(read(text) for text in texts))
    is_named = any(gate.text == "inconclusive" for gate in gates)
    if on_inconclusive == "pass" and is_named:
        raise BadInput("--on-inconclusive pass contradicts --fail-if inconclusive", "drop one of them")
    if on_inconclusive == "pass":
        return [replace(gate, passes_inconclusive=True) for gate in gates]
    return gates if on_inconclusive is None or is_named else [*gates, read("inconclusive")]


def read(text: str) -> Gate:
    """Parse a requirement.

    >>> read("latency_p95 > +10%")
    Gate(text='latency_p95 > +10%', measure='latency_p95', variant=None, sign='>', bound=0.1, relative=True)
    >>> read("errors > 2%").bound, read("score[short] < 0.8").variant
    (0.02, 'short')
    """
    text = text.strip()
    if text in WORDS:
        return Gate(text)
    match = _FORM.fullmatch(text)
    if match is None:
        raise BadInput(f'--fail-if "{text}": not understood', HELP)
    measure = _ALIASES.get(match["measure"].lower(), match["measure"].lower())
    if measure not in MEASURES and not measure.startswith("score_"):
        measures = [*MEASURES, *_ALIASES]
        raise BadInput(f'--fail-if "{text}": unknown measure {measure}{suggestion(measure, measures)}', HELP)
    relative = match["number"][0] in "+-"
    if relative and not match["percent"]:
        fix = f"write `{match['number']}%` for a change against the baseline, or drop the sign"
        raise BadInput(f'--fail-if "{text}": a change against the baseline needs a percent sign', fix)
    bound = float(match["number"]) / (100 if match["percent"] else 1)
    return Gate(text, measure, variant=match["variant"], sign=match["sign"], bound=bound, relative=relative)


def check(gate: Gate, variants: list[str]) -> None:
    """Raise `BadInput` if the requirement names an unknown variant."""
    if gate.variant is not None and gate.variant not in variants:
        message = f'--fail-if "{gate.text}": no variant {gate.variant}{suggestion(gate.variant, variants)}'
        raise BadInput(message, f"use one of {', '.join(variants)}")


def failures(gates: Sequence[Gate], analysis: Analysis) -> list[str]:
    """A sentence for each requirement that a run does not meet. Undecidable requirements are not met either."""
    sides = {summary.name: summary for summary in analysis.variants}
    return [line for gate in gates for line in _unmet(gate, analysis.comparisons, sides, analysis.run["baseline"])]


def unmet_across(gates: Sequence[Gate], items: Sequence[AcrossRuns], allow_unchanged: bool = False) -> list[str]:
    """A sentence for each requirement that later runs do not meet against the first one.

    `score[RUN:VARIANT]` is about that contender, `score[VARIANT]` about the later contender of that name; other
    requirements are about every contender of a later run. If any variant has new answers, or with `allow_unchanged`,
    requirements on verdicts are about variants with new answers only.
    """
    names_of = [_contenders(item) for item in items]
    only_new = allow_unchanged or any(item.is_compared for item in items)
    for gate in gates:
        check(gate, sorted({name for names in names_of for name in names}))
    sentences: list[str] = []
    for item, names in zip(items, names_of, strict=True):
        sides = {item.first.name: item.first.summary, item.second.name: item.second.summary}
        mine = [
            replace(gate, variant=names[gate.variant]) if gate.variant else gate
            for gate in gates
            if (gate.variant is None or gate.variant in names)
            and (gate.measure or not (only_new and item.is_unchanged))
        ]
        sentences += [line for gate in mine for line in _unmet(gate, [item.comparison], sides, item.first.name)]
    return list(dict.fromkeys(sentences))


def _contenders(item: AcrossRuns) -> dict[str, str]:
    """Full names by every unambiguous name of the two contenders. A variant alone means the later run's."""
    first, second = item.first, item.second
    ambiguous = (first.names & second.names) - {second.variant} if first.run != second.run else set()
    names = {name: side.name for side in (first, second) for name in side.names}
    return {name: full_name for name, full_name in names.items() if name not in ambiguous}


def _unmet(
    gate: Gate, comparisons: Sequence[Comparison], sides: Mapping[str, VariantSummary], baseline: str
) -> list[str]:
    if not gate.measure and not comparisons:
        return [_undecided(gate, f"nothing to compare {baseline} with")]
    if not gate.measure:
        return [sentence for item in comparisons if (sentence := _unmet_verdict(gate, item))]
    check(gate, list(sides))
    names = [gate.variant] if gate.variant else [name for name in sides if name != baseline] or [baseline]
    return [sentence for name in names if (sentence := _unmet_measure(gate, sides, name, baseline))]


def _unmet_measure(gate: Gate, sides: Mapping[str, VariantSummary], name: str, baseline: str) -> str:
    """Explain why a measure does not meet a requirement; empty if it does."""
    if gate.relative and name == baseline:
        return _undecided(gate, f"nothing to compare {name} with")
    values = {side: _value(gate, sides[side]) for side in ((baseline, name) if gate.relative else (name,))}
    unknown = [_unknown(gate, sides[side], side) for side, value in values.items() if value is None]
    value, before = values[name], values.get(baseline)
    if unknown or value is None:
        return _undecided(gate, "; ".join(unknown))
    if not gate.relative or before is None:
        formatted = f"{value:.1%}" if gate.measure == "errors" else f"{value:.4g}"
        return f"{gate.text}: {gate.measure} of {name} is {formatted}" if _holds(value, gate) else ""
    if before == 0 and value != 0:
        return _undecided(gate, f"{gate.measure} of {baseline} is 0, of {name} {value:.4g}")
    change = value / before - 1 if before else 0.0
    difference = f"{change:+.1%} against {baseline}"
    return f"{gate.text}: {gate.measure} of {name} is {value:.4g}, {difference}" if _holds(change, gate) else ""


def _undecided(gate: Gate, reason: str) -> str:
    return f'"{gate.text}" cannot be decided: {reason}'


def _unknown(gate: Gate, summary: VariantSummary, name: str) -> str:
    """Explain why a measure has no value. Reused answers have no latency or cost of their own."""
    reused = " (all its answers are reused)" if summary.reused and summary.reused == summary.trials else ""
    return f"{gate.measure} of {name} is unknown{reused}"


def _unmet_verdict(gate: Gate, item: Comparison) -> str:
    """Explain why a verdict does not meet a requirement; empty if it does."""
    word = item.verdict.word
    if word == "no comparison":
        return _undecided(gate, f"no comparison of {item.variant} with {item.baseline}: {item.verdict.reason}")
    if word == "inconclusive" and gate.passes_inconclusive:
        return ""
    if word != gate.text and (gate.text != "not better" or word == "better"):
        return ""
    where = f" on {item.these_cases}" if item.verdict.population == THESE_CASES else ""
    if gate.text == "worse":
        return f"{item.variant} is worse than {item.baseline}{where}"
    missing = f"; to detect {item.verdict.effect * 100:.4g} points it needs {item.missing}" if item.missing else ""
    return f"{gate.text}: {item.variant} against {item.baseline} is {word}{where}{missing}"


def _value(gate: Gate, summary: VariantSummary) -> float | None:
    """The measured value; `score_NAME` is the mean of that score."""
    if gate.measure in MEASURES:
        return MEASURES[gate.measure](summary)
    score = summary.scores.get(gate.measure.removeprefix("score_"))
    return score.estimate if score else None


_OPERATORS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


def _holds(value: float, gate: Gate) -> bool:
    return bool(_OPERATORS[gate.sign](value, gate.bound))
