"""Which of the things that prose names it claims, and which it rules out or mentions in passing.

The rules follow how sentences are built, not what they are about: what a negation reaches, whose predicate is negated,
what an introduction says of its list, what a yes-or-no column says of a row, and what a conclusion leaves behind.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from itertools import islice

from abreast.scorers.retrieval import lexicon
from abreast.scorers.retrieval.lexicon import Question
from abreast.scorers.retrieval.mentions import Mention, Stance, Unit, cells_of, struck_out, tables_of

MASK = "\ue000"
_LONGEST_SENTENCE = 800
_LONGEST_CLAUSE = 120
_REFERENCE_REACH = 1_000  # characters between a name and a sentence that refers to it
_MOST_SIGNALS = 20  # of one kind in a sentence
_SENTENCE_END = re.compile(  # also before a line that begins with a label, as in `Not covered: ...`
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
_CROSS = re.compile("[❌✗✘✖🚫⛔]")


def take_stances(text: str, units: list[Unit], mentions: list[Mention], masked: str, question: Question) -> None:
    """Decide for each mention whether it is claimed; `masked` is the text with names and code blanked out."""
    starts = [mention.start for mention in mentions]

    def within(start: int, end: int) -> list[Mention]:
        return mentions[bisect_left(starts, start) : bisect_left(starts, end)]

    for start, end in sentences(masked, units):
        inside = within(start, end)
        if inside:
            _Sentence(masked, start, end, inside, question).read()
    _apply_references(text, masked, units, mentions, question)
    _demote_explanations(masked, units, within, question)
    _apply_introductions(masked, units, within)
    _apply_opposites(masked, units, within, question)
    _apply_tables(text, units, within, question)
    for unit in units:
        if unit.kind == "item":
            _apply_verdict(masked, within(unit.start, unit.end), unit)
        if unit.kind in ("item", "row", "text") and _CROSS.search(text, unit.start, unit.end):
            _reject_crossed(text, unit, within(unit.start, unit.end))
    for start, end in struck_out(text):
        for mention in within(start, end):
            mention.set(Stance.REJECTED, firm=True)


def sentences(masked: str, units: list[Unit]) -> Iterator[tuple[int, int]]:
    """The sentences of all units but fenced code; very long ones are cut."""
    for unit in units:
        if unit.kind in ("code", "row"):
            continue
        start = unit.start
        for match in _SENTENCE_END.finditer(masked, unit.start, unit.end):
            if match[0] == "." and lexicon.ABBREVIATION.search(masked, max(start, match.start() - 6), match.start()):
                continue
            yield from _pieces(start, match.end())
            start = match.end()
        yield from _pieces(start, unit.end)


def _pieces(start: int, end: int) -> Iterator[tuple[int, int]]:
    for at in range(start, end, _LONGEST_SENTENCE):
        yield at, min(end, at + _LONGEST_SENTENCE)


def _reject_crossed(text: str, unit: Unit, inside: list[Mention]) -> None:
    """Reject what stands in a line that is marked with a cross."""
    for mention in inside:
        line = text.rfind("\n", unit.start, mention.start) + 1 or unit.start
        end = text.find("\n", mention.end, unit.end)
        if _CROSS.search(text, line, end if end >= 0 else unit.end):
            mention.set(Stance.REJECTED, firm=True)


class _Sentence:
    """One sentence: what its negations, contrasts and other signals say of the things it names."""

    def __init__(self, masked: str, start: int, end: int, mentions: list[Mention], question: Question) -> None:
        self.text = masked[start:end]
        self.mentions = mentions
        self.places = [self._masked_run(mention.start - start, min(mention.end, end) - start) for mention in mentions]
        self.question = question

    def _masked_run(self, start: int, end: int) -> tuple[int, int]:
        """A name with the rest of the code that it stands in."""
        left = len(self.text[:start].rstrip(MASK))
        right = len(self.text) - len(self.text[end:].lstrip(MASK))
        return left, right

    def read(self) -> None:
        if lexicon.ASIDE.search(self.text):
            for mention in self.mentions:
                mention.set(Stance.MENTIONED)
        concession = lexicon.CONCESSION.search(self.text)
        if concession:
            reach = self.text.find(",", concession.end())
            self._set(self._between(concession.end(), reach if reach >= 0 else len(self.text)), Stance.MENTIONED)
        self._details()
        for match in islice(lexicon.CALLER.finditer(self.text), _MOST_SIGNALS):
            before = self.text[: match.start()].rstrip()
            is_note = not before or before[-1] in "–—-:"  # of an entry in a list
            if not is_note and not self.question.asks(match[0]):
                self._set(self._subjects(match.start(), 3), Stance.MENTIONED)
        for match in islice(lexicon.DISMISSAL.finditer(self.text), _MOST_SIGNALS):
            begin = max(self.text.rfind(";", 0, match.start()), self.text.rfind(":", 0, match.start()))
            self._set(self._between(begin, match.start()), Stance.REJECTED)
        for match in islice(lexicon.DIMINISHER.finditer(self.text), _MOST_SIGNALS):
            self._diminished(match)
        for match in islice(lexicon.EXCLUSION.finditer(self.text), _MOST_SIGNALS):
            self._excluded(match)
        for match in islice(lexicon.NEGATION.finditer(self.text), _MOST_SIGNALS):
            self._negated(match)
        self._premises()

    def _between(self, start: int, end: int) -> list[Mention]:
        first = bisect_left(self.places, (start, 0))
        last = bisect_left(self.places, (end, 0))
        return self.mentions[first:last]

    @staticmethod
    def _set(mentions: list[Mention], stance: Stance, firm: bool = False) -> None:
        for mention in mentions:
            mention.set(stance, firm)

    def _premises(self) -> None:
        """`A is built from B, so C runs first`: what leads to a conclusion of the same kind is mentioned, and so is
        what another thing overrules."""
        for pattern in (lexicon.PREMISE_END, lexicon.OVERRULED):
            match = pattern.search(self.text)
            if match is None:
                continue
            begin = match.end() if pattern is lexicon.PREMISE_END else match.start()
            later = self._between(begin, len(self.text))
            concluded = {mention.kind for mention in later if mention.stance is Stance.CLAIMED}
            premises = self._between(0, match.start())
            self._set([mention for mention in premises if mention.kind in concluded], Stance.MENTIONED)

    def _details(self) -> None:
        """Objects of verbs such as `calls` and `returns` describe the answer; they are it only if the question asks."""
        carried, previous_end = False, 0
        named: set[str] = set()
        for mention, (start, end) in zip(self.mentions, self.places, strict=True):
            before = lexicon.DETAIL_END.split(self.text[max(0, start - lexicon.DETAIL_REACH) : start])[-1]
            match = lexicon.DETAIL.search(before)
            is_detail = match is not None and (not self.question.asks(match[0]) or self.question.has_word(mention.name))
            if match is None and mention.kind in named and lexicon.MEANS.search(before):
                is_detail = True
            elif carried and match is None:
                is_detail = _COORDINATION.fullmatch(self.text, previous_end, start) is not None
            if is_detail:
                mention.set(Stance.MENTIONED)
            carried, previous_end = is_detail, end
            named.add(mention.kind)

    def _excluded(self, match: re.Match[str]) -> None:
        """`rather than X`, `unlike X and Y`; after a negation (`in no file except X`) it is a claim."""
        clause = max(self.text.rfind(mark, 0, match.start()) for mark in ".;:,")
        is_double = any(lexicon.NEGATION.finditer(self.text, clause + 1, match.start())) or lexicon.NO_OTHER.search(
            self.text, clause + 1, match.start()
        )
        stance = Stance.CLAIMED if is_double else Stance.REJECTED
        self._set(self._between(match.end(), self._scope_end(match.end())), stance, firm=True)

    def _negated(self, match: re.Match[str]) -> None:
        begin, end = match.span()
        reach = self._scope_end(end, leading=not self.text[:begin].strip(" *_#\n\t-"))
        exception = lexicon.EXCEPTION.search(self.text, end, reach)
        objects = self._between(end, exception.start() if exception else reach)
        if objects:
            gap = self.text[end:reach].split(MASK, 1)[0]
            self._set(objects, Stance.REJECTED, firm=len(gap.split()) <= 3)
            after = lexicon.REPLACEMENT.match(self.text, reach)
            if after:
                self._set(self._between(after.end(), self._scope_end(after.end())), Stance.CLAIMED, firm=True)
        predicate = self.text[end : self._clause_end(end)]
        is_denial = lexicon.ANSWER.search(predicate) is not None
        if is_denial or self.question.asks(predicate) or not lexicon.WORD.search(predicate.replace(MASK, "x" * 4)):
            self._set(self._subjects(begin, 6), Stance.REJECTED, firm=is_denial)

    def _diminished(self, match: re.Match[str]) -> None:
        """`X merely receives it`: X is not the answer, unless the verb is the question's own."""
        verb = match["verb"] or ""
        if verb.lower() in lexicon.NOT_VERBS or self.question.asks(verb):
            return
        subjects = self._subjects(match.start(), 3)
        if subjects:
            self._set(subjects, Stance.REJECTED)
            self._set(self._between(match.end(), self._clause_end(match.end())), Stance.MENTIONED)

    def _subjects(self, verb: int, longest: int) -> list[Mention]:
        """What a predicate at this place is about: the names right before it, or those a pronoun refers to."""
        index = bisect_left(self.places, (verb, 0)) - 1
        if index >= 0:
            gap = self.text[self.places[index][1] : verb]
            if len(gap.split()) <= longest and not lexicon.CLAUSE.search(gap):
                first = index
                while first and _JOINED.fullmatch(self.text, self.places[first - 1][1], self.places[first][0]):
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
        """Where a negation ends: at the next clause, or at a comma that is not followed by another name."""
        depth = 0
        for match in lexicon.SCOPE.finditer(self.text, start):
            if match[0] == "(":
                depth += 1
            elif match[0] == ")":
                depth -= 1
                if depth < 0:
                    return match.start()
            elif match[0] == ",":
                if not (self._between(start, match.start()) and _NEXT_IN_LIST.match(self.text, match.end())):
                    return match.start()
            elif not (match[0] == ":" and leading and not self._between(start, match.start())):
                return match.start()
        return len(self.text)


