"""What an answer about code claims: files, symbols and lines, from a JSON object in it or from its prose."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from abreast.scorers.retrieval import lexicon
from abreast.scorers.retrieval.lexicon import Question
from abreast.scorers.retrieval.listed import FIELDS, MOST, fields_of, items, lines_in, places_in, spans_in, symbols_in
from abreast.scorers.retrieval.mentions import (
    Mention,
    Stance,
    Unit,
    cells_of,
    code_spans,
    path_mentions,
    symbol_mentions,
    tables_of,
    units_of,
)
from abreast.scorers.retrieval.names import LONGEST_NAME, Place, Span, ends
from abreast.scorers.retrieval.stance import MASK, take_stances


@dataclass(frozen=True, slots=True)
class Named:
    """Things of one kind that prose names: those it claims, and those it mentions in passing."""

    claimed: tuple[Place, ...]
    mentioned: tuple[Place, ...]


def read_prose(text: str, known: Callable[[str], bool], asked: str, symbols: Iterable[str]) -> tuple[Named, Named]:
    """The files and the symbols that prose names. `known` tells which words are paths although they do not look it;
    `symbols` are the names that count even where they are not marked as code."""
    units = units_of(text)
    paths = path_mentions(text, known, asked, units)
    names = symbol_mentions(text, asked, symbols, units)
    _bind_line_columns(text, units, paths)
    mentions = sorted((*paths, *names), key=lambda mention: mention.start)
    masked = _mask(text, units, mentions)
    take_stances(text, units, mentions, masked, Question(asked))
    _apply_nothing_found(masked, mentions)
    for kind in (paths, names):
        _prefer_prose(kind, units)
    files = _resolve(_after_conclusion(masked, paths), "/")
    return files, _resolve(_after_conclusion(masked, names), ".")


def _mask(text: str, units: list[Unit], mentions: list[Mention]) -> str:
    """The text with names, inline code and fenced code blanked out, at the same places."""
    parts: list[str] = []
    position = 0
    ranges = [(mention.start, mention.end, MASK) for mention in mentions]
    ranges += [(start, end, MASK) for start, end, _ in code_spans(text)]
    ranges += [(unit.start, unit.end, "\n") for unit in units if unit.kind == "code"]
    for start, end, filler in sorted(ranges, key=lambda each: (each[0], -each[1])):
        if end > position:
            begin = max(start, position)
            parts += [text[position:begin], filler * (end - begin)]
            position = end
    return "".join((*parts, text[position:]))


def _bind_line_columns(text: str, units: list[Unit], paths: list[Mention]) -> None:
    """Give the numbers of a column headed `Line` to the file of their row."""
    starts = [mention.start for mention in paths]
    for rows in tables_of(text, units):
        header = [cell.strip(" *`").lower() for _, cell in cells_of(text, rows[0])] if rows else []
        columns = [
            index
            for index, cell in enumerate(header)
            if cell.rstrip("s(). #") in ("line", "line number", "zeile", "ligne")
        ]
        for row in rows[1:] if columns else ():
            inside = paths[bisect(starts, row.start - 1) : bisect(starts, row.end - 1)]
            cells = cells_of(text, row)
            for column in columns:
                if inside and column < len(cells):
                    new = spans_in(cells[column][1].strip(" *`"))
                    inside[0].spans += [span for span in new if span not in inside[0].spans]


def _apply_nothing_found(masked: str, mentions: list[Mention]) -> None:
    """An answer that begins by saying there is none claims nothing but what it offers as a guess."""
    if lexicon.NOTHING_FOUND.match(masked[:300]):
        for mention in mentions:
            if not lexicon.GUESS.search(masked[max(0, mention.start - 90) : mention.start]):
                mention.set(Stance.REJECTED)


def _prefer_prose(mentions: list[Mention], units: list[Unit]) -> None:
    """Where sentences make a claim, fenced code only illustrates it."""
    blocks = [unit for unit in units if unit.kind == "code"]
    starts = [block.start for block in blocks]
    quoted = {
        mention
        for mention in mentions
        if (index := bisect(starts, mention.start) - 1) >= 0 and mention.start < blocks[index].end
    }
    if any(mention.stance is Stance.CLAIMED for mention in mentions if mention not in quoted):
        for mention in quoted:
            mention.set(Stance.MENTIONED)


def _after_conclusion(masked: str, own: list[Mention]) -> list[Mention]:
    """Drop what precedes the last conclusion or correction that makes a claim of this kind; lines of the files that it
    repeats are kept."""
    marks = [match.end() for pattern in (lexicon.CONCLUSION, lexicon.CORRECTION) for match in pattern.finditer(masked)]
    claims = [mention.start for mention in own if mention.stance is Stance.CLAIMED]
    mark = max((mark for mark in marks if claims and claims[-1] >= mark), default=0)
    later = [mention for mention in own if mention.start >= mark]
    by_name = {mention.name: mention for mention in later if mention.stance is not Stance.REJECTED}
    for mention in own:
        if mention.start < mark and mention.name in by_name and mention.stance is not Stance.REJECTED:
            by_name[mention.name].spans += mention.spans
    return later


def _resolve(mentions: list[Mention], separator: str) -> Named:
    """The final stance on each thing: the last firm one, else the first that is not only a mention."""
    full = _full_names({mention.name for mention in mentions}, separator)
    states: dict[str, tuple[Stance, bool]] = {}
    for mention in mentions:
        name = full[mention.name]
        stance, firm = states.get(name, (Stance.MENTIONED, False))
        if mention.firm or (not firm and stance is Stance.MENTIONED):
            states[name] = mention.stance, mention.firm
    claimed: list[Place] = []
    mentioned: list[Place] = []
    for mention in mentions:
        stance, _ = states[full[mention.name]]
        if stance is Stance.REJECTED:
            continue
        places = claimed if stance is Stance.CLAIMED else mentioned
        places.append((mention.name, None))
        if mention.stance is not Stance.REJECTED:
            lines = claimed if stance is mention.stance is Stance.CLAIMED else mentioned
            lines += [(mention.name, span) for span in mention.spans]
    return Named(tuple(dict.fromkeys(claimed)), tuple(dict.fromkeys(mentioned)))


def _full_names(names: set[str], separator: str) -> dict[str, str]:
    """Each name with the one longer name that ends in it, if there is exactly one: `b.py` is `a/b.py`."""
    longer: dict[str, list[str]] = {}
    for name in sorted(names):
        for end in ends(name, separator):
            if end in names:
                longer.setdefault(end, []).append(name)
    return {name: found[0] if len(found := longer.get(name, [])) == 1 else name for name in names}


@dataclass(frozen=True, slots=True)
class Claims:
    """What is claimed, each thing once. `listed` are the fields that stand in a JSON object of the answer; `mentioned`
    is what prose names in passing: it counts if it is right, and is not wrong otherwise."""

    files: tuple[str, ...]
    symbols: tuple[str, ...]
    lines: tuple[tuple[str, Span], ...]
    content: tuple[str, ...] = ()
    listed: frozenset[str] = frozenset()
    mentioned: Claims | None = None


def claims_in(text: str, value: Any, known: Callable[[str], bool], asked: str, symbols: Iterable[str] = ()) -> Claims:
    """What an answer claims. Of JSON objects the last one that has one of FIELDS counts, or all that are single places;
    what they leave out is read from the prose. There, `known` tells which words are paths although they do not look it,
    `symbols` are names that count even where they are not marked as code, and what the question (`asked`) names itself
    is not a claim."""
    given = fields_of(text, value)
    files = list(places_in(given.get("files")))
    lines = list(lines_in(given.get("lines"), files))
    spans = [place for place in (*files, *lines) if place[1] is not None]
    prose_files, prose_symbols = read_prose(text, known, asked, symbols)
    mentioned: list[Place] = []
    if "lines" not in given and not spans:
        spans = [place for place in prose_files.claimed if place[1] is not None]
        mentioned = list(prose_files.mentioned)
        if "files" in given:
            paths = {path for path, _ in files}
            spans, mentioned = _of_these(spans, paths), _of_these(mentioned, paths)
        else:
            files = list(prose_files.claimed)
    names = symbols_in(given["symbols"]) if "symbols" in given else [name for name, _ in prose_symbols.claimed]
    aside = () if "symbols" in given else (name for name, _ in prose_symbols.mentioned)
    return Claims(
        files=_once(path for path, _ in (*files, *lines)),
        symbols=_once(names),
        lines=_spans(spans),
        content=tuple(item for item in items(given.get("content")) if isinstance(item, str)),
        listed=frozenset(given.keys() & set(FIELDS)),
        mentioned=Claims(files=_once(path for path, _ in mentioned), symbols=_once(aside), lines=_spans(mentioned)),
    )


def _spans(places: Iterable[Place]) -> tuple[tuple[str, Span], ...]:
    return tuple(dict.fromkeys((path, span) for path, span in places if span is not None))[:MOST]


def _once(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for name in names if 0 < len(name) <= LONGEST_NAME))[:MOST]


def _of_these(places: list[Place], paths: set[str]) -> list[Place]:
    """Places in these files, as far as both say which they are."""
    shorter = {end for path in paths for end in ends(path, "/")}
    same = {path: path in paths or path in shorter or not paths.isdisjoint(ends(path, "/")) for path, _ in places}
    return [place for place in places if same[place[0]]]
