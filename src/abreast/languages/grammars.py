"""Which language a file is written in, and the grammar that reads it."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pathlib import PurePath
from typing import TYPE_CHECKING

from abreast.errors import BadInput

if TYPE_CHECKING:
    from tree_sitter import Language

INSTALL = 'pip install "abreast[code]"'

_SUFFIXES = {
    **dict.fromkeys((".py", ".pyi"), ("python", "tree_sitter_python", "language")),
    ".go": ("go", "tree_sitter_go", "language"),
    **dict.fromkeys((".ts", ".mts", ".cts"), ("typescript", "tree_sitter_typescript", "language_typescript")),
    **dict.fromkeys((".tsx", ".js", ".jsx", ".mjs", ".cjs"), ("typescript", "tree_sitter_typescript", "language_tsx")),
    ".java": ("java", "tree_sitter_java", "language"),
    ".rs": ("rust", "tree_sitter_rust", "language"),
}
LANGUAGES = tuple(dict.fromkeys(language for language, *_ in _SUFFIXES.values()))


def language_of(path: str | PurePath) -> str | None:
    """The language by the suffix of the name; None if it is none of ours.

    >>> language_of("src/app.TSX"), language_of("lib/old.js"), language_of("README.md")
    ('typescript', 'typescript', None)
    """
    known = _SUFFIXES.get(PurePath(path).suffix.lower())
    return known[0] if known else None


def grammar_of(path: str | PurePath) -> Language:
    """The grammar for a file that has a language."""
    _, package, function = _SUFFIXES[PurePath(path).suffix.lower()]
    return _loaded(package, function)


@cache
def _loaded(package: str, function: str) -> Language:
    try:
        from tree_sitter import Language

        return Language(getattr(import_module(package), function)())
    except ImportError:
        raise BadInput("reading source code needs tree-sitter", INSTALL) from None
