"""What a source file defines and what it refers to, as tree-sitter reads it."""

from abreast.languages.grammars import INSTALL, LANGUAGES, language_of
from abreast.languages.outline import Base, Definition, Outline, Reference, outline

__all__ = ["INSTALL", "LANGUAGES", "Base", "Definition", "Outline", "Reference", "language_of", "outline"]
