"""What the run will probably take in words, and whether the budget covers it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from abreast.preflight.context import Context
from abreast.preflight.estimate import Estimate, JudgeEstimate, VariantEstimate
from abreast.preflight.finding import Finding, listed
from abreast.text import many

DAY_S = 86_400.0


def check_cost(context: Context) -> Finding:
    estimate, budget = context.estimate, context.limits.budget_usd
    message = sentence(estimate)
    cost, spent = estimate.cost_usd, context.spent_usd
    cost = cost + estimate.judges_usd if cost is not None else estimate.judges_usd or None
    if budget is not None and cost is not None and spent + cost > budget:
        before = f", {dollars(spent)} of it spent" if spent else ""
        fits = int(estimate.trials * max(0.0, budget - spent) / cost)
        message += f"; the budget is {dollars(budget)}{before}: about {fits:,} of {estimate.trials:,} trials fit"
        return Finding("estimate", "warn", message, "--budget USD raises it; resume goes on later")
    if estimate.seconds is not None and estimate.seconds > DAY_S:
        return Finding("estimate", "note", f"{message}; that is more than a day", "--parallel N does more at once")
    return Finding("estimate", "note" if _unknown(estimate) else "pass", message)


def question(context: Context) -> str | None:
    """The question to confirm the cost; None if it is low."""
    limits, cost = context.limits, context.estimate.real_cost_usd
    left = cost if limits.budget_usd is None else max(0.0, limits.budget_usd - context.spent_usd)
    if min(cost, left) <= limits.ask_above_usd:
        return None
    capped = f", {dollars(left)} by its budget" if left < cost else ""
    return f"this will cost about {dollars(cost)}{capped} ({many(context.estimate.trials, 'trial')})"


def sentence(estimate: Estimate) -> str:
    """`24 trials to execute · about 9,600 tokens in, 400 out · $0.03 · 20 s, 4 at a time (from 40 earlier trials)`."""
    judges = "".join(f" · {_of_judge(one)}" for one in estimate.judges)
    if not estimate.trials:
        return f"nothing to execute{judges}"
    at_once = "one" if estimate.in_flight == 1 else f"{estimate.in_flight:,}"
    known = [
        *_tokens(estimate),
        *([] if estimate.cost_usd is None else [dollars(estimate.cost_usd)]),
        *([] if estimate.seconds is None else [f"{duration(estimate.seconds)}, {at_once} at a time"]),
    ]
    basis = f" ({_basis(estimate.variants)})" if known else ""
    return " · ".join([f"{many(estimate.trials, 'trial')} to execute", *known]) + basis + _unknown(estimate) + judges


def _of_judge(one: JudgeEstimate) -> str:
    calls = f"{many(one.calls, 'call')} of {one.scorer}"
    return f"{calls}, cost unknown" if one.cost_usd is None else f"{calls}, {dollars(one.cost_usd)}"


def _tokens(estimate: Estimate) -> list[str]:
    given, gotten = estimate.input_tokens, estimate.output_tokens
    if given is None:
        return []
    unit = "token" if count(given) == "1" else "tokens"
    return [f"about {count(given)} {unit} in" + ("" if gotten is None else f", {count(gotten)} out")]


def _basis(variants: Sequence[VariantEstimate]) -> str:
    groups: dict[tuple[str, tuple[str, ...]], list[VariantEstimate]] = {}
    for one in variants:
        groups.setdefault((one.basis, one.expected), []).append(one)
    parts = []
    for (basis, expected), members in groups.items():
        seen = sum(one.seen for one in members) if basis == "variant" else max(one.seen for one in members)
        words = {
            "variant": f"from {many(seen, 'earlier trial')}",
            "target": f"from {many(seen, 'earlier trial')} of the same target",
            "declared": "from what the target says of itself",
            "prompts": "from the size of the prompts",
            "inputs": "from the size of the inputs, before their transform",
        }[basis] + _as_expected(expected)
        parts.append(words if len(groups) == 1 else f"{_names(members)} {words}")
    return "; ".join(parts)


def _as_expected(names: Sequence[str]) -> str:
    """`, seconds and tokens out as the spec expects`: nobody measured them."""
    words = {"seconds": "seconds", "output_tokens": "tokens out"}
    return f", {' and '.join(words[name] for name in names)} as the spec expects" if names else ""


def _unknown(estimate: Estimate) -> str:
    """What is unknown, and why."""
    real = [one for one in estimate.variants if not one.simulated]
    silent = [one for one in real if one.cost_usd is None or one.seconds is None]
    if not silent:
        return ""
    values = {"cost": [one.cost_usd for one in silent], "time": [one.seconds for one in silent]}
    missing = [word for word in values if None in values[word]]
    new = [one for one in silent if not one.seen]
    why = f"the earlier trials of {_names(silent)} did not report it"
    if new:
        why = f"no earlier trial of {_names(new)}; the first ones will tell"
    return f" · {' and '.join(missing)} unknown: {why}"


def _names(variants: Sequence[VariantEstimate]) -> str:
    return listed([estimate.variant for estimate in variants])


def dollars(amount: float) -> str:
    """Cents, and two digits of what is less.

    >>> dollars(12.4), dollars(0.0), dollars(0.00123)
    ('$12.40', '$0.00', '$0.0012')
    """
    if amount >= 0.1 or amount <= 0:
        return f"${amount:,.2f}"
    digits = min(9, 1 - math.floor(math.log10(amount)))
    cents, rest = f"{amount:.{digits}f}"[:4], f"{amount:.{digits}f}"[4:]
    return f"${cents}{rest.rstrip('0')}"


def count(number: float) -> str:
    """Two digits are all that an estimate has.

    >>> count(9_617), count(12), count(0.4), count(1_234_567)
    ('9,600', '12', '1', '1.2 M')
    """
    whole = max(1, round(number)) if number > 0 else 0
    if whole >= 1_000_000:
        return f"{whole / 1e6:,.1f} M"
    return f"{whole:,}" if whole < 100 else f"{round(whole, 2 - len(str(whole))):,}"


def duration(seconds: float) -> str:
    """In the unit people would use.

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
