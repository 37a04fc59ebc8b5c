"""Prompts that give the expected answer away.

That a prompt contains the expected answer says nothing: a question lists its classes, a text holds what is to be
extracted, and a `4` stands anywhere. Three things do say something. One is a place that announces an answer
(`answer: X`, `"expected": X`) and names this very case's answer more often than it would by chance. Another are a few
cases whose prompt contains their answer, one that no other case has, among many whose prompt does not. The third is a
variant whose prompts contain the answer where the baseline's prompts for the same cases do not.
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

SURPRISE = 2.99  # ln 20: by chance one run in twenty at most
FEWEST_GAINED = 5
SHARE_GAINED = 0.2
FEW = 1 / 3  # of the cases: if more contain their answer, finding it there is the task
SHORTEST_TEXT = 4  # characters of an answer that does not stand in a prompt by chance
SHORTEST_NUMBER = 3  # digits

_WORDS = ("answer", "solution", "expected", "ground", "gold", "label", "target")
_ANNOUNCED = re.compile(  # in lower case: a pattern that ignores case takes five times as long
    r"(?:correct)?(?:answer|solution|expected|ground[ _]?truth|gold|label|target)"
    r"(?:[ _](?:answer|output|label|value|result))?[\"'*`]{0,3}\s{0,3}(?:is|are|:=|=>|->|:|=)[*`]{0,3}\s{0,3}"
    r"(?:\"([^\"\n]{1,200})\"|'([^'\n]{1,200})'|([^\s\"'{\[<(][^\n\"]{0,200}?)"
    r"(?=\s{0,20}(?:\n|$)|[.,;!?)}\]](?:\s|$)|[\"'*`]))"
)
# An answer that somebody gave, to be judged, is not the expected one.
_SOMEBODYS = {
    *("student", "students", "proposed", "candidate", "previous", "model", "models", "suggested", "given", "draft"),
    *("wrong", "incorrect", "example", "sample", "user", "users", "submitted", "assistant", "first", "second"),
}
_EDGES = " \t.,;:!?\"'`*_()[]{}"


@dataclass(slots=True)
class Prompts:
    """What was seen of one variant's prompts."""

    announced: list[tuple[str, str, str]] = field(default_factory=list)  # case, its expected answer, what is announced
    eligible: int = 0  # cases whose prompt differs from the baseline's, with an answer that is not in it by chance
    gained: list[str] = field(default_factory=list)  # of them cases whose answer only this variant's prompt contains
    by_chance: int = 0  # of them cases for which that holds of another case's answer
    holding: list[tuple[str, str]] = field(default_factory=list)  # case and answer, where the prompt contains it
    written: Counter[str] = field(default_factory=Counter)  # all answers that do not stand in a prompt by chance
    of_others: int = 0  # prompts that contain another case's answer

    def stand_out(self) -> list[str]:
        """The few cases whose prompt contains their answer, while those of the others do not contain theirs."""
        own = [case for case, answer in self.holding if self.written[answer] == 1]
        few = max(FEW * self.written.total(), 1)
        return own if own and len(self.holding) <= few and not self.of_others else []

    def gives_away(self, expected: Counter[str]) -> list[str]:
        """The cases whose prompt announces their own expected answer, if that is no chance."""
        known = [(case, own, said) for case, own, said in self.announced if said in expected]
        told = [case for case, own, said in known if own == said]
        if not told:
            return []
        others = [expected[said] - (own == said) + 0.5 for _, own, said in known]
        chance = min(0.999, sum(others) / len(others) / expected.total())
        return told if _surprise(len(told), len(known), chance) >= SURPRISE else []

    def contains_more(self) -> list[str]:
        """The cases whose answer this variant is told and the baseline is not, if there are enough."""
        enough = len(self.gained) >= max(FEWEST_GAINED, SHARE_GAINED * self.eligible)
        return self.gained if enough and 4 * self.by_chance < len(self.gained) else []


def _surprise(hits: int, tries: int, chance: float) -> float:
    """Minus the logarithm of (a bound on) the probability of so many hits.

    >>> round(_surprise(1, 1, 0.05), 2), _surprise(5, 10, 0.5)
    (3.0, 0.0)
    """
    share = hits / tries
    if share <= chance:
        return 0.0
    missed = (1 - share) * math.log((1 - share) / (1 - chance)) if share < 1 else 0.0
    return tries * (share * math.log(share / chance) + missed)


def look(rows: Iterable[Sequence[Any]], variants: int, baseline: int) -> tuple[list[Prompts], Counter[str]]:
    """What the prompts of each variant give away, and how often each answer is expected.

    Rows are case index, case id, expected answer as JSON, variant and prompt, in the order of cases.
    """
    seen = [Prompts() for _ in range(variants)]
    expected: Counter[str] = Counter()
    before = ""
    for _, of_case in groupby(rows, key=lambda row: row[0]):
        trials = list(of_case)
        value = json.loads(trials[0][2])
        if not isinstance(value, str | int | float):
            continue
        own, written = canonical(value), _written(value)
        expected[own] += 1
        prompts: dict[int, str] = {variant: prompt or "" for _, _, _, variant, prompt in trials}
        for variant, prompt in prompts.items():
            said = _announcements(prompt)
            if len(said) == 1:
                seen[variant].announced.append((trials[0][1], own, said[0]))
        for variant, prompt in prompts.items():
            if written:
                of_variant, folded = seen[variant], prompt.casefold()
                of_variant.written[written] += 1
                if _contains(folded, written):
                    of_variant.holding.append((trials[0][1], written))
                of_variant.of_others += bool(before) and before != written and _contains(folded, before)
        if written and baseline in prompts:
            _compare(seen, prompts, baseline, trials[0][1], written, before if before != written else "")
            before = written
    return seen, expected


def _announcements(prompt: str) -> list[str]:
    folded = prompt.lower()
    if not any(word in folded for word in _WORDS):  # the usual case, and quicker than the pattern
        return []
    found = []
    for match in _ANNOUNCED.finditer(folded):
        before = folded[max(0, match.start() - 20) : match.start()]
        whose = before.rstrip(" \t_'’s").split()[-1:]
        said = canonical(match[1] or match[2] or match[3])
        if said and not before[-1:].isalnum() and not (whose and whose[0].strip(_EDGES) in _SOMEBODYS):
            found.append(said)
    return found


def _compare(seen: list[Prompts], prompts: dict[int, str], baseline: int, case: str, written: str, other: str) -> None:
    """Whether a variant's prompt contains what the baseline's does not: this answer, and as a control another one."""
    plain = prompts[baseline]
    for variant, prompt in prompts.items():
        if prompt == plain:
            continue
        of_variant = seen[variant]
        of_variant.eligible += 1
        folded, base = prompt.casefold(), plain.casefold()
        if _contains(folded, written) and not _contains(base, written):
            of_variant.gained.append(case)
        if other and _contains(folded, other) and not _contains(base, other):
            of_variant.by_chance += 1


def _contains(text: str, words: str) -> bool:
    """Whether these words stand there as whole words.

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


def _written(value: Any) -> str:
    """An expected answer as a prompt would have it; empty if it stands in prompts by chance."""
    text = canonical(value)
    if _number(text) is not None:
        return text if sum(char.isdigit() for char in text) >= SHORTEST_NUMBER else ""
    return text if len(text) >= SHORTEST_TEXT and not isinstance(value, bool) else ""


def canonical(value: Any) -> str:
    """The same for the same answer, however it is written.

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
