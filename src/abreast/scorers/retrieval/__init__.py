"""`retrieval`: which files, symbols, lines and quotations an answer claims, and which of them are right."""

from abreast.scorers.retrieval.scorer import Retrieval
from abreast.scorers.retrieval.truth import flaw_of

__all__ = ["Retrieval", "flaw_of"]
