"""Describe the estimate of a run, and check that the budget covers it."""

from __future__ import annotations

from collections.abc import Sequence

from abreast.preflight.context import Context
from abreast.preflight.estimate import JudgeEstimate, RunEstimate, VariantEstimate
from abreast.preflight.finding import Finding, listed
from abreast.text import dollars, many

DAY_S = 86_400.0


def check_cost(context: Context) -> Finding:
    estimate, budget = context.estimate, context.limits.budget_usd
    message = sentence(estimate)
    cost, spent = estimate.cost_usd, context.spent_usd
    cost = cost + estimate.judges_usd if cost is not None else estimate.judges_usd or None
    if budget is not None and cost is not None and spent + cost > budget:
        before = f", {dollars(spent)} already spent" if spent else ""
        fits = int(estimate.trials * max(0.0, budget - spent) / cost)
        message += f"; the budget is {dollars(budget)}{before}: about {fits:,} of {estimate.trials:,} trials fit"
        return Finding("estimate", "warn", message, "raise it with --budget USD, or resume later")
    if estimate.seconds is not None and estimate.seconds > DAY_S:
        return Finding("estimate", "note", f"{message}; that is more than a day", "run more at once with --parallel N")
    return Finding("estimate", "note" if _unknown(estimate) else "pass", message)


def question(context: Context) -> str | None:
    """The question to confirm the cost; None if it is low."""
    limits, cost = context.limits, context.estimate.real_cost_usd
    remaining = cost if limits.budget_usd is None else max(0.0, limits.budget_usd - context.spent_usd)
    if min(cost, remaining) <= limits.ask_above_usd:
        return None
    capped = f", limited to {dollars(remaining)} by its budget" if remaining < cost else ""
    return f"this will cost about {dollars(cost)}{capped} ({many(context.estimate.trials, 'trial')})"


def sentence(estimate: RunEstimate) -> str:
    """`24 trials to execute · about 9,600 tokens in, 400 out · $0.03 · 20 s, 4 at a time (from 40 earlier trials)`."""
    judges = "".join(f" · {_of_judge(judge)}" for judge in estimate.judges)
    if not estimate.trials:
        return f"nothing to execute{judges}"
    at_once = "one" if estimate.in_flight == 1 else f"{estimate.in_flight:,}"
    parts = [
        *_tokens(estimate),
        *([] if estimate.cost_usd is None else [dollars(estimate.cost_usd)]),
        *([] if estimate.seconds is None else [f"{duration(estimate.seconds)}, {at_once} at a time"]),
    ]
    basis = f" ({_basis(estimate.variants)})" if parts else ""
    return " · ".join([f"{many(estimate.trials, 'trial')} to execute", *parts]) + basis + _unknown(estimate) + judges


def _of_judge(judge: JudgeEstimate) -> str:
    calls = f"{many(judge.calls, 'call')} of {judge.scorer}"
    return f"{calls}, cost unknown" if judge.cost_usd is None else f"{calls}, {dollars(judge.cost_usd)}"


def _tokens(estimate: RunEstimate) -> list[str]:
    sent, received = estimate.input_tokens, estimate.output_tokens
    if sent is None:
        return []
    unit = "token" if count(sent) == "1" else "tokens"
    return [f"about {count(sent)} {unit} in" + ("" if received is None else f", {count(received)} out")]


def _basis(variants: Sequence[VariantEstimate]) -> str:
    groups: dict[tuple[str, tuple[str, ...]], list[VariantEstimate]] = {}
    for variant in variants:
        groups.setdefault((variant.basis, variant.expected), []).append(variant)
    parts = []
    for (basis, expected), members in groups.items():
        of_each = [variant.seen for variant in members]
        seen = sum(of_each) if basis == "variant" else max(of_each)
        source = {
            "variant": f"from {many(seen, 'earlier trial')}",
            "target": f"from {many(seen, 'earlier trial')} of the same target",
            "declared": "as declared by the target",
            "prompts": "from the size of the prompts",
            "inputs": "from the size of the inputs before their transform",
        }[basis] + _as_expected(expected)
        parts.append(source if len(groups) == 1 else f"{_names(members)} {source}")
    return "; ".join(parts)


def _as_expected(names: Sequence[str]) -> str:
    """`, seconds and tokens out as the spec expects`."""
    words = {"seconds": "seconds", "output_tokens": "tokens out"}
    return f", {' and '.join(words[name] for name in names)} as the spec expects" if names else ""


def _unknown(estimate: RunEstimate) -> str:
    real = [variant for variant in estimate.variants if not variant.simulated]
    unknown = [variant for variant in real if variant.cost_usd is None or variant.seconds is None]
    if not unknown:
        return ""
    values = {"cost": [variant.cost_usd for variant in unknown], "time": [variant.seconds for variant in unknown]}
    missing = [word for word in values if None in values[word]]
    new = [variant for variant in unknown if not variant.seen]
    why = f"the earlier trials of {_names(unknown)} did not report it"
    if new:
        why = f"no earlier trials of {_names(new)}"
    return f" · {' and '.join(missing)} unknown: {why}"


def _names(variants: Sequence[VariantEstimate]) -> str:
    return listed([estimate.variant for estimate in variants])


def count(number: float) -> str:
    """Format a number with two significant digits.

    >>> count(9_617), count(12), count(0.4), count(1_234_567)
    ('9,600', '12', '1', '1.2 M')
    """
    rounded = max(1, round(number)) if number > 0 else 0
    if rounded >= 1_000_000:
        return f"{rounded / 1e6:,.1f} M"
    return f"{rounded:,}" if rounded < 100 else f"{round(rounded, 2 - len(str(rounded))):,}"


def duration(seconds: float) -> str:
    """Format a time in a readable unit.

    >>> duration(0.2), duration(20.4), duration(250), duration(7_800), duration(3 * 86_400)
    ('under 1 s', '20 s', '4 min', '2 h 10 min', '3 days')
    """
    if seconds < 1:
        return "under 1 s"
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    if minutes < 48 * 60:
        hours, rest = divmod(minutes, 60)
        return f"{hours} h {rest} min" if rest else f"{hours} h"
    return f"{minutes / 1440:,.0f} days"
