"""Picture of where a trial's time went: waiting for its start, attempts, back-off, and service."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from abreast.report.charts.drawing import Drawing, Picture, Scale, fitted, steps, wide
from abreast.text import many

MOST_ATTEMPTS = 12  # drawn; if there are more, the first and the last ones
_STEP = 28.0
_SHORTEST = 2.0  # pixels of a bar


@dataclass(frozen=True, slots=True)
class TimeSpan:
    """A stretch of time in seconds after the trial was ready to start."""

    title: str
    begin: float
    end: float
    look: str
    note: str = ""

    @property
    def seconds(self) -> float:
        return max(0.0, self.end - self.begin)


def in_seconds(value: float) -> str:
    """
    >>> in_seconds(0.0004), in_seconds(0.25), in_seconds(12.34), in_seconds(754.0)
    ('0.4 ms', '250 ms', '12.3 s', '754 s')
    """
    if value < 1:
        return f"{value * 1000:.3g} ms"
    return f"{value:.3g} s" if value < 1_000 else f"{value:,.0f} s"


def spans(trial: Mapping[str, Any], attempts: Sequence[Mapping[str, Any]]) -> list[TimeSpan]:
    """Return consecutive spans; empty for a trial that this run did not execute."""
    service = trial["service_s"]
    if trial["reused_from"] or trial["started_at"] is None or service is None or not trial["attempts"]:
        return []
    finished = max(float(trial["finished_at"] or 0.0), trial["started_at"] + service)
    begun = [*(float(attempt["started_at"]) for attempt in attempts), finished - service]
    waits = [
        max(0.0, begin - float(attempt["started_at"]) - attempt["service_s"] - (attempt["waited_s"] or 0.0))
        for attempt, begin in zip(attempts, begun[1:], strict=True)
    ]
    first_wait = max(0.0, float(trial["queue_s"] or 0.0) - sum(waits))
    start = begun[0] - first_wait
    result = [TimeSpan("queue", 0.0, first_wait, "tie")] if first_wait > 0 else []
    for attempt, wait, begin in zip(attempts, waits, begun, strict=False):
        end = begin + attempt["service_s"]
        title = f"attempt {attempt['attempt']}"
        result.append(TimeSpan(title, begin - start, end - start, "worse", str(attempt["error_kind"] or "")))
        back_off = float(attempt["waited_s"] or 0.0)
        if back_off > 0:
            result.append(TimeSpan("back-off", end - start, end + back_off - start, "open"))
        if wait > 0.001:
            result.append(TimeSpan("queue", end + back_off - start, end + back_off + wait - start, "tie"))
    is_ok = trial["status"] == "ok"
    title = f"attempt {trial['attempts']}" if attempts else "service"
    note = "" if is_ok else str(trial["error_kind"] or trial["status"])
    result.append(TimeSpan(title, begun[-1] - start, finished - start, "better" if is_ok else "worse", note))
    return result


def picture(trial: Mapping[str, Any], attempts: Sequence[Mapping[str, Any]]) -> Picture | None:
    items = spans(trial, attempts)
    if not items:
        return None
    total = items[-1].end
    left_out = max(0, len(items) - 2 * MOST_ATTEMPTS)
    drawn = [*items[:MOST_ATTEMPTS], *items[-MOST_ATTEMPTS:]] if left_out else items
    sentence = ", ".join(f"{item.title} {in_seconds(item.seconds)}" for item in drawn)
    below = f"{in_seconds(total)} in all"
    return Picture(
        name="timing",
        title="Where the time went",
        alternative=f"{below}: {sentence}.",
        draw=lambda width: _draw(drawn, total, width),
        below=f"{below}; {many(left_out, 'further part')} not drawn" if left_out else below,
        head=("part", "from", "seconds", "outcome"),
        rows=tuple((item.title, in_seconds(item.begin), in_seconds(item.seconds), item.note) for item in items),
    )


def _draw(items: Sequence[TimeSpan], total: float, width: float) -> Drawing:
    left, right = (110.0, width - 8) if width > 600 else (84.0, width - 4)
    bottom = len(items) * _STEP + 4
    drawing = Drawing(width, bottom + 22)
    x = Scale(0.0, total or 1.0, left, right)
    for at in steps(0.0, total, 6 if width > 600 else 3):
        drawing.line(x(at), 0, x(at), bottom, "grid")
        anchor = "start" if at == 0 else "end" if x(at) > right - 20 else "middle"
        drawing.text(x(at), bottom + 16, in_seconds(at) if at else "0", "note", anchor)
    for number, item in enumerate(items):
        top = number * _STEP + 4
        drawing.text(0, top + 14, fitted(item.title, left - 8), "soft")
        begin, end = x(item.begin), max(x(item.end), x(item.begin) + _SHORTEST)
        begin = min(begin, right - _SHORTEST)
        drawing.box(begin, top, end - begin, _STEP - 8, item.look, fill="currentColor", rx=2)
        words = " · ".join(filter(None, [in_seconds(item.seconds), item.note]))
        if end + wide(words) + 8 <= right:
            drawing.text(end + 6, top + 14, words)
        elif begin - wide(words) - 6 >= left:
            drawing.text(begin - 6, top + 14, words, anchor="end")
        else:
            look = "strong" if item.look == "tie" else "inside"
            drawing.text(begin + 8, top + 14, fitted(words, end - begin - 16), look)
    return drawing
