"""Prompts that give the expected answer away.

That a prompt contains the expected answer means nothing by itself: a question lists its classes, a text contains what
is to be extracted, and a `4` may be anywhere. Three things are evidence: a phrase that announces an answer
(`answer: X`, `"expected": X`) and names the case's own answer more often than chance; a few cases whose prompt contains
their unique answer, among many whose prompt does not; and a variant whose prompts contain the answer where the
baseline's prompts for the same cases do not.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

SURPRISE = 2.99  # ln 20: by chance, at most one run in twenty exceeds it
FEWEST_GAINED = 5
SHARE_GAINED = 0.2
FEW = 1 / 3  # of the cases; if more prompts contain their answer, finding it there is the task
SHORTEST_TEXT = 4  # characters of an answer that is not in a prompt by chance
SHORTEST_NUMBER = 3  # digits

_WORDS = ("answer", "solution", "expected", "ground", "gold", "label", "target")
_ANNOUNCED = re.compile(  # in lower case: a pattern that ignores case takes five times as long
    r"(?:correct)?(?:answer|solution|expected|ground[ _]?truth|gold|label|target)"
    r"(?:[ _](?:answer|output|label|value|result))?[\"'*`]{0,3}\s{0,3}(?:is|are|:=|=>|->|:|=)[*`]{0,3}\s{0,3}"
    r"(?:\"([^\"\n]{1,200})\"|'([^'\n]{1,200})'|([^\s\"'{\[<(][^\n\"]{0,200}?)"
    r"(?=\s{0,20}(?:\n|$)|[.,;!?)}\]](?:\s|$)|[\"'*`]))"
)
# `student answer: X` announces an answer to be judged, not the expected one.
_OTHER_ANSWERS = {
    *("student", "students", "proposed", "candidate", "previous", "model", "models", "suggested", "given", "draft"),
    *("wrong", "incorrect", "example", "sample", "user", "users", "submitted", "assistant", "first", "second"),
}
_EDGES = " \t.,;:!?\"'`*_()[]{}"


@dataclass(slots=True)
class LeakStatistics:
    """Evidence for leaks in the prompts of one variant."""

    announced: list[tuple[str, str, str]] = field(default_factory=list)  # case, expected answer, announced answer
    eligible: int = 0  # cases whose prompt differs from the baseline's, with an answer that is not in it by chance
    gained: list[str] = field(default_factory=list)  # eligible cases whose answer only this variant's prompt contains
    by_chance: int = 0  # eligible cases for which the same is true of another case's answer
    containing: list[tuple[str, str]] = field(default_factory=list)  # case and answer, where the prompt contains it
    answers: Counter[str] = field(default_factory=Counter)  # all answers that are not in a prompt by chance
    of_others: int = 0  # prompts that contain another case's answer

    def stand_out(self) -> list[str]:
        """The few cases whose prompt contains their answer, while other prompts do not."""
        own = [case for case, answer in self.containing if self.answers[answer] == 1]
        few = max(FEW * self.answers.total(), 1)
        return own if own and len(self.containing) <= few and not self.of_others else []

    def gives_away(self, expected: Counter[str]) -> list[str]:
        """The cases whose prompt announces their own expected answer, if that is more than chance."""
        candidates = [(case, own, answer) for case, own, answer in self.announced if answer in expected]
        hits = [case for case, own, answer in candidates if own == answer]
        if not hits:
            return []
        others = [expected[answer] - (own == answer) + 0.5 for _, own, answer in candidates]
        chance = min(0.999, sum(others) / len(others) / expected.total())
        return hits if _surprise(len(hits), len(candidates), chance) >= SURPRISE else []

    def contains_more(self) -> list[str]:
        """The cases whose answer is in this variant's prompt and not in the baseline's, if there are enough."""
        enough = len(self.gained) >= max(FEWEST_GAINED, SHARE_GAINED * self.eligible)
        return self.gained if enough and 4 * self.by_chance < len(self.gained) else []


def _surprise(hits: int, tries: int, chance: float) -> float:
    """Minus the logarithm of (a bound on) the probability of this many hits.

    >>> round(_surprise(1, 1, 0.05), 2), _surprise(5, 10, 0.5)
    (3.0, 0.0)
    """
    share = hits / tries
    if share <= chance:
        return 0.0
    missed = (1 - share) * math.log((1 - share) / (1 - chance)) if share < 1 else 0.0
    return tries * (share * math.log(share / chance) + missed)


def scan(rows: Iterable[Sequence[Any]], variants: int, baseline: int) -> tuple[list[LeakStatistics], Counter[str]]:
    """The evidence for leaks by variant, and how often each answer is expected.

    Rows are case index, case id, expected answer as JSON, variant and prompt, ordered by case.
    """
    statistics = [LeakStatistics() for _ in range(variants)]
    expected: Counter[str] = Counter()
    previous = ""  # the answer of the case before, as a control
    for _, of_case in groupby(rows, key=lambda row: row[0]):
        trials = list(of_case)
        case, value = trials[0][1], json.loads(trials[0][2])
        if not isinstance(value, str | int | float):
            continue
        own, answer = canonical(value), _specific(value)
        expected[own] += 1
        other = previous if previous != answer else ""
        prompts: dict[int, str] = {variant: prompt or "" for _, _, _, variant, prompt in trials}
        for variant, prompt in prompts.items():
            of_variant, announced = statistics[variant], _announcements(prompt)
            if len(announced) == 1:
                of_variant.announced.append((case, own, announced[0]))
            if answer:
                folded = prompt.casefold()
                of_variant.answers[answer] += 1
                if _contains(folded, answer):
                    of_variant.containing.append((case, answer))
                of_variant.of_others += bool(other) and _contains(folded, other)
        if answer and baseline in prompts:
            _compare(statistics, prompts, baseline, case, answer, other)
            previous = answer
    return statistics, expected


def _announcements(prompt: str) -> list[str]:
    folded = prompt.lower()
    if not any(word in folded for word in _WORDS):  # the usual case, and quicker than the pattern
        return []
    answers = []
    for match in _ANNOUNCED.finditer(folded):
        before = folded[max(0, match.start() - 20) : match.start()]
        owner = before.rstrip(" \t_'’s").split()[-1:]
        answer = canonical(match[1] or match[2] or match[3])
        if answer and not before[-1:].isalnum() and not (owner and owner[0].strip(_EDGES) in _OTHER_ANSWERS):
            answers.append(answer)
    return answers


def _compare(
    statistics: list[LeakStatistics], prompts: dict[int, str], baseline: int, case: str, answer: str, other: str
) -> None:
    """Count answers in a variant's prompt that are not in the baseline's: the case's own, and another as a control."""
    plain = prompts[baseline]
    for variant, prompt in prompts.items():
        if prompt == plain:
            continue
        of_variant = statistics[variant]
        of_variant.eligible += 1
        folded, base = prompt.casefold(), plain.casefold()
        if _contains(folded, answer) and not _contains(base, answer):
            of_variant.gained.append(case)
        if other and _contains(folded, other) and not _contains(base, other):
            of_variant.by_chance += 1


