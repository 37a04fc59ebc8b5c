"""Templates of the live page, which use those of the report."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import jinja2

from abreast.report.page import rendering

_STYLES = ("page.css", "changes.css", "view.css")
STATIC = Path(__file__).parent / "static"


@cache
def environment() -> jinja2.Environment:
    templates = rendering.environment("abreast.view")
    templates.filters.update(run_path=run_path, duration=duration)
    return templates


def render(template: str, **values: Any) -> str:
    return environment().get_template(template).render(**values)


@cache
def style_sheet() -> str:
    sources = [environment().loader.get_source(environment(), name)[0] for name in _STYLES[:-1]]  # type: ignore[union-attr]
    return "\n".join([str(rendering.style()), *sources, (STATIC / _STYLES[-1]).read_text(encoding="utf-8")])


def run_path(run: str, *parts: object, **query: object) -> str:
    """
    >>> run_path("calm-fox-12", "trials", 3, blind=1)
    '/runs/calm-fox-12/trials/3?blind=1'
    """
    path = "/".join(["/runs", quote(run, safe=""), *(quote(str(part), safe="") for part in parts)])
    return f"{path}?{urlencode(query)}" if query else path


def duration(seconds: float | None) -> str:
    """
    >>> duration(4.2), duration(75), duration(3 * 3600 + 120), duration(None)
    ('4 s', '1 min 15 s', '3 h 2 min', '')
    """
    if seconds is None:
        return ""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours:,} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
