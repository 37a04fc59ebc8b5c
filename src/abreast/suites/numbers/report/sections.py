"""What the report of a run says about numbers, besides the verdict: words, tables, pictures, and the same as JSON.

The names in `data` are a contract; what is not known is null. A share is `{mean, interval, trials}`, a ratio or a
change `{estimate, interval}`, an interval `[low, high]` at 95 %.

- `figures`: `baseline`, `tokens_counted` ("by the target" or "from characters"), `variants`: for each `name`,
  `accuracy`, `median_error` (relative; 1 is 100 % or more), `errors` (answers by class of relative error),
  `hallucinated`, `tokens_in`, `tokens_out` (means of a call), `tokens_in_by_task`, `compression` (baseline
  input tokens per input token of the variant), `right_per_1000_tokens`, `context_utilisation` (right answers per token
  against the baseline's, on the same cases), `cost_usd` (mean of a call), `latency_s` (median), `skipped`
- `answerability`: `variants`: for each `name`, `answerable`, `not_answerable` and `unknown` (cases, by its prompts
  alone), `share` (of those three), `accuracy` (on all cases), `both` (cases that the baseline can answer too),
  `accuracy_both`, `baseline_both` (on those), `difference_both`; `cases`: `case`, `answerable_by` (true, false or null
  by variant)
- `breakdown`: `by_task`, `by_size`, `by_difficulty`: a share by value and variant; `confusions`: `query`, `variant`,
  `classes` (rows: what is right), `answers` (columns), `counts`
- `robustness`: `perturbations`: `perturbation` ("none" is unperturbed), `variant`, `accuracy`, `change`
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from abreast.analyse.run import Analysis
from abreast.report.formats.json_report import ends, number
from abreast.report.sections import NamedTable, Section
from abreast.report.words.variant_figures import NOTHING, dollars, seconds
from abreast.report.words.verdict_sentence import ALL_FAILED, points
from abreast.stats import Interval
from abreast.suites.numbers.report.charts import bars
from abreast.suites.numbers.report.charts.matrices import called, confusion_pictures, robustness_pictures
from abreast.suites.numbers.report.figures import (
    ERRORS,
    Answerable,
    Degradation,
    Figures,
    Share,
    VariantFigures,
    figures,
    percent,
    plain,
    with_count,
    with_ends,
)
from abreast.text import many

_TITLES = (
    *("variant", "accuracy", "median error", "hallucinated", "tokens in", "compression"),
    *("right per 1,000 tokens", "cost", "latency"),
)
_NAMES = (  # of figures that `data` has under the same name
    *("name", "accuracy", "median_error", "errors", "hallucinated", "tokens_in", "tokens_out", "tokens_in_by_task"),
    *("compression", "right_per_1000_tokens", "context_utilisation", "cost_usd", "latency_s", "skipped"),
)


def sections(analysis: Analysis) -> list[Section]:
    """The figures; what the prompts can answer; where answers are right; what perturbations do, if there are any."""
    found = figures(analysis)
    further = [_answerability(found), _breakdown(found), *([_robustness(found)] if found.robustness else [])]
    return [_figures(found, analysis), *(part for part in further if part.tables or part.pictures)]


# -- the figures of each variant --------------------------------------------------------------------------------------


def _figures(found: Figures, analysis: Analysis) -> Section:
    guessed = "simulated" in analysis.rows.targets
    basis = "estimated from characters" if guessed else "counted by the target"
    failed = {summary.name for summary in analysis.variants if summary.all_failed}
    sentences = [
        *(_compressed(each, found.baseline, basis) for each in found.variants if each.compression),
        _hallucinated(found.variants),
        _skipped(found.variants),
    ]
    return Section(
        "figures",
        "Figures",
        sentences=tuple(filter(None, sentences)),
        tables=(_table(found.variants, failed),),
        pictures=(
            *bars.tokens_by_task(found, basis),
            *bars.tokens_and_accuracy(found),
            *bars.error_distribution(found),
        ),
        data={
            "baseline": found.baseline,
            "tokens_counted": "from characters" if guessed else "by the target",
            "variants": [_of_variant(each) for each in found.variants],
        },
    )


def _compressed(variant: VariantFigures, baseline: str, basis: str) -> str:
    """`treatment: 14.2 × fewer tokens in than baseline (95 % interval 11.0 … 17.4), counted by the target`."""
    ratio = variant.compression
    assert ratio is not None
    if f"{ratio.estimate:.1f}" == "1.0":
        return f"{variant.name}: about as many tokens in as {baseline}{_between(ratio, 2)}, {basis}"
    if ratio.estimate >= 1:
        return f"{variant.name}: {ratio.estimate:.1f} × fewer tokens in than {baseline}{_between(ratio)}, {basis}"
    more = Interval(1 / ratio.estimate, 1 / ratio.high, 1 / ratio.low) if ratio.low else None
    told = f"{variant.name}: {1 / ratio.estimate:.1f} × as many tokens in as {baseline}"
    return f"{told}{_between(more) if more else ''}, {basis}"


def _between(ratio: Interval, digits: int = 1) -> str:
    return f" (95 % interval {ratio.low:.{digits}f} … {ratio.high:.{digits}f})"


def _hallucinated(variants: Iterable[VariantFigures]) -> str:
    """`hallucinated numbers: baseline 12 of 60 (20 %), treatment 3 of 61 (5 %)`; empty if no number was answered."""
    told = [
        f"{each.name} {each.hallucinated.total:,.0f} of {each.hallucinated.trials:,} "
        f"({each.hallucinated.total / each.hallucinated.trials * 100:.0f} %)"
        for each in variants
        if each.hallucinated.trials
    ]
    return f"hallucinated numbers: {', '.join(told)}" if told else ""


def _skipped(variants: Iterable[VariantFigures]) -> str:
    told = [f"{each.name} {many(each.skipped, 'trial')}" for each in variants if each.skipped]
    return f"skipped, and not counted as wrong: {', '.join(told)}" if told else ""


def _table(variants: Sequence[VariantFigures], failed: set[str]) -> NamedTable:
    return NamedTable(
        "variants",
        "Variants",
        _TITLES,
        tuple(_row(each, each.name in failed) for each in variants),
        "accuracy: share of right answers (95 % interval); median error: relative error of numeric answers; "
        "hallucinated: numbers neither near the truth nor taken from the data (out of this many numbers); tokens in "
        "and cost: mean per call; latency: median; compression: baseline input tokens per input token of the variant, "
        "on the same cases; right per 1,000 tokens: in brackets the ratio to the baseline, on the same cases",
    )


def _row(variant: VariantFigures, failed: bool) -> tuple[str, ...]:
    ratio, error, times = variant.compression, variant.median_error, variant.context_utilisation
    return (
        variant.name,
        ALL_FAILED if failed else with_ends(variant.accuracy.of),
        NOTHING if error is None else percent(error) if error < 1 else "≥ 100 %",
        with_count(variant.hallucinated),
        plain(variant.tokens_in),
        NOTHING if ratio is None else f"{ratio.estimate:.1f} × ({ratio.low:.1f} … {ratio.high:.1f})",
        f"{plain(variant.right_per_1000_tokens, 2)}{'' if times is None else f' ({times:.1f} ×)'}",
        dollars(variant.cost_usd),
        seconds(variant.latency_s),
    )


def _of_variant(variant: VariantFigures) -> dict[str, Any]:
    errors = {label: count for (_, label), count in zip(ERRORS, variant.errors, strict=True)}
    return {**{name: _json(getattr(variant, name)) for name in _NAMES}, "errors": errors}


# -- what the prompts can answer --------------------------------------------------------------------------------------


def _answerability(found: Figures) -> Section:
    return Section(
        "answerability",
        "What each variant can know",
        sentences=tuple(
            filter(None, (_knowable(found.answerable), *(_on_both(each, found) for each in found.answerable)))
        ),
        tables=(_answerable_table(found),) if any(each.yes or each.no for each in found.answerable) else (),
        data={
            "variants": [_of_answerable(each, _accuracy_of(each, found)) for each in found.answerable],
            "cases": [{"case": case, "answerable_by": dict(by)} for case, by in found.answerable_by.items()],
        },
    )


def _knowable(variants: Iterable[Answerable]) -> str:
    """`answerable by the prompt: baseline 180 of 180 cases (100 %), treatment 81 of 180 (45 %)`."""
    parts = []
    for each in variants:
        if total := each.yes + each.no + each.unknown:
            unknown = f", unknown {each.unknown:,}" if each.unknown else ""
            parts.append(
                f"{each.variant} {each.yes:,} of {many(total, 'case')} ({each.yes / total * 100:.0f} %{unknown})"
            )
    return f"answerable by the prompt: {', '.join(parts)}" if parts else ""


def _on_both(each: Answerable, found: Figures) -> str:
    """`on the 81 cases that both can answer: treatment 95.1 %, baseline 70.4 %: +24.7 points (...)`."""
    own, base = each.accuracy.of, each.of_baseline.of
    if each.variant == found.baseline or own is None or base is None:
        return ""
    difference = f": {points(each.difference.estimate)} points{_ends(each.difference)}" if each.difference else ""
    return (
        f"on the {many(each.both, 'case')} that both can answer: {each.variant} {percent(own.estimate)}, "
        f"{found.baseline} {percent(base.estimate)}{difference}"
    )


def _answerable_table(found: Figures) -> NamedTable:
    return NamedTable(
        "answerable",
        "Answerable cases",
        ("variant", "answerable", "unknown", "accuracy", "on both", f"{found.baseline} there", "difference"),
        tuple(
            _answerable_row(each, _accuracy_of(each, found), each.variant == found.baseline)
            for each in found.answerable
        ),
        "answerable: cases whose right answer follows from the text in the prompt, by a checker that reads only that; "
        "unknown: the text has parts that the checker cannot read; on both: accuracy on the cases that this variant "
        "and the baseline can answer (trials)",
    )


def _answerable_row(each: Answerable, accuracy: Share, is_baseline: bool) -> tuple[str, ...]:
    total = each.yes + each.no + each.unknown
    return (
        each.variant,
        f"{each.yes / total * 100:.0f} % ({each.yes:,} of {total:,})" if total else NOTHING,
        f"{each.unknown:,}" if total else NOTHING,
        with_count(accuracy),
        NOTHING if is_baseline else with_count(each.accuracy),
        NOTHING if is_baseline else with_count(each.of_baseline),
        NOTHING if each.difference is None else f"{points(each.difference.estimate)}{_ends(each.difference)}",
    )


def _accuracy_of(each: Answerable, found: Figures) -> Share:
    return next(figures.accuracy for figures in found.variants if figures.name == each.variant)


def _of_answerable(each: Answerable, accuracy: Share) -> dict[str, Any]:
    total = each.yes + each.no + each.unknown
    return {
        "name": each.variant,
        "answerable": each.yes,
        "not_answerable": each.no,
        "unknown": each.unknown,
        "share": number(each.yes / total) if total else None,
        "accuracy": _json(accuracy),
        "both": each.both,
        "accuracy_both": _json(each.accuracy),
        "baseline_both": _json(each.of_baseline),
        "difference_both": _json(each.difference),
    }


# -- what they are made of --------------------------------------------------------------------------------------------


def _breakdown(found: Figures) -> Section:
    variants = found.variants
    by: dict[str, dict[str, list[Share]]] = {
        "task": {task: [each.by_task[task] for each in variants] for task in found.tasks},
        "size": {f"{size:,}": [each.by_size[size] for each in variants] for size in found.sizes},
        "difficulty": {level: [each.by_difficulty[level] for each in variants] for level in found.difficulties},
    }
    names = tuple(each.name for each in variants)
    judged = [what for what, shares in by.items() if any(each.trials for row in shares.values() for each in row)]
    tables = [_by(what, names, by[what]) for what in judged]
    return Section(
        "breakdown",
        "Where answers are right",
        tables=tuple(tables),
        pictures=(*bars.accuracy_by_task(found), *bars.accuracy_by_size(found), *confusion_pictures(found)),
        data={
            **{
                f"by_{what}": {
                    value.replace(",", ""): _json(dict(zip(names, each, strict=True))) for value, each in shares.items()
                }
                for what, shares in by.items()
            },
            "confusions": [
                {**each._asdict(), "counts": [list(row) for row in each.counts]} for each in found.confusions
            ],
        },
    )


def _by(what: str, names: tuple[str, ...], shares: Mapping[str, Sequence[Share]]) -> NamedTable:
    """Accuracy by a tag: a row for each value, a column for each variant."""
    return NamedTable(
        f"accuracy-by-{what}",
        f"Accuracy by {what}",
        ("points" if what == "size" else what, *names),
        tuple((value, *map(with_count, each)) for value, each in shares.items()),
        "share of right answers (trials)",
    )


# -- what perturbations do --------------------------------------------------------------------------------------------


def _robustness(found: Figures) -> Section:
    names = tuple(each.name for each in found.variants)
    by = {(each.perturbation, each.variant): each for each in found.robustness}
    kinds = dict.fromkeys(each.perturbation for each in found.robustness)
    return Section(
        "robustness",
        "Robustness",
        sentences=tuple(_worst(name, found.robustness) for name in names),
        tables=(
            NamedTable(
                "perturbations",
                "Accuracy by perturbation",
                ("perturbation", *names),
                tuple((called(kind), *(_changed(by[kind, name]) for name in names)) for kind in kinds),
                "accuracy (trials), and the change in points (95 % interval) from the same cases unperturbed",
            ),
        ),
        pictures=tuple(robustness_pictures(found)),
        data={"perturbations": [_json(each._asdict()) for each in found.robustness]},
    )


def _changed(one: Degradation) -> str:
    """`80.0 % (30), −10.0 (−22.1 … +2.1)`."""
    change = "" if one.change is None else f", {points(one.change.estimate)}{_ends(one.change)}"
    return with_count(one.accuracy) + change


def _ends(change: Interval) -> str:
    return f" ({points(change.low)} … {points(change.high)})"


def _worst(name: str, all_of_them: Iterable[Degradation]) -> str:
    known = [(each, each.change) for each in all_of_them if each.variant == name and each.change is not None]
    if not known:
        return f"{name}: no case was answered both perturbed and not"
    one, change = min(known, key=lambda pair: pair[1].estimate)
    if change.estimate >= 0:
        return f"{name}: no perturbation makes it worse"
    told = f"{points(change.estimate)} points (95 % interval {points(change.low)} … {points(change.high)})"
    return f"{name}: degrades most under {one.perturbation}: {told}"


# -- as JSON ----------------------------------------------------------------------------------------------------------


def _json(value: Any) -> Any:
    if isinstance(value, Share):
        mean = None if value.of is None else number(value.of.estimate)
        return {"mean": mean, "interval": ends(value.of), "trials": value.trials}
    if isinstance(value, Interval):
        return {"estimate": number(value.estimate), "interval": ends(value)}
    if isinstance(value, dict):
        return {key: _json(item) for key, item in value.items()}
    return number(value) if isinstance(value, float) else value
