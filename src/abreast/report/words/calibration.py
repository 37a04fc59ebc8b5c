"""The calibration of a judge by human labels, as text and for JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from abreast.analyse.human_labels.calibration import Calibration
    from abreast.analyse.run import Comparison
    from abreast.stats import Agreement

UNCALIBRATED = "uncalibrated judge"
SUGGESTED_LABELS = 60


def correction(comparison: Comparison) -> str:
    """`, corrected by 60 human labels (λ = 0.71)`, next to the interval; empty if the verdict is not corrected."""
    estimate = comparison.calibration.estimate if comparison.calibration else None
    if estimate is None:
        return ""
    return f", corrected by {estimate.labels:,} human labels (λ = {estimate.tuning:.2f})"


def calibration_lines(comparison: Comparison) -> list[str]:
    """Say how well the judge behind a verdict agrees with people, and what to do; empty for other scorers."""
    calibration = comparison.calibration
    if calibration is None:
        return []
    command = f"abreast label {calibration.run}"
    if calibration.estimate is None:
        label = f"label answers: {command if calibration.sample else f'{command} --sample {SUGGESTED_LABELS}'}"
        parts = [calibration.reason or "no human labels", *([] if calibration.is_final else [label])]
        return [f"{UNCALIBRATED}: {'; '.join(parts)}", *_agreement_lines(comparison, calibration)]
    return [
        _scores_line(comparison, calibration),
        *_agreement_lines(comparison, calibration),
        *_sample_lines(calibration, command),
        *_needed_lines(comparison, calibration, command),
    ]


def _scores_line(comparison: Comparison, calibration: Calibration) -> str:
    assert calibration.scores is not None
    baseline, variant = calibration.scores
    scores = f"{comparison.baseline} {baseline:.1%}, {comparison.variant} {variant:.1%}"
    return f"corrected scores (estimates): {scores}; tables show the judge's scores"


def _agreement_lines(comparison: Comparison, calibration: Calibration) -> list[str]:
    if calibration.agreement is None or calibration.by_side is None:
        return []
    names = (comparison.baseline, comparison.variant)
    sides = ", ".join(f"{name} {_agreement(side)}" for name, side in zip(names, calibration.by_side, strict=True))
    answers = calibration.agreement.answers
    return [f"judge and humans agree on {_agreement(calibration.agreement)} of {answers:,} answers: {sides}"]


def _agreement(item: Agreement) -> str:
    return f"{item.rate:.0%}" + (f" (κ {item.kappa:.2f})".replace("-", "−") if item.kappa is not None else "")


def _sample_lines(calibration: Calibration, command: str) -> list[str]:
    """Caveats of the correction."""
    lines = []
    if calibration.pending:
        lines.append(
            f"{calibration.pending:,} of {calibration.sample:,} sampled cases are not labelled yet, so the interval is "
            f"wider than it will be; continue: {command}"
        )
    if calibration.skipped:
        lines.append(
            f"{calibration.skipped:,} of {calibration.sample:,} sampled cases were skipped and are assumed to be like "
            "the others"
        )
    if calibration.enlarged:
        lines.append("the sample was enlarged: labels added after a look raise the error rate above 5 %")
    return lines


def _needed_lines(comparison: Comparison, calibration: Calibration, command: str) -> list[str]:
    if comparison.verdict.word != "inconclusive" or calibration.pending:
        return []
    if calibration.needed is None:
        return ["labels on these cases cannot decide it; more cases can"]
    enlarge = f"{command} --sample {calibration.needed}"
    return [f"about {calibration.needed:,} labels would decide a difference this large: {enlarge}"]


def calibration_object(calibration: Calibration | None) -> dict[str, Any] | None:
    if calibration is None:
        return None
    estimate, by_side = calibration.estimate, calibration.by_side
    return {
        "corrected": estimate is not None,
        "reason": calibration.reason or None,
        "labels": calibration.labels,
        "skipped": calibration.skipped,
        "sample": calibration.sample,
        "sample_enlarged": calibration.enlarged,
        "lambda": estimate.tuning if estimate else None,
        "method": estimate.method if estimate else None,
        "baseline_score": calibration.scores[0] if calibration.scores else None,
        "variant_score": calibration.scores[1] if calibration.scores else None,
        "agreement": _agreement_object(calibration.agreement),
        "baseline_agreement": _agreement_object(by_side[0] if by_side else None),
        "variant_agreement": _agreement_object(by_side[1] if by_side else None),
        "labels_needed": calibration.needed,
    }


def _agreement_object(item: Agreement | None) -> dict[str, Any] | None:
    return None if item is None else {"rate": item.rate, "kappa": item.kappa, "answers": item.answers}