def _apply_verdict(masked: str, inside: list[Mention], item: Unit) -> None:
    """`- a.py: no`: the item is ruled out."""
    if inside and _VERDICT_NO.match(masked[inside[-1].end : item.end].lstrip(MASK)):
        for mention in inside:
            mention.set(Stance.REJECTED, firm=True)


def _demote_explanations(masked: str, units: list[Unit], within: lexicon.Within, question: Question) -> None:
    """Once something is claimed, a later sentence that neither speaks of what is asked nor adds to the answer explains
    it: what it names is mentioned. Items of one list are judged by what precedes the list."""
    answered: set[str] = set()
    before: set[str] = set()
    leads = False
    previous = ""
    for unit in units:
        text = masked[unit.start : unit.end]
        if unit.kind == "heading":
            answered.clear()
        if unit.kind not in ("item", "row") or previous != unit.kind:
            before = set(answered)
        if unit.kind not in ("item", "row"):
            leads = unit.kind == "text" and text.rstrip().endswith(":") and question.asks(_SEGMENT.split(text)[-1])
        for start, end in _segments(masked, unit):
            inside = within(start, end)
            if not inside:
                continue
            segment = masked[start:end]
            is_entry = unit.kind in ("item", "row", "heading") or segment.startswith(("**", "__"))
            known = before if is_entry else answered
            adds = question.asks(segment) or lexicon.ADDITIVE.search(segment) or (is_entry and leads)
            if lexicon.EXPLANATION.match(segment):
                known, adds = known | answered, False
            for mention in inside:
                if mention.kind in known and not adds:
                    mention.set(Stance.MENTIONED)
            answered.update(mention.kind for mention in inside if mention.stance is Stance.CLAIMED)
        previous = unit.kind


