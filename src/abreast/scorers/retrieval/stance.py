"""Decide which names prose claims, rejects, or mentions in passing.

The rules follow the structure of sentences, not their subject: the scope of a negation, the subject of a negated
predicate, the introduction of a list, yes-or-no columns of a table.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import islice

from abreast.scorers.retrieval import lexicon
from abreast.scorers.retrieval.lexicon import QuestionWords
from abreast.scorers.retrieval.mentions import MarkdownUnit, NameMention, Stance, crossed_out, table_cells, tables

MASK = "\ue000"
_LONGEST_SENTENCE = 800
_LONGEST_CLAUSE = 120
_REFERENCE_REACH = 1_000  # characters between a name and a sentence that refers to it
_MOST_SIGNALS = 20  # signals of one kind to read in a sentence
_SENTENCE_END = re.compile(  # a sentence also ends before a line that begins with a label: `Not covered: ...`
    r"[.!?](?=[\s\"')\]*_]|$)|[。！？]|\n(?=[*_]{0,2}[A-Z][a-zA-Z -]{1,40}:[\s*_])"
)
_COORDINATION = re.compile(
    r"[\s,(*_)&/|`'\"]*(?:(?:and|or|nor|then|as well as|und|oder|noch|et|ou|ni|y|o|in|of|from|at|dans|de|和|或|both"
    r"|the)\b[\s(*_`'\"]*){0,3}"
)
_JOINED = re.compile(rf"(?:{_COORDINATION.pattern})|[\s`*_]*(?:→|->|=>|›|>|::|#)[\s`*_]*")
_NEXT_IN_LIST = re.compile(  # another name, after a conjunction or followed by one, by a comma or by the end
    r"[\s*_(`'\"]*(?:(?:and|or|nor|und|oder|et|ou|ni|y|o|和|或)\b[\s*_(`'\"]*"
    rf"{MASK}|{MASK}++(?=[\s)*_`'\"]*(?:[,.;:!?(]|(?:and|or|nor|und|oder|et|ou|ni|y|o|in|of)\b|和|或|$)))"
)
_YES = re.compile(r"\W{0,9}?(?:(?:yes|y|true|ja|oui|sí|x)\b|✓|✔|✅).{0,60}", re.IGNORECASE | re.DOTALL)
_NO = re.compile(r"\W{0,9}?(?:(?:no|n|false|never|not|nein|non)\b|✗|✘|❌|🚫|✖).{0,60}", re.IGNORECASE | re.DOTALL)
_VERDICT_NO = re.compile(r"[\s`*_]*[:–—-]+[\s*_]*(?:no|false|nein|non)\b(?![ -]\w)", re.IGNORECASE)
_SEGMENT = re.compile(r"[.!?](?=\s)\s*|;\s*|[。！？；]|\n(?=\s*(?:\*\*|__))")


def take_stances(
    text: str, units: list[MarkdownUnit], mentions: list[NameMention], masked: str, question: QuestionWords
) -> None:
    """Decide for each mention whether it is claimed; `masked` is the text with names and code blanked out."""
    starts = [mention.start for mention in mentions]

    def within(start: int, end: int) -> list[NameMention]:
        return mentions[bisect_left(starts, start) : bisect_left(starts, end)]

    for start, end in sentences(masked, units):
        inside = within(start, end)
        if inside:
            _Sentence(masked, start, end, inside, question).read()
    _apply_references(text, masked, units, within, question)
    _demote_explanations(masked, units, within, question)
    _apply_introductions(masked, units, within)
    _apply_opposites(masked, units, within, question)
    _apply_tables(text, units, within, question)
    for unit in units:
        if unit.kind == "item":
            _apply_verdict(masked, within(unit.start, unit.end), unit)
    for start, end in crossed_out(text):
        _reject(within(start, end))


def sentences(masked: str, units: list[MarkdownUnit]) -> Iterator[tuple[int, int]]:
    """Yield the sentences of all units but fenced code; very long ones are cut."""
    for unit in units:
        if unit.kind in ("code", "row"):
            continue
        start = unit.start
        for match in _SENTENCE_END.finditer(masked, unit.start, unit.end):
            yield from _pieces(start, match.end())
            start = match.end()
        yield from _pieces(start, unit.end)


def _pieces(start: int, end: int) -> Iterator[tuple[int, int]]:
    for at in range(start, end, _LONGEST_SENTENCE):
        yield at, min(end, at + _LONGEST_SENTENCE)


def _set(mentions: Iterable[NameMention], stance: Stance, firm: bool = False) -> None:
    for mention in mentions:
        mention.set(stance, firm)


def _reject(mentions: Iterable[NameMention]) -> None:
    _set(mentions, Stance.REJECTED, firm=True)


class _Sentence:
    """Applies the negations, contrasts and other signals of one sentence to the names in it."""

    def __init__(self, masked: str, start: int, end: int, mentions: list[NameMention], question: QuestionWords) -> None:
        self.text = masked[start:end]
        self.mentions = mentions
        self.ranges = [self._masked_run(mention.start - start, min(mention.end, end) - start) for mention in mentions]
        self.question = question

    def _masked_run(self, start: int, end: int) -> tuple[int, int]:
        """Extend the range of a name to the inline code around it."""
        return len(self.text[:start].rstrip(MASK)), len(self.text) - len(self.text[end:].lstrip(MASK))

    def read(self) -> None:
        if lexicon.ASIDE.search(self.text):
            _set(self.mentions, Stance.MENTIONED)
        concession = lexicon.CONCESSION.search(self.text)
        if concession:
            reach = self.text.find(",", concession.end())
            _set(self._between(concession.end(), reach if reach >= 0 else len(self.text)), Stance.MENTIONED)
        self._apply_details()
        for match in islice(lexicon.CALLER.finditer(self.text), _MOST_SIGNALS):
            before = self.text[: match.start()].rstrip()
            is_note = not before or before[-1] in "–—-:"  # a note on an entry of a list
            if not is_note and not self.question.asks(match[0]):
                _set(self._subjects(match.start(), 3), Stance.MENTIONED)
        for match in islice(lexicon.DISMISSAL.finditer(self.text), _MOST_SIGNALS):
            begin = max(self.text.rfind(";", 0, match.start()), self.text.rfind(":", 0, match.start()))
            _set(self._between(begin, match.start()), Stance.REJECTED)
        for match in islice(lexicon.DIMINISHER.finditer(self.text), _MOST_SIGNALS):
            self._apply_diminution(match)
        for match in islice(lexicon.NEGATION.finditer(self.text), _MOST_SIGNALS):
            self._apply_negation(match)
        for match in islice(lexicon.EXCLUSION.finditer(self.text), _MOST_SIGNALS):
            self._apply_exclusion(match)
        self._apply_premises()

    def _between(self, start: int, end: int) -> list[NameMention]:
        first = bisect_left(self.ranges, (start, 0))
        last = bisect_left(self.ranges, (end, 0))
        return self.mentions[first:last]

    def _apply_premises(self) -> None:
        """Treat A in `A is built from B, so C runs first` and in `A is set, but B wins` as mentioned."""
        for pattern in (lexicon.PREMISE_END, lexicon.OVERRULED):
            match = pattern.search(self.text)
            if match is None:
                continue
            begin = match.end() if pattern is lexicon.PREMISE_END else match.start()
            later = self._between(begin, len(self.text))
            concluded = {mention.kind for mention in later if mention.stance is Stance.CLAIMED}
            premises = self._between(0, match.start())
            _set([mention for mention in premises if mention.kind in concluded], Stance.MENTIONED)

    def _apply_details(self) -> None:
        """Treat objects of verbs such as `calls` as mentioned, unless the question has the verb."""
        carried, previous_end = False, 0
        kinds: set[str] = set()
        for mention, (start, end) in zip(self.mentions, self.ranges, strict=True):
            before = lexicon.DETAIL_END.split(self.text[max(0, start - lexicon.DETAIL_REACH) : start])[-1]
            match = lexicon.DETAIL.search(before)
            is_detail = match is not None and (not self.question.asks(match[0]) or self.question.has_word(mention.name))
            if match is None and mention.kind in kinds and lexicon.MEANS.search(before):
                is_detail = True
            elif carried and match is None:
                is_detail = _COORDINATION.fullmatch(self.text, previous_end, start) is not None
            if is_detail:
                mention.set(Stance.MENTIONED)
            carried, previous_end = is_detail, end
            kinds.add(mention.kind)

    def _apply_exclusion(self, match: re.Match[str]) -> None:
        """Reject X in `rather than X`; claim it after a negation: `in no file except X`."""
        clause = max(self.text.rfind(mark, 0, match.start()) for mark in ".;:,")
        is_double = any(lexicon.NEGATION.finditer(self.text, clause + 1, match.start())) or lexicon.NO_OTHER.search(
            self.text, clause + 1, match.start()
        )
        stance = Stance.CLAIMED if is_double else Stance.REJECTED
        _set(self._between(match.end(), self._scope_end(match.end())), stance, firm=True)

    def _apply_negation(self, match: re.Match[str]) -> None:
        begin, end = match.span()
        reach = self._scope_end(end, leading=not self.text[:begin].strip(" *_#\n\t-"))
        if objects := self._between(end, reach):
            gap = self.text[end:reach].split(MASK, 1)[0]
            _set(objects, Stance.REJECTED, firm=len(gap.split()) <= 3)
        predicate = self.text[end : self._clause_end(end)]
        is_denial = lexicon.ANSWER.search(predicate) is not None
        if is_denial or self.question.asks(predicate) or not lexicon.WORD.search(predicate.replace(MASK, "x" * 4)):
            _set(self._subjects(begin, 6), Stance.REJECTED, firm=is_denial)

    def _apply_diminution(self, match: re.Match[str]) -> None:
        """Reject X in `X merely receives it`, unless the question has the verb."""
        verb = match["verb"] or ""
        if verb.lower() in lexicon.NOT_VERBS or self.question.asks(verb):
            return
        subjects = self._subjects(match.start(), 3)
        if subjects:
            _set(subjects, Stance.REJECTED)
            _set(self._between(match.end(), self._clause_end(match.end())), Stance.MENTIONED)

    def _subjects(self, verb: int, longest: int) -> list[NameMention]:
        """Return the subjects of a verb: the names right before it, or those that a pronoun refers to."""
        index = bisect_left(self.ranges, (verb, 0)) - 1
        if index >= 0:
            gap = self.text[self.ranges[index][1] : verb]
            if len(gap.split()) <= longest and not lexicon.CLAUSE.search(gap):
                first = index
                while first and _JOINED.fullmatch(self.text, self.ranges[first - 1][1], self.ranges[first][0]):
                    first -= 1
                return self.mentions[first : index + 1]
        if lexicon.ELLIPSIS.search(self.text[:verb]):
            clause = max(self.text.rfind(";", 0, verb), self.text.rfind(":", 0, verb))
            return self._between(clause + 1, verb)[:1]
        boundaries = [match.end() for match in lexicon.BOUNDARY.finditer(self.text, max(0, verb - 60), verb)]
        if boundaries and lexicon.PRONOUN.fullmatch(self.text, boundaries[-1], verb):
            return self._between(0, boundaries[-1])
        return []

    def _clause_end(self, start: int) -> int:
        end = min(len(self.text), start + _LONGEST_CLAUSE)
        match = lexicon.CLAUSE.search(self.text, start, end)
        return match.start() if match else end

    def _scope_end(self, start: int, leading: bool = False) -> int:
        """Return where a negation ends: at the next clause, or at a comma that no other name follows."""
        for match in lexicon.SCOPE.finditer(self.text, start):
            if match[0] == ",":
                if not (self._between(start, match.start()) and _NEXT_IN_LIST.match(self.text, match.end())):
                    return match.start()
            elif not (match[0] == ":" and leading and not self._between(start, match.start())):
                return match.start()
        return len(self.text)


def _apply_verdict(masked: str, inside: list[NameMention], item: MarkdownUnit) -> None:
    """Reject the names in `- a.py: no`."""
    if inside and _VERDICT_NO.match(masked[inside[-1].end : item.end].lstrip(MASK)):
        _reject(inside)


def _demote_explanations(
    masked: str, units: list[MarkdownUnit], within: lexicon.Within, question: QuestionWords
) -> None:
    """After the first claim of a kind, names in sentences that neither take up the question nor add to the answer are
    mentioned. The items of a list are judged by what precedes the list."""
    answered: set[str] = set()
    before_list: set[str] = set()
    previous = ""
    for unit in units:
        if unit.kind == "heading":
            answered.clear()
        if unit.kind not in ("item", "row") or previous != unit.kind:
            before_list = set(answered)
        for start, end in _segments(masked, unit):
            inside = within(start, end)
            if not inside:
                continue
            segment = masked[start:end]
            is_entry = unit.kind in ("item", "row", "heading") or segment.startswith(("**", "__"))
            answered_kinds = before_list if is_entry else answered
            adds = question.asks(segment) or lexicon.ADDITIVE.search(segment) is not None
            if lexicon.EXPLANATION.match(segment):
                answered_kinds, adds = answered_kinds | answered, False
            if not adds:
                _set((mention for mention in inside if mention.kind in answered_kinds), Stance.MENTIONED)
            answered.update(mention.kind for mention in inside if mention.stance is Stance.CLAIMED)
        previous = unit.kind


def _segments(masked: str, unit: MarkdownUnit) -> Iterator[tuple[int, int]]:
    """Yield sentences, split at semicolons and at lines that begin in bold."""
    if unit.kind == "code":
        return
    start = unit.start
    for match in _SEGMENT.finditer(masked, unit.start, unit.end):
        yield start, match.end()
        start = match.end()
    yield start, unit.end


def _apply_introductions(masked: str, units: list[MarkdownUnit], within: lexicon.Within) -> None:
    """Apply the stance of a heading or `...:` line to the list, table or code below it."""
    heading: Stance | None = None
    introduction: Stance | None = None
    for unit in units:
        if unit.kind == "heading":
            heading, introduction = _read_introduction(masked[unit.start : unit.end]), None
        elif unit.kind == "text":
            text = masked[unit.start : unit.end].rstrip()
            introduction = _read_introduction(re.split(r"[.!?]\s", text)[-1]) if text.endswith((":", "：")) else None
        stance = introduction or heading
        if stance is not None and (unit.kind != "text" or introduction is None):
            _set(within(unit.start, unit.end), stance, firm=stance is Stance.REJECTED)


def _read_introduction(text: str) -> Stance | None:
    clause = re.split(r"\bbut\b|;|\baber\b|\bmais\b", text.split("(")[0])[-1]
    if any(lexicon.NEGATION.finditer(clause)):
        return Stance.REJECTED
    return Stance.MENTIONED if lexicon.CONSIDERED.search(text) else None


def _apply_opposites(masked: str, units: list[MarkdownUnit], within: lexicon.Within, question: QuestionWords) -> None:
    """Reject `Incomplete: a.json, b.json` if the question asks what is complete."""
    for unit in units:
        for match in lexicon.OPPOSITE.finditer(masked, unit.start, unit.end) if unit.kind != "code" else ():
            end = masked.find("\n", match.end(), unit.end)
            if question.asks(match["word"]):
                _reject(within(match.end(), end if end >= 0 else unit.end))


_ORDINALS = {"first": 0, "former": 0, "second": 1, "third": 2, "last": -1, "latter": -1}


def _apply_references(
    text: str, masked: str, units: list[MarkdownUnit], within: lexicon.Within, question: QuestionWords
) -> None:
    """Apply sentences that refer to earlier names: `it's the first`, `the last one doesn't count`, `that's the one`."""
    entries: list[list[NameMention]] = []  # entries of the latest list or code block
    previous = ""
    for unit in units:
        inside = within(unit.start, unit.end)
        if unit.kind in ("item", "row", "code"):
            if previous != unit.kind:
                entries = []
            entries += _lines_of(text, inside) if unit.kind == "code" else [inside] if inside else []
        elif unit.kind == "text":
            for start, end in _segments(masked, unit):
                if not within(start, end):
                    _refer(masked[start:end], entries, within(start - _REFERENCE_REACH, start), question)
        previous = unit.kind


def _lines_of(text: str, inside: list[NameMention]) -> list[list[NameMention]]:
    lines: dict[int, list[NameMention]] = {}
    for mention in inside:
        lines.setdefault(text.rfind("\n", 0, mention.start), []).append(mention)
    return list(lines.values())


def _refer(
    sentence: str, entries: list[list[NameMention]], earlier: list[NameMention], question: QuestionWords
) -> None:
    ordinal = lexicon.ORDINAL.search(sentence)
    if ordinal and len(entries) > 1:
        at = _ORDINALS[ordinal["which"].lower()]
        chosen = entries[at] if at < len(entries) else []
        is_chosen = lexicon.CHOICE.search(sentence[: ordinal.start()]) or question.asks(ordinal["predicate"])
        if any(lexicon.NEGATION.finditer(ordinal["predicate"])) or lexicon.DISMISSAL.search(ordinal["predicate"]):
            rejected = chosen
        elif chosen and is_chosen:
            rejected = [mention for entry in entries if entry is not chosen for mention in entry]
        else:
            rejected = []
        _reject(rejected)
    elif earlier and (reference := lexicon.BACK_REFERENCE.match(sentence)):
        predicate = sentence[reference.end() :]
        if any(lexicon.NEGATION.finditer(predicate)) or not (reference["is"] or question.asks(predicate)):
            return
        for kind in ("path", "symbol"):
            own = [mention for mention in earlier if mention.kind == kind]
            if own and own[-1].stance is not Stance.REJECTED:
                own[-1].set(Stance.CLAIMED, firm=True)
                _set((mention for mention in own if mention.name != own[-1].name), Stance.MENTIONED)


def _apply_tables(text: str, units: list[MarkdownUnit], within: lexicon.Within, question: QuestionWords) -> None:
    """Reject rows with a no in a yes-or-no column; of several such columns, in those that the question is about."""
    for rows in tables(text, units):
        if len(rows) < 2:
            continue
        header = [cell for _, cell in table_cells(text, rows[0])]
        body = [[cell for _, cell in table_cells(text, row)] for row in rows[1:]]
        verdicts = [
            column
            for column in range(len(header))
            if all(column < len(row) and (_YES.fullmatch(row[column]) or _NO.fullmatch(row[column])) for row in body)
        ]
        relevant = [column for column in verdicts if question.asks(header[column])]
        for row, cells in zip(rows[1:], body, strict=True):
            if any(_NO.fullmatch(cells[column]) for column in (relevant or verdicts)):
                _reject(within(row.start, row.end))
