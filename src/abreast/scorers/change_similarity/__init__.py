"""`change_similarity`: how like the change of an agent is to the one that a human made."""

from abreast.scorers.change_similarity.scorer import ChangeSimilarity

__all__ = ["ChangeSimilarity"]
