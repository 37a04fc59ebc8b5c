"""Scorers from other packages: checked when they are built, and guarded when they are called."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from abreast.model import Answer, Case, Score
from abreast.plugins import Plugin, describe
from abreast.scorers.base import Scorer, is_column
from abreast.scorers.function import read_mark


class PluginScorer(Scorer):
    """A scorer of another package. A wrong score is an empty one with the reason; the answer is kept.

    An object that has the methods of `Scorer` and is not derived from it gets the defaults here.
    """

    def __init__(self, plugin: Plugin, scorer: Any) -> None:
        self._plugin, self._scorer = plugin, scorer
        if scorer is None or isinstance(scorer, type) or not hasattr(scorer, "score"):
            plugin.refuse("it must make an object with the methods and attributes of abreast.Scorer", scorer)
        plugin.call("reading its attributes", self._take_attributes)
        plugin.check_method(scorer, "score", ("case", "answer"))
        if hasattr(scorer, "flaw"):
            plugin.check_method(scorer, "flaw", ("expected",))

    def _take_attributes(self) -> None:
        kind, refuse = type(self._scorer).__name__, self._plugin.refuse
        for name in ("columns", "version", "needs_expected"):
            if not hasattr(self._scorer, name) and not hasattr(Scorer, name):
                raise self._plugin.error(f"{kind} has no {name}")
            setattr(self, name, getattr(self._scorer, name, getattr(Scorer, name, None)))
        if not isinstance(self.columns, tuple | list) or not self.columns or not all(map(is_column, self.columns)):
            rule = f"{kind}.columns must be a tuple of names in lowercase letters, digits and underscores"
            refuse(rule, self.columns)
        self.columns = tuple(self.columns)
        if not isinstance(self.version, str) or not self.version:
            refuse(f"{kind}.version must be text that changes whenever a score could change", self.version)
        if not isinstance(self.needs_expected, bool):
            refuse(f"{kind}.needs_expected must be True or False", self.needs_expected)

    def score(self, case: Case, answer: Answer) -> tuple[Score, ...]:
        scores = self._scorer.score(case, answer)
        if not isinstance(scores, Sequence) or not all(isinstance(score, Score) for score in scores):
            reason = f"{self._plugin}: score() must return a tuple of abreast.Score, got {describe(scores)}"
            return self.fill(None, reason)
        by_name = {score.name: score for score in scores}
        unknown = [name for name in by_name if name not in self.columns]
        missing = f"{self._plugin}: score() gave no score for this column"
        missing += f", but for {', '.join(map(str, unknown))}" if unknown else ""
        marks = (read_mark(by_name.get(column, Score(column, None, missing))) for column in self.columns)
        return tuple(Score(column, *mark) for column, mark in zip(self.columns, marks, strict=True))

    def flaw(self, expected: Any) -> tuple[str, str] | None:
        method = getattr(self._scorer, "flaw", super().flaw)
        problem: tuple[str, str] | None = self._plugin.call("flaw()", method, expected)
        is_pair = isinstance(problem, tuple) and len(problem) == 2 and all(isinstance(text, str) for text in problem)
        if problem is not None and not is_pair:
            self._plugin.refuse("flaw() must return what is wrong and how to fix it, two texts, or None", problem)
        return problem


def build_scorer(plugin: Plugin, settings: dict[str, Any]) -> Scorer:
    """The scorer that a plugin makes; one of our own families is used as it is."""
    what = "a class or function that makes a scorer"
    scorer = plugin.build(what, ("name", "settings"), plugin.point.name, settings)
    is_ours = type(scorer).__module__.startswith("abreast.scorers.")
    return scorer if is_ours else PluginScorer(plugin, scorer)
