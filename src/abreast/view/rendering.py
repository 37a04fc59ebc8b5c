"""Templates of the live page, which extend those of the report."""

from __future__ import annotations

import time
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import jinja2

from abreast.report.page import rendering

_REPORT_STYLES = ("page.css", "changes.css")
STATIC = Path(__file__).parent / "static"


@cache
def environment() -> jinja2.Environment:
    templates = rendering.environment("abreast.view")
    templates.filters.update(run_path=run_path, day_and_time=day_and_time)
    return templates


def render(template: str, **values: Any) -> str:
    return environment().get_template(template).render(**values)


@cache
def style_sheet() -> str:
    loader = environment().loader
    assert loader is not None
    of_report = [loader.get_source(environment(), name)[0] for name in _REPORT_STYLES]
    own = sorted(STATIC.glob("*.css"), key=lambda path: (path.name != "view.css", path.name))
    return "\n".join([str(rendering.style()), *of_report, *(path.read_text(encoding="utf-8") for path in own)])


def run_path(run: str, /, *parts: object, **query: object) -> str:
    """
    >>> run_path("calm-fox-12", "trials", 3, blind=1)
    '/runs/calm-fox-12/trials/3?blind=1'
    """
    path = "/".join(["/runs", quote(run, safe=""), *(quote(str(part), safe="") for part in parts)])
    return f"{path}?{urlencode(query)}" if query else path


def day_and_time(at: float) -> str:
    """
    >>> day_and_time(0.0)
    '1970-01-01 00:00'
    """
    return time.strftime("%Y-%m-%d %H:%M", time.gmtime(at))
