"""Rendering of templates, with the colours of the pictures; all text is escaped and printable."""

from __future__ import annotations

import contextlib
import os
import stat
from functools import cache
from typing import Any

import jinja2
from markupsafe import Markup

from abreast.report.charts.colours import DARK, LIGHT, rules, variables
from abreast.report.words.variant_figures import short_score
from abreast.report.words.verdict_sentence import points
from abreast.store.user_state.folders import state_folder
from abreast.text import many, printable


@cache
def environment(*packages: str) -> jinja2.Environment:
    """The templates of these packages and of the report."""
    templates = jinja2.Environment(
        loader=jinja2.ChoiceLoader([jinja2.PackageLoader(name) for name in (*packages, "abreast.report.page")]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_printable,
        bytecode_cache=_compiled_templates(),
    )
    templates.filters.update(points=points, many=many, score=short_score)
    return templates


class CompiledTemplates(jinja2.FileSystemBytecodeCache):
    """A cache of compiled templates; entries that cannot be read or written are compiled again."""

    def load_bytecode(self, bucket: jinja2.bccache.Bucket) -> None:
        try:
            super().load_bytecode(bucket)
        except Exception:  # noqa: BLE001 - whatever unpickling a damaged file raises
            bucket.reset()

    def dump_bytecode(self, bucket: jinja2.bccache.Bucket) -> None:
        with contextlib.suppress(OSError):
            super().dump_bytecode(bucket)


def _compiled_templates() -> CompiledTemplates | None:
    """The cache in the state folder; None if the folder is unusable or writable by others."""
    try:
        folder = state_folder() / "templates"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.stat()
    except (OSError, RuntimeError):
        return None
    if status.st_uid != os.getuid() or stat.S_IMODE(status.st_mode) & 0o022:
        return None
    return CompiledTemplates(str(folder))


def style() -> Markup:
    """CSS of the light and dark colours, and of pictures."""
    light, dark = variables(LIGHT), variables(DARK)
    themes = f":root{{{light}}}@media (prefers-color-scheme:dark){{:root{{{dark}}}}}@media print{{:root{{{light}}}}}"
    return Markup(themes + rules(None, "svg.chart "))


def _printable(value: Any) -> Any:
    """Replace unprintable characters in untrusted text, which is escaped after that."""
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value
