"""Picture of what held a run back: events of limits, quotas, memory, outages and controls over time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from abreast.progress.displays import notice
from abreast.report.charts.drawing import Drawing, Picture, Scale
from abreast.report.words.concurrency import describe_change
from abreast.store.queries.runs import StoredEvent
from abreast.text import many

LANES = {  # kinds of events by lane
    "concurrency": ("cut", "raise", "background"),
    "quota and rates": ("quota", "announced"),
    "memory and cores": ("memory_short", "memory_enough", "processes_cut", "processes_raise"),
    "outages": ("outage", "outage_over", "store_lost", "store_back", "node_lost", "node_joined"),
    "controls": ("control", "interrupted", "stop", "decided", "requeued"),
    "warnings": ("warning", "store_failed", "left_out"),
}
_LANE_OF = {kind: lane for lane, kinds in LANES.items() for kind in kinds}
MOST = 400  # events drawn
LISTED = 50  # the last events
_HEIGHT = 26.0


def words(event: StoredEvent) -> str:
    """Describe an event in one line."""
    detail = ", ".join(f"{key} {value}" for key, value in event.detail.items() if value is not None)
    text = _describe(event.kind, dict(event.detail)) or f"{event.kind.replace('_', ' ')}: {detail}"
    return " ".join(text.split())[:400]


def _describe(kind: str, detail: dict[str, Any]) -> str:
    """Describe an event as it will be read later, unlike the terminal, which says until when it pauses."""
    try:
        if kind == "quota":
            window = f"the quota ({detail['most']} in {detail['window_s'] / 3600:g} h) is used up"
            return window + (f"; paused for {timedelta(seconds=round(detail['seconds']))}" if detail["waits"] else "")
        if kind == "outage":
            return f"{detail['error']}; paused after {detail['seconds']:.0f} s without an answer"
        if kind == "stop":
            return str(detail["message"] or detail["reason"])
        if kind == "requeued":
            return f"executing {many(detail['trials'], 'failed trial')} again"
        if kind == "left_out":
            return f"{detail['case']}, {detail['variant']}: left out, the trial before it is missing"
        return describe_change(kind, detail) or notice(kind, detail)
    except (KeyError, TypeError):  # an event of another version of abreast
        return ""


def limit_events(events: Sequence[StoredEvent]) -> list[StoredEvent]:
    return [event for event in events if event.kind in _LANE_OF]


def listed(events: Sequence[StoredEvent]) -> list[tuple[str, str]]:
    """Return the times and descriptions of the last events, newest first."""
    last = events[: -LISTED - 1 : -1]
    return [(time.strftime("%H:%M:%S", time.gmtime(event.happened_at)), words(event)) for event in last]


def picture(events: Sequence[StoredEvent], begin: float, end: float) -> Picture | None:
    """Draw the last events, with a lane for each kind of limit; None if there are none."""
    drawn = events[-MOST:]
    lanes = [lane for lane in LANES if any(_LANE_OF[event.kind] == lane for event in drawn)]
    if not lanes:
        return None
    counts = {lane: sum(_LANE_OF[event.kind] == lane for event in drawn) for lane in lanes}
    summary = ", ".join(f"{lane} {many(count, 'event')}" for lane, count in counts.items())
    return Picture(
        name="limits",
        title="What held the run back",
        alternative=f"Events over {max(0.0, end - begin):.0f} s: {summary}.",
        draw=lambda width: _draw(drawn, lanes, begin, max(end, begin + 1.0), width),
    )


def _draw(events: Sequence[StoredEvent], lanes: Sequence[str], begin: float, end: float, width: float) -> Drawing:
    left = 130.0 if width > 600 else 110.0
    bottom = len(lanes) * _HEIGHT + 6
    drawing = Drawing(width, bottom + 24)
    x = Scale(0.0, end - begin, left, width - 12)
    for number, lane in enumerate(lanes):
        y = number * _HEIGHT + _HEIGHT / 2
        drawing.text(0, y + 4, lane, "note")
        drawing.line(left, y, width - 12, y, "grid")
        for event in events:
            if _LANE_OF[event.kind] == lane:
                at = min(max(0.0, event.happened_at - begin), end - begin)
                drawing.dot(number, x(at), y, f"k{number}", 4)
    for share in (0.0, 0.5, 1.0):
        at = share * (end - begin)
        anchor = "start" if share == 0 else "end" if share == 1 else "middle"
        drawing.text(x(at), bottom + 18, time.strftime("%H:%M:%S", time.gmtime(begin + at)), "soft", anchor)
    return drawing