def _segments(masked: str, unit: Unit) -> Iterator[tuple[int, int]]:
    """Sentences, their parts between semicolons, and lines that begin in bold."""
    if unit.kind == "code":
        return
    start = unit.start
    for match in _SEGMENT.finditer(masked, unit.start, unit.end):
        yield start, match.end()
        start = match.end()
    yield start, unit.end


def _apply_introductions(masked: str, units: list[Unit], within: lexicon.Within) -> None:
    """Carry what a heading or `...:` line says over to the list, table or code below it."""
    heading: Stance | None = None
    introduction: Stance | None = None
    for index, unit in enumerate(units):
        if unit.kind == "heading":
            heading, introduction = _introduced(masked[unit.start : unit.end]), None
        elif unit.kind == "text":
            text = masked[unit.start : unit.end].rstrip()
            leads = text.endswith((":", "：")) and index + 1 < len(units) and units[index + 1].kind != "text"
            introduction = _introduced(re.split(r"[.!?]\s", text)[-1]) if leads else None
        stance = introduction or heading
        if stance is not None and (unit.kind != "text" or introduction is None):
            for mention in within(unit.start, unit.end):
                mention.set(stance, firm=stance is Stance.REJECTED)


def _introduced(text: str) -> Stance | None:
    clause = re.split(r"\bbut\b|;|\baber\b|\bmais\b", text.split("(")[0])[-1]
    if any(lexicon.NEGATION.finditer(clause)):
        return Stance.REJECTED
    return Stance.MENTIONED if lexicon.CONSIDERED.search(text) else None


