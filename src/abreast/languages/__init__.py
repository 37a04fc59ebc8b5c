"""Outlines of source files: what they define and refer to, read with tree-sitter."""

from abreast.languages.grammars import INSTALL, LANGUAGES, language_of
from abreast.languages.outline import BaseType, Outline, SymbolDefinition, SymbolReference, outline

__all__ = [
    "INSTALL",
    "LANGUAGES",
    "BaseType",
    "Outline",
    "SymbolDefinition",
    "SymbolReference",
    "language_of",
    "outline",
]
