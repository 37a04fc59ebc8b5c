"""The suite's sections of a report.

The names in `data` are a contract; unknown values are null. A share is `{mean, interval, trials}`, a ratio or a
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
from dataclasses import fields
from typing import Any

from abreast.analyse.run import Analysis
from abreast.report.formats.json_report import ends, finite_or_none
from abreast.report.sections import NamedTable, Section
from abreast.report.words.variant_figures import NOTHING, dollars, seconds
from abreast.report.words.verdict_sentence import ALL_FAILED, points
from abreast.stats import Interval
from abreast.suites.numbers.report.charts import bars
from abreast.suites.numbers.report.charts.matrices import confusion_pictures, perturbation_name, robustness_picture
from abreast.suites.numbers.report.figures import (
    ERRORS,
    Answerable,
    Degradation,
    Figures,
    Share,
    VariantFigures,
    figures_of,
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


def sections(analysis: Analysis) -> list[Section]:
    """Figures, answerability, breakdown by task, size and difficulty, and robustness if cases were perturbed."""
    figures = figures_of(analysis)
    others = [_answerability(figures), _breakdown(figures)]
    if figures.robustness:
        others.append(_robustness(figures))
    return [_figures(figures, analysis), *(section for section in others if section.tables or section.pictures)]


def _figures(figures: Figures, analysis: Analysis) -> Section:
    is_estimated = "simulated" in analysis.rows.targets
    basis = "estimated from characters" if is_estimated else "counted by the target"
    failed = {summary.name for summary in analysis.variants if summary.all_failed}
    sentences = [
        *(
            _describe_compression(variant, figures.baseline, basis)
            for variant in figures.variants
            if variant.compression
        ),
        _describe_hallucinations(figures.variants),
        _describe_skipped(figures.variants),
    ]
    drawn = [bars.tokens_by_task(figures, basis), bars.tokens_and_accuracy(figures), bars.error_distribution(figures)]
    return Section(
        "figures",
        "Figures",
        sentences=tuple(filter(None, sentences)),
        tables=(_table(figures.variants, failed),),
        pictures=tuple(filter(None, drawn)),
        data={
            "baseline": figures.baseline,
            "tokens_counted": "from characters" if is_estimated else "by the target",
            "variants": [_variant_data(variant) for variant in figures.variants],
        },
    )


def _describe_compression(variant: VariantFigures, baseline: str, basis: str) -> str:
    """Describe compression: `treatment: 14.2 × fewer input tokens than baseline (95 % interval 11.0 … 17.4), ...`."""
    ratio = variant.compression
    assert ratio is not None
    if f"{ratio.estimate:.1f}" == "1.0":
        return f"{variant.name}: about as many input tokens as {baseline}{_between(ratio, 2)}, {basis}"
    if ratio.estimate >= 1:
        return f"{variant.name}: {ratio.estimate:.1f} × fewer input tokens than {baseline}{_between(ratio)}, {basis}"
    more = Interval(1 / ratio.estimate, 1 / ratio.high, 1 / ratio.low) if ratio.low else None
    interval = _between(more) if more else ""
    return f"{variant.name}: {1 / ratio.estimate:.1f} × as many input tokens as {baseline}{interval}, {basis}"


def _between(ratio: Interval, digits: int = 1) -> str:
    return f" (95 % interval {ratio.low:.{digits}f} … {ratio.high:.{digits}f})"


def _describe_hallucinations(variants: Iterable[VariantFigures]) -> str:
    """Return `hallucinated numbers: baseline 12 of 60 (20 %), treatment 3 of 61 (5 %)`; empty without numbers."""
    counts = [
        f"{variant.name} {variant.hallucinated.total:,.0f} of {variant.hallucinated.trials:,} "
        f"({variant.hallucinated.total / variant.hallucinated.trials * 100:.0f} %)"
        for variant in variants
        if variant.hallucinated.trials
    ]
    return f"hallucinated numbers: {', '.join(counts)}" if counts else ""


def _describe_skipped(variants: Iterable[VariantFigures]) -> str:
    counts = [f"{variant.name} {many(variant.skipped, 'trial')}" for variant in variants if variant.skipped]
    return f"skipped, and not counted as wrong: {', '.join(counts)}" if counts else ""


def _table(variants: Sequence[VariantFigures], failed: set[str]) -> NamedTable:
    return NamedTable(
        "variants",
        "Variants",
        _TITLES,
        tuple(_row(variant, variant.name in failed) for variant in variants),
        "accuracy: share of right answers (95 % interval); median error: relative error of numeric answers; "
        "hallucinated: numbers neither near the truth nor taken from the data (out of this many numbers); tokens in "
        "and cost: mean per call; latency: median; compression: baseline input tokens per input token of the variant, "
        "on the same cases; right per 1,000 tokens: in brackets the ratio to the baseline, on the same cases",
    )


def _row(variant: VariantFigures, failed: bool) -> tuple[str, ...]:
    ratio, error, times = variant.compression, variant.median_error, variant.context_utilisation
    return (
        variant.name,
        ALL_FAILED if failed else with_ends(variant.accuracy.mean),
        NOTHING if error is None else percent(error) if error < 1 else "≥ 100 %",
        with_count(variant.hallucinated),
        plain(variant.tokens_in),
        NOTHING if ratio is None else f"{ratio.estimate:.1f} × ({ratio.low:.1f} … {ratio.high:.1f})",
        f"{plain(variant.right_per_1000_tokens, 2)}{'' if times is None else f' ({times:.1f} ×)'}",
        dollars(variant.cost_usd),
        seconds(variant.latency_s),
    )


def _variant_data(variant: VariantFigures) -> dict[str, Any]:
    data = {field.name: _json(getattr(variant, field.name)) for field in fields(variant)}
    errors = {label: count for (_, label), count in zip(ERRORS, variant.errors, strict=True)}
    return {**{name: value for name, value in data.items() if not name.startswith("by_")}, "errors": errors}


def _answerability(figures: Figures) -> Section:
    rows = figures.answerable
    return Section(
        "answerability",
        "What each variant can know",
        sentences=tuple(
            filter(None, [_describe_answerable(rows), *(_describe_common_cases(row, figures.baseline) for row in rows)])
        ),
        tables=(_answerable_table(figures),) if any(row.answerable or row.not_answerable for row in rows) else (),
        data={
            "variants": [_json(row._asdict()) for row in rows],
            "cases": [{"case": case, "answerable_by": dict(by)} for case, by in figures.answerable_by.items()],
        },
    )


def _describe_answerable(rows: Iterable[Answerable]) -> str:
    """Return `answerable by the prompt: baseline 180 of 180 cases (100 %), treatment 81 of 180 (45 %)`."""
    parts = []
    for row in rows:
        if row.share is not None:
            unknown = f", unknown {row.unknown:,}" if row.unknown else ""
            cases = f"{row.answerable:,} of {many(row.cases, 'case')}"
            parts.append(f"{row.name} {cases} ({row.share * 100:.0f} %{unknown})")
    return f"answerable by the prompt: {', '.join(parts)}" if parts else ""


def _describe_common_cases(row: Answerable, baseline: str) -> str:
    """Return `on the 81 cases that both can answer: treatment 95.1 %, baseline 70.4 %: +24.7 points (...)`."""
    own, base, change = row.accuracy_both.mean, row.baseline_both.mean, row.difference_both
    if row.name == baseline or own is None or base is None:
        return ""
    difference = f": {points(change.estimate)} points{_ends(change)}" if change else ""
    shares = f"{row.name} {percent(own.estimate)}, {baseline} {percent(base.estimate)}"
    return f"on the {many(row.both, 'case')} that both can answer: {shares}{difference}"


def _answerable_table(figures: Figures) -> NamedTable:
    return NamedTable(
        "answerable",
        "Answerable cases",
        ("variant", "answerable", "unknown", "accuracy", "on both", f"{figures.baseline} there", "difference"),
        tuple(_answerable_row(row, row.name == figures.baseline) for row in figures.answerable),
        "answerable: cases whose right answer follows from the text in the prompt, by a checker that reads only that; "
        "unknown: the text has parts that the checker cannot read; on both: accuracy on the cases that this variant "
        "and the baseline can answer (trials)",
    )


def _answerable_row(row: Answerable, is_baseline: bool) -> tuple[str, ...]:
    change = row.difference_both
    return (
        row.name,
        NOTHING if row.share is None else f"{row.share * 100:.0f} % ({row.answerable:,} of {row.cases:,})",
        NOTHING if row.share is None else f"{row.unknown:,}",
        with_count(row.accuracy),
        NOTHING if is_baseline else with_count(row.accuracy_both),
        NOTHING if is_baseline else with_count(row.baseline_both),
        NOTHING if change is None else f"{points(change.estimate)}{_ends(change)}",
    )


def _breakdown(figures: Figures) -> Section:
    variants = figures.variants
    by: dict[str, dict[str, list[Share]]] = {
        "task": {task: [variant.by_task[task] for variant in variants] for task in figures.tasks},
        "size": {f"{size:,}": [variant.by_size[size] for variant in variants] for size in figures.sizes},
        "difficulty": {level: [variant.by_difficulty[level] for variant in variants] for level in figures.difficulties},
    }
    names = tuple(variant.name for variant in variants)
    tables = [
        _accuracy_by(tag, names, shares)
        for tag, shares in by.items()
        if any(share.trials for row in shares.values() for share in row)
    ]
    return Section(
        "breakdown",
        "Where answers are right",
        tables=tuple(tables),
        pictures=(
            *filter(None, [bars.accuracy_by_task(figures), bars.accuracy_by_size(figures)]),
            *confusion_pictures(figures),
        ),
        data={
            **{f"by_{tag}": _shares_data(names, shares) for tag, shares in by.items()},
            "confusions": [{**item._asdict(), "counts": list(map(list, item.counts))} for item in figures.confusions],
        },
    )


def _shares_data(names: tuple[str, ...], shares: Mapping[str, Sequence[Share]]) -> dict[str, Any]:
    return {value.replace(",", ""): _json(dict(zip(names, row, strict=True))) for value, row in shares.items()}


def _accuracy_by(tag: str, names: tuple[str, ...], shares: Mapping[str, Sequence[Share]]) -> NamedTable:
    return NamedTable(
        f"accuracy-by-{tag}",
        f"Accuracy by {tag}",
        ("points" if tag == "size" else tag, *names),
        tuple((value, *map(with_count, row)) for value, row in shares.items()),
        "share of right answers (trials)",
    )


def _robustness(figures: Figures) -> Section:
    names = tuple(variant.name for variant in figures.variants)
    by = {(item.perturbation, item.variant): item for item in figures.robustness}
    kinds = dict.fromkeys(item.perturbation for item in figures.robustness)
    return Section(
        "robustness",
        "Robustness",
        sentences=tuple(_worst(name, figures.robustness) for name in names),
        tables=(
            NamedTable(
                "perturbations",
                "Accuracy by perturbation",
                ("perturbation", *names),
                tuple((perturbation_name(kind), *(_change_cell(by[kind, name]) for name in names)) for kind in kinds),
                "accuracy (trials), and the change in points (95 % interval) from the same cases unperturbed",
            ),
        ),
        pictures=tuple(filter(None, [robustness_picture(figures)])),
        data={"perturbations": [_json(item._asdict()) for item in figures.robustness]},
    )


def _change_cell(degradation: Degradation) -> str:
    """Format accuracy and its change as `80.0 % (30), −10.0 (−22.1 … +2.1)`."""
    change = degradation.change
    return with_count(degradation.accuracy) + ("" if change is None else f", {points(change.estimate)}{_ends(change)}")


def _ends(change: Interval) -> str:
    return f" ({points(change.low)} … {points(change.high)})"


def _worst(name: str, degradations: Iterable[Degradation]) -> str:
    changes = {item.perturbation: item.change for item in degradations if item.variant == name and item.change}
    if not changes:
        return f"{name}: no case was answered both perturbed and not"
    perturbation, change = min(changes.items(), key=lambda item: item[1].estimate)
    if change.estimate >= 0:
        return f"{name}: no perturbation makes it worse"
    interval = f"95 % interval {points(change.low)} … {points(change.high)}"
    return f"{name}: degrades most under {perturbation}: {points(change.estimate)} points ({interval})"


def _json(value: Any) -> Any:
    if isinstance(value, Share):
        mean = None if value.mean is None else finite_or_none(value.mean.estimate)
        return {"mean": mean, "interval": ends(value.mean), "trials": value.trials}
    if isinstance(value, Interval):
        return {"estimate": finite_or_none(value.estimate), "interval": ends(value)}
    if isinstance(value, dict):
        return {key: _json(item) for key, item in value.items()}
    return finite_or_none(value) if isinstance(value, float) else value
