"""The results of adaptive concurrency as text, from the events of a run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

_BEYOND = {"latency": "latency increased", "refusals": "more requests were refused"}


def describe_change(kind: str, detail: Mapping[str, Any]) -> str:
    """Describe one event; empty for other kinds of events.

    >>> describe_change("cut", {"target": "openai", "before": 33, "after": 12, "reason": "latency", "latency": 3.3})
    'openai: at most 12 in flight instead of 33: latency increased × 3.3'
    >>> describe_change("background", {"target": "openai", "share": 0.052})
    'openai: about 5 % of requests are refused at any load'
    """
    target = detail.get("target")
    if kind == "background":
        return f"{target}: about {detail['share']:.0%} of requests are refused at any load".replace("%", " %", 1)
    if kind not in ("cut", "raise"):
        return ""
    change = f"{target}: at most {detail['after']} in flight instead of {detail['before']}"
    if detail.get("reason") == "latency":
        return f"{change}: latency increased × {detail['latency']:.1f}"
    return f"{change}: more requests were refused" if kind == "cut" else change


def describe_findings(events: Iterable[tuple[str, Mapping[str, Any]]]) -> list[str]:
    """Summarise a run: the last result for each target.

    >>> cut = {"target": "openai", "before": 33, "after": 12, "reason": "latency", "latency": 3.3}
    >>> describe_findings([("cut", cut)])
    ['openai: at most 12 in flight: beyond that, latency increased']
    """
    limits: dict[str, str] = {}
    backgrounds: dict[str, str] = {}
    for kind, detail in events:
        if kind == "cut" and "reason" in detail:
            target = detail["target"]
            limits[target] = f"{target}: at most {detail['after']} in flight: beyond that, {_BEYOND[detail['reason']]}"
        elif kind == "background":
            backgrounds[detail["target"]] = describe_change(kind, detail)
    return [*limits.values(), *backgrounds.values()]