def _apply_opposites(masked: str, units: list[Unit], within: lexicon.Within, question: Question) -> None:
    """`Incomplete: a.json, b.json` where the question asks for what is complete: the line is ruled out."""
    for unit in units:
        for match in lexicon.OPPOSITE.finditer(masked, unit.start, unit.end) if unit.kind != "code" else ():
            end = masked.find("\n", match.end(), unit.end)
            if question.asks(match["word"]):
                for mention in within(match.end(), end if end >= 0 else unit.end):
                    mention.set(Stance.REJECTED, firm=True)


_ORDINALS = {"first": 0, "former": 0, "second": 1, "third": 2, "last": -1, "latter": -1}


def _apply_references(text: str, masked: str, units: list[Unit], mentions: list[Mention], question: Question) -> None:
    """Sentences without names that speak of those before them: `it's the first`, `the last one doesn't count`,
    `so that's the one`."""
    entries: list[list[Mention]] = []  # of the list or listing that comes before
    starts = [mention.start for mention in mentions]
    previous = ""
    for unit in units:
        inside = mentions[bisect_left(starts, unit.start) : bisect_left(starts, unit.end)]
        if unit.kind in ("item", "row", "code"):
            if previous != unit.kind:
                entries = []
            entries += _lines_of(text, inside) if unit.kind == "code" else [inside] if inside else []
        elif unit.kind == "text":
            for start, end in _segments(masked, unit):
                first = bisect_left(starts, start)
                if first == bisect_left(starts, end):
                    earlier = mentions[bisect_left(starts, start - _REFERENCE_REACH) : first]
                    _refer(masked[start:end], entries, earlier, question)
        previous = unit.kind


def _lines_of(text: str, inside: list[Mention]) -> list[list[Mention]]:
    lines: dict[int, list[Mention]] = {}
    for mention in inside:
        lines.setdefault(text.rfind("\n", 0, mention.start), []).append(mention)
    return list(lines.values())


def _refer(sentence: str, entries: list[list[Mention]], earlier: list[Mention], question: Question) -> None:
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
        for mention in rejected:
            mention.set(Stance.REJECTED, firm=True)
    elif earlier and (reference := lexicon.BACK_REFERENCE.match(sentence)):
        predicate = sentence[reference.end() :]
        if any(lexicon.NEGATION.finditer(predicate)) or not (reference["is"] or question.asks(predicate)):
            return
        for kind in ("path", "symbol"):
            own = [mention for mention in earlier if mention.kind == kind]
            if own and own[-1].stance is not Stance.REJECTED:
                own[-1].set(Stance.CLAIMED, firm=True)
                for mention in own[:-1]:
                    if mention.name != own[-1].name:
                        mention.set(Stance.MENTIONED)


def _apply_tables(text: str, units: list[Unit], within: lexicon.Within, question: Question) -> None:
    """Reject the rows that say no in a yes-or-no column; if there are several such columns, in the one asked about."""
    for rows in tables_of(text, units):
        if len(rows) < 2:
            continue
        header = [cell for _, cell in cells_of(text, rows[0])]
        body = [[cell for _, cell in cells_of(text, row)] for row in rows[1:]]
        verdicts = [
            column
            for column in range(len(header))
            if all(column < len(row) and (_YES.fullmatch(row[column]) or _NO.fullmatch(row[column])) for row in body)
        ]
        asked = [column for column in verdicts if question.asks(header[column])]
        for row, cells in zip(rows[1:], body, strict=True):
            if any(_NO.fullmatch(cells[column]) for column in (asked or verdicts)):
                for mention in within(row.start, row.end):
                    mention.set(Stance.REJECTED, firm=True)
