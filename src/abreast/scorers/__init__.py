"""Scorers: one file per family, all behind `Scorer.score`.

>>> from abreast.model import Answer, Case
>>> scorer = build("number", {"rel": 0.05, "name": "loose"})
>>> scorer.score(Case("c", "?", expected=10), Answer("It is 10.2"))[0].name
'loose'
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from operator import attrgetter
from pathlib import Path
from typing import Any

from abreast.errors import BadInput, suggestion
from abreast.plugins import find_plugin, plugin_names, refuse_clash
from abreast.scorers.base import Scorer, ScorerSettings

__all__ = ["KINDS", "Scorer", "build"]

_FAMILIES = {
    "exact": ("exact", "Exact"),
    "text": ("text", "Text"),
    "contains": ("contains", "Contains"),
    "regex": ("contains", "Regex"),
    "number": ("number", "Number"),
    "label": ("label", "Label"),
    "set": ("sets", "SetOverlap"),
    "json": ("fields", "Fields"),
    "retrieval": ("retrieval.scorer", "Retrieval"),
    "tests": ("tests", "Tests"),
    "change_similarity": ("change_similarity.scorer", "ChangeSimilarity"),
    "format": ("format", "Format.read"),
    "success": ("tests", "Success"),
    "judge": ("judge", "Judge"),
    "human": ("human", "Human"),
}
KINDS = tuple(_FAMILIES)
"""Names of the built-in scorers."""


def build(
    kind: str | Callable[..., Any], settings: Mapping[str, Any] | None = None, base: Path | None = None
) -> Scorer:
    """Build a scorer. `kind` is a built-in name, `python:MODULE:FUNCTION`, a Python function, or the name of an entry
    point in the group `abreast.scorers`, which loads to `factory(name, settings)`. File names in settings are relative
    to `base`.

    >>> build("set", {"name": "files"}).columns
    ('files_f1', 'files_precision', 'files_recall')
    """
    options = dict(settings or {})
    if not isinstance(kind, str):
        return _from_function(kind, getattr(kind, "__name__", type(kind).__name__), options)
    if kind.startswith("python:"):
        from abreast.code.reference import load_function

        return _from_function(load_function(kind), kind, options)
    if kind in _FAMILIES:
        refuse_clash("scorer", kind)
        module, name = _FAMILIES[kind]
        factory = attrgetter(name)(importlib.import_module(f"{__name__}.{module}"))
        return _finish(factory, ScorerSettings(kind, options, base))
    return _from_entry_point(kind, options)


def _finish(factory: Callable[[ScorerSettings], Scorer], settings: ScorerSettings) -> Scorer:
    scorer = factory(settings)
    settings.done()
    return scorer


def _from_function(function: Callable[..., Any], kind: str, options: dict[str, Any]) -> Scorer:
    from abreast.scorers.function import Function

    if not callable(function):
        raise BadInput(f"a scorer must be a name or a function, got {function!r}")
    return _finish(lambda settings: Function(function, settings), ScorerSettings(kind, options))


def _from_entry_point(kind: str, options: dict[str, Any]) -> Scorer:
    from abreast.scorers.function import build_scorer

    plugin = find_plugin("scorer", kind)
    if plugin is None:
        raise BadInput(f'unknown scorer "{kind}"{suggestion(kind, [*KINDS, *plugin_names("scorer")])}')
    return build_scorer(plugin, options)