def _contains(text: str, words: str) -> bool:
    """Whether the text contains these words as whole words.

    >>> _contains("it is 416 km", "416"), _contains("it is 4160 km", "416")
    (True, False)
    """
    at = text.find(words)
    while at >= 0:
        end = at + len(words)
        if not (text[at - 1 : at].isalnum() or text[end : end + 1].isalnum()):
            return True
        at = text.find(words, at + 1)
    return False


def _specific(value: Any) -> str:
    """The canonical form of an expected answer; empty if it may be in prompts by chance."""
    text = canonical(value)
    if _number(text) is not None:
        return text if sum(char.isdigit() for char in text) >= SHORTEST_NUMBER else ""
    return text if len(text) >= SHORTEST_TEXT and not isinstance(value, bool) else ""


def canonical(value: Any) -> str:
    """A form that is equal for equal answers.

    >>> canonical(" Paris. "), canonical(4.0), canonical("4"), canonical("1,250")
    ('paris', '4', '4', '1250')
    """
    text = " ".join(str(value).casefold().split()).rstrip(_EDGES).lstrip(_EDGES.replace(".", ""))
    number = _number(text)
    return text if number is None else f"{number:.12g}"


def _number(text: str) -> float | None:
    try:
        number = float(text.replace(",", "")) if len(text) < 50 else math.nan
    except ValueError:
        return None
    return number if math.isfinite(number) else None
