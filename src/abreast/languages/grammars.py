"""Languages by file suffix, and their grammars."""

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
    """Return the language of a file by its suffix; None if it is not supported.

    >>> language_of("src/app.TSX"), language_of("lib/old.js"), language_of("README.md")
    ('typescript', 'typescript', None)
    """
    entry = _SUFFIXES.get(PurePath(path).suffix.lower())
    return entry[0] if entry else None


def grammar_of(path: str | PurePath) -> Language:
    _, package, function = _SUFFIXES[PurePath(path).suffix.lower()]
    return _load_grammar(package, function)


@cache
def _load_grammar(package: str, function: str) -> Language:
    try:
        from tree_sitter import Language

        return Language(getattr(import_module(package), function)())
    except ImportError:
        raise BadInput("reading source code needs tree-sitter", INSTALL) from None
