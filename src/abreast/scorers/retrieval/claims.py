"""The files, symbols and lines that an answer claims, in a JSON object or in prose."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from abreast.scorers.retrieval import lexicon
from abreast.scorers.retrieval.json_fields import (
    FIELDS,
    MOST,
    as_list,
    parse_fields,
    parse_lines,
    parse_locations,
    parse_spans,
    parse_symbols,
)
from abreast.scorers.retrieval.lexicon import QuestionWords
from abreast.scorers.retrieval.mentions import (
    MarkdownUnit,
    NameMention,
    Stance,
    code_spans,
    markdown_units,
    path_mentions,
    symbol_mentions,
    table_cells,
    tables,
)
from abreast.scorers.retrieval.names import LONGEST_NAME, Location, Span, ends
from abreast.scorers.retrieval.stance import MASK, take_stances


@dataclass(frozen=True, slots=True)
class ProseNames:
    """Files or symbols that prose claims, and those it mentions in passing."""

    claimed: tuple[Location, ...]
    mentioned: tuple[Location, ...]


def read_prose(
    text: str, is_path: Callable[[str], bool], question: str, symbols: Iterable[str]
) -> tuple[ProseNames, ProseNames]:
    """Read the files and the symbols that prose names.

    `is_path` recognizes paths that do not look like one; `symbols` count even where they are not marked as code.
    """
    units = markdown_units(text)
    paths = path_mentions(text, is_path, question, units)
    names = symbol_mentions(text, question, symbols, units)
    _bind_line_columns(text, units, paths)
    mentions = sorted((*paths, *names), key=lambda mention: mention.start)
    masked = _mask(text, units, mentions)
    take_stances(text, units, mentions, masked, QuestionWords(question))
    _apply_nothing_found(masked, mentions)
    for kind in (paths, names):
        _prefer_prose(kind, units)
    files = _resolve(_after_conclusion(masked, paths), "/")
    return files, _resolve(_after_conclusion(masked, names), ".")


def _mask(text: str, units: list[MarkdownUnit], mentions: list[NameMention]) -> str:
    """Blank out names, inline code and fenced code, without moving the rest."""
    parts: list[str] = []
    position = 0
    ranges = [(mention.start, mention.end, MASK) for mention in mentions]
    ranges += [(start, end, MASK) for start, end, _ in code_spans(text)]
    ranges += [(unit.start, unit.end, "\n") for unit in units if unit.kind == "code"]
    for start, end, filler in sorted(ranges, key=lambda item: (item[0], -item[1])):
        if end > position:
            begin = max(start, position)
            parts += [text[position:begin], filler * (end - begin)]
            position = end
    return "".join((*parts, text[position:]))


def _bind_line_columns(text: str, units: list[MarkdownUnit], paths: list[NameMention]) -> None:
    """Give the numbers of a column headed `Line` to the file of their row."""
    starts = [mention.start for mention in paths]
    for rows in tables(text, units):
        header = [cell.strip(" *`").lower() for _, cell in table_cells(text, rows[0])] if rows else []
        headings = ("line", "line number", "zeile", "ligne")
        columns = [index for index, cell in enumerate(header) if cell.rstrip("s(). #") in headings]
        for row in rows[1:] if columns else ():
            inside = paths[bisect(starts, row.start - 1) : bisect(starts, row.end - 1)]
            cells = table_cells(text, row)
            for column in columns:
                if inside and column < len(cells):
                    spans = parse_spans(cells[column][1].strip(" *`"))
                    inside[0].spans += [span for span in spans if span not in inside[0].spans]


def _apply_nothing_found(masked: str, mentions: list[NameMention]) -> None:
    """Reject everything but guesses in an answer that begins by saying that nothing was found."""
    if lexicon.NOTHING_FOUND.match(masked[:300]):
        for mention in mentions:
            if not lexicon.GUESS.search(masked[max(0, mention.start - 90) : mention.start]):
                mention.set(Stance.REJECTED)


def _prefer_prose(mentions: list[NameMention], units: list[MarkdownUnit]) -> None:
    """Treat names in fenced code as mentioned if sentences claim anything."""
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


def _after_conclusion(masked: str, mentions: list[NameMention]) -> list[NameMention]:
    """Drop what precedes the last conclusion or correction that claims something; names in it keep their lines."""
    marks = [match.end() for pattern in (lexicon.CONCLUSION, lexicon.CORRECTION) for match in pattern.finditer(masked)]
    claims = [mention.start for mention in mentions if mention.stance is Stance.CLAIMED]
    mark = max((mark for mark in marks if claims and claims[-1] >= mark), default=0)
    later = [mention for mention in mentions if mention.start >= mark]
    by_name = {mention.name: mention for mention in later if mention.stance is not Stance.REJECTED}
    for mention in mentions:
        if mention.start < mark and mention.name in by_name and mention.stance is not Stance.REJECTED:
            by_name[mention.name].spans += mention.spans
    return later


def _resolve(mentions: list[NameMention], separator: str) -> ProseNames:
    """Apply the final stance on each name: the last firm one, else the first that is not a mere mention."""
    full = _full_names({mention.name for mention in mentions}, separator)
    states: dict[str, tuple[Stance, bool]] = {}
    for mention in mentions:
        name = full[mention.name]
        stance, firm = states.get(name, (Stance.MENTIONED, False))
        if mention.firm or (not firm and stance is Stance.MENTIONED):
            states[name] = mention.stance, mention.firm
    claimed: list[Location] = []
    mentioned: list[Location] = []
    for mention in mentions:
        stance, _ = states[full[mention.name]]
        if stance is Stance.REJECTED:
            continue
        (claimed if stance is Stance.CLAIMED else mentioned).append((mention.name, None))
        if mention.stance is not Stance.REJECTED:
            lines = claimed if stance is mention.stance is Stance.CLAIMED else mentioned
            lines += [(mention.name, span) for span in mention.spans]
    return ProseNames(tuple(dict.fromkeys(claimed)), tuple(dict.fromkeys(mentioned)))


def _full_names(names: set[str], separator: str) -> dict[str, str]:
    """Map each name to the longer name that ends in it, if there is exactly one: `b.py` to `a/b.py`."""
    longer: dict[str, list[str]] = {}
    for name in sorted(names):
        for end in ends(name, separator):
            if end in names:
                longer.setdefault(end, []).append(name)
    return {name: matches[0] if len(matches := longer.get(name, [])) == 1 else name for name in names}


@dataclass(frozen=True, slots=True)
class Claims:
    """Unique claims. `listed` are the fields that a JSON object of the answer has; `mentioned` is what prose names in
    passing, which counts only if it is right."""

    files: tuple[str, ...]
    symbols: tuple[str, ...]
    lines: tuple[tuple[str, Span], ...]
    content: tuple[str, ...] = ()
    listed: frozenset[str] = frozenset()
    mentioned: Claims | None = None


def read_claims(
    text: str, value: Any, is_path: Callable[[str], bool], question: str, symbols: Iterable[str] = ()
) -> Claims:
    """Read the claims of an answer: from its JSON, and from its prose for fields that the JSON omits.

    For prose, `is_path` recognizes paths that do not look like one, `symbols` count even where they are not marked as
    code, and what the question names is not a claim.
    """
    fields = parse_fields(text, value)
    files = list(parse_locations(fields.get("files")))
    lines = list(parse_lines(fields.get("lines"), files))
    spans = [location for location in (*files, *lines) if location[1] is not None]
    prose_files, prose_symbols = read_prose(text, is_path, question, symbols)
    mentioned: list[Location] = []
    if "lines" not in fields and not spans:
        spans = [location for location in prose_files.claimed if location[1] is not None]
        mentioned = list(prose_files.mentioned)
        if "files" in fields:
            paths = {path for path, _ in files}
            spans, mentioned = _in_files(spans, paths), _in_files(mentioned, paths)
        else:
            files = list(prose_files.claimed)
    is_prose = "symbols" not in fields
    names = [name for name, _ in prose_symbols.claimed] if is_prose else parse_symbols(fields["symbols"])
    other_names = [name for name, _ in prose_symbols.mentioned] if is_prose else []
    return Claims(
        files=_unique(path for path, _ in (*files, *lines)),
        symbols=_unique(names),
        lines=_spans(spans),
        content=tuple(item for item in as_list(fields.get("content")) if isinstance(item, str)),
        listed=frozenset(fields.keys() & set(FIELDS)),
        mentioned=Claims(_unique(path for path, _ in mentioned), _unique(other_names), _spans(mentioned)),
    )


def _spans(locations: Iterable[Location]) -> tuple[tuple[str, Span], ...]:
    return tuple(dict.fromkeys((path, span) for path, span in locations if span is not None))[:MOST]


def _unique(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for name in names if 0 < len(name) <= LONGEST_NAME))[:MOST]


def _in_files(locations: list[Location], paths: set[str]) -> list[Location]:
    """Return the locations in these files; a path matches any other that ends with it."""
    shorter = {end for path in paths for end in ends(path, "/")}
    same = {path: path in paths or path in shorter or not paths.isdisjoint(ends(path, "/")) for path, _ in locations}
    return [location for location in locations if same[location[0]]]
