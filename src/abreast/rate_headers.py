"""Rate limits that providers announce in response headers.

>>> rate_limits({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "6m0s"}).requests
Allowance(limit=None, remaining=0.0, reset_s=360.0)
>>> retry_after({"Retry-After-Ms": "1500", "retry-after": "2"})
1.5

Nothing here raises, whatever the headers contain.
"""

from __future__ import annotations

import contextlib
import math
import re
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from abreast.model import Allowance, RateLimits

LONGEST_S = 7 * 86_400.0
MOST_HEADERS = 1_000
_STYLES = {"anthropic": "anthropic-ratelimit-{kind}-{field}", "openai": "x-ratelimit-{field}-{kind}"}
_TOKENS = ("tokens", "input-tokens", "output-tokens")
_DURATION = re.compile(r"(?:\d{1,15}(?:\.\d{0,15})?(?:ms|us|µs|ns|[dhms]))+", re.IGNORECASE)
_PART = re.compile(r"(\d+(?:\.\d*)?)(ms|us|µs|ns|[dhms])", re.IGNORECASE)
_UNITS = {"d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}


def rate_limits(headers: Any, now: float | None = None) -> RateLimits | None:
    """Return the rate limits in headers of Anthropic or OpenAI, if any; of several kinds of tokens, the scarcest."""
    if type(headers) is dict and not any("ratelimit" in str(name).lower() for name in headers):
        return None  # the fast path: most local servers announce nothing
    lowered = _lowered(headers)
    moment = time.time() if now is None else now
    requests = _announced(lowered, "requests", moment)
    tokens = [kind for kind in (_announced(lowered, name, moment) for name in _TOKENS) if kind is not None]
    scarcest = min(tokens, key=lambda kind: math.inf if kind.remaining is None else kind.remaining, default=None)
    return None if requests is None and scarcest is None else RateLimits(requests, scarcest)


def announcement(style: str, kind: str, limit: int, remaining: int, reset_s: float) -> dict[str, str]:
    """The headers that announce a rate in the style of `anthropic` or `openai`."""
    moment = datetime.fromtimestamp(time.time() + reset_s, UTC).isoformat(timespec="milliseconds")
    reset = moment if style == "anthropic" else f"{math.ceil(reset_s * 1000)}ms"
    fields = {"limit": str(limit), "remaining": str(max(0, remaining)), "reset": reset}
    return {_STYLES[style].format(kind=kind, field=field): text for field, text in fields.items()}


def retry_after(headers: Any) -> float | None:
    """Seconds to wait, from `retry-after-ms`, else from `retry-after` unless it is a date."""
    lowered = _lowered(headers)
    exact, seconds = _number(lowered.get("retry-after-ms")), _number(lowered.get("retry-after"))
    if exact is not None:
        return min(exact / 1000, LONGEST_S)
    return None if seconds is None else min(seconds, LONGEST_S)


def _announced(lowered: dict[str, str], kind: str, now: float) -> Allowance | None:
    for style in _STYLES.values():
        limit, remaining, reset = (
            lowered.get(style.format(kind=kind, field=field)) for field in ("limit", "remaining", "reset")
        )
        allowance = Allowance(_number(limit), _number(remaining), _until(reset, now))
        if allowance != Allowance():
            return allowance
    return None


def _lowered(headers: Any) -> dict[str, str]:
    """Return the headers of any library by lower-case name, without invalid ones."""
    lowered: dict[str, str] = {}
    with contextlib.suppress(Exception):  # user-defined headers may raise: keep what was read
        for name, value in _pairs(headers):
            key, text = _text(name), _text(value)
            if key is not None and text is not None:
                lowered.setdefault(key.lower(), text)
    return lowered


def _pairs(headers: Any) -> Iterator[tuple[Any, Any]]:
    items = getattr(headers, "items", None)
    if items is None and not isinstance(headers, list | tuple):  # supports item access only
        for name in ("retry-after", "Retry-After", "retry-after-ms"):
            try:
                yield name, headers[name]
            except Exception:  # noqa: BLE001
                continue
        return
    for pair in islice(headers if items is None else items(), MOST_HEADERS):
        if isinstance(pair, tuple | list) and len(pair) == 2:
            yield pair[0], pair[1]


def _text(value: Any) -> str | None:
    if isinstance(value, bytes):
        return value.decode("latin-1").strip()
    if isinstance(value, str):
        return value.strip()
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _number(text: str | None) -> float | None:
    """A number of at least 0."""
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if math.isfinite(value) and value >= 0 else None


def _until(text: str | None, now: float) -> float | None:
    """Seconds until a reset: a number of seconds, a duration such as 6m0s, or a time (RFC 3339).

    >>> [_until(text, 0.0) for text in ("20ms", "1m30s", "7", "1970-01-01T00:00:09.5Z", "soon")]
    [0.02, 90.0, 7.0, 9.5, None]
    """
    if text is None:
        return None
    seconds = _number(text)
    if seconds is None and _DURATION.fullmatch(text):
        seconds = sum(float(number) * _UNITS[unit.lower()] for number, unit in _PART.findall(text))
    if seconds is None:
        seconds = _until_moment(text, now)
    return None if seconds is None else min(seconds, LONGEST_S)


def _until_moment(text: str, now: float) -> float | None:
    try:
        moment = datetime.fromisoformat(text)
        at = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return None
    rounding_s = 0.0 if "." in text else 1.0  # the time may be any moment of that second
    return max(0.0, at + rounding_s - now)
