"""How pages are made of templates: in the colours of the pictures, and with nothing in them that works in secret."""

from __future__ import annotations

from functools import cache
from typing import Any

import jinja2
from markupsafe import Markup

from abreast.report.charts.colours import DARK, LIGHT, rules, variables
from abreast.report.figures import NOTHING
from abreast.report.sentence import many, points
from abreast.text import printable


@cache
def environment() -> jinja2.Environment:
    """The templates of all pages, which are compiled once."""
    found = jinja2.Environment(
        loader=jinja2.PackageLoader("abreast.report.page"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_harmless,
    )
    found.filters.update(points=points, many=many, score=_score)
    return found


def style() -> Markup:
    """Colours for light and dark, and how pictures use them."""
    light, dark = variables(LIGHT), variables(DARK)
    themes = f":root{{{light}}}@media (prefers-color-scheme:dark){{:root{{{dark}}}}}@media print{{:root{{{light}}}}}"
    return Markup(themes + rules(None, "svg.chart "))


def _harmless(value: Any) -> Any:
    """Whatever is put into the page: text of anybody is made visible, and escaped after that."""
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _score(value: float | None) -> str:
    """`0.5`, `1`, `0.07`; to the point where readers compare."""
    return NOTHING if value is None else f"{value:.2f}".rstrip("0").rstrip(".")
