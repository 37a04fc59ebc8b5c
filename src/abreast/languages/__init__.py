"""What a source file defines and what it refers to, as tree-sitter reads it."""

from abreast.languages.grammars import INSTALL, LANGUAGES, language_of
from abreast.languages.outline import Definition, Outline, Reference, outline

__all__ = ["INSTALL", "LANGUAGES", "Definition", "Outline", "Reference", "language_of", "outline"]
