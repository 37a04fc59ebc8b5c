"""`find_symbol`, `find_references`, `outline_file`: names, where they are defined and where they are used."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from abreast.languages import LANGUAGES, language_of
from abreast.suites.code_search.server.arguments import Parameter, Refused, shown
from abreast.suites.code_search.server.files import Files
from abreast.suites.code_search.server.index import LARGEST_PARSED, PATIENCE_S, WEIGHT, Defined, Index, Reading, Used
from abreast.suites.code_search.server.lines import counted, cut, fitting, plain, source_lines

KINDS = ("function", "method", "class", "interface", "type", "constant")
USES = {"call": "call", "import": "import", "name": "other"}
_COUNTED = {"call": "call", "import": "import", "name": "other use"}
MOST = 500
_SPOKEN = ", ".join(LANGUAGES[:-1]) + " and " + LANGUAGES[-1]

LANGUAGE = Parameter("language", "text", "Only files in this language; JavaScript is typescript.", choices=LANGUAGES)
LIMIT = Parameter("limit", "count", "The most places to show.", default=50, least=1, most=MOST)

FIND_SYMBOL = f"""Find where a function, method, class, type or constant is defined, by its name: each place as \
`path:line: kind qualified.name`, with its source line. It reads {_SPOKEN} as a parser does, so calls, comments and \
strings are no hits. If nothing has exactly that name, similar names are given, and it says so."""
SYMBOL_PARAMETERS = (
    Parameter("name", "text", 'The name, such as "get", or "Store.get" for the one in Store.', required=True),
    Parameter("kind", "text", "Only this kind; a struct or enum is a type, a trait an interface.", choices=KINDS),
    LANGUAGE,
    LIMIT,
)
FIND_REFERENCES = f"""Find where a function, method, class, type or constant is used, by its name: calls first, then \
imports, then other uses, each as `path:line: kind in enclosing.definition: source`, and where it is defined. Use it \
to find callers. It reads {_SPOKEN}; comments and strings are no uses. It goes by the name alone: if two classes have \
a method of this name, the calls of both are listed."""
REFERENCE_PARAMETERS = (
    Parameter("name", "text", 'The name, such as "get" or "Store.get".', required=True),
    Parameter("kind", "text", "Only these uses.", choices=tuple(USES.values())),
    Parameter("path", "text", "Only uses in these files: a folder, a file, or a glob (*.go, src/**/test_*.py)."),
    LANGUAGE,
    LIMIT,
)
OUTLINE_FILE = f"""List what a source file defines, in its order: `first-last: kind qualified.name`, with the source \
line. Much shorter than to read the file. For {_SPOKEN}."""
OUTLINE_PARAMETERS = (Parameter("path", "text", "The file, from the root of the code: src/main.py.", required=True),)


class Place(NamedTuple):
    path: str
    defined: Defined


class Symbols:
    def __init__(self, files: Files, patience_s: float = PATIENCE_S) -> None:
        self._files = files
        self._index = Index(files, patience_s)

    def find_symbol(self, name: str, kind: str | None = None, language: str | None = None, limit: int = 50) -> str:
        wanted = _plain_name(name)
        paths = self._paths(language)
        reading = self._index.read(paths, _could_define(wanted[-1]))
        found = _exact(reading, wanted)
        if found:
            return self._places(*_of_kind(found, kind), limit, reading.missing)
        for begins in (True, False):
            reading = self._index.read(paths, _could_define_alike(wanted[-1], begins))
            near = _near(reading, wanted[-1], begins)
            if near:
                break
        if not near:
            where = f" in {language}" if language else ""
            unread = _unread(reading.missing)
            return f"Nothing{where} is called {shown(name)}, or alike.{unread} Try a part of the name, or search_code."
        note = f"Nothing is called {shown(name)} exactly. These names are similar:"
        kept, _ = _of_kind(near, kind)
        return self._places(kept, note, limit, reading.missing)

    def find_references(
        self, name: str, kind: str | None = None, path: str | None = None, language: str | None = None, limit: int = 50
    ) -> str:
        wanted = _plain_name(name)
        paths = self._paths(language)
        among = set(paths if path is None else self._files.chosen(path))
        reading = self._index.read(paths, _could_use(wanted[-1]))
        uses = [
            (WEIGHT[use.kind], place, use)
            for place, parsed in reading.files.items()
            if place in among
            for use in parsed.used(wanted[-1])
            if kind is None or USES[use.kind] == kind
        ]
        uses.sort(key=lambda one: one[0])
        defined = _exact(reading, wanted)
        if not uses and not defined:
            others = "find_symbol knows similar names; search_code finds it in comments and strings."
            return f"Nothing here uses or defines {shown(name)}.{_unread(reading.missing)} {others}"
        return self._uses(wanted, defined, [(place, use) for _, place, use in uses], limit, reading)

    def outline_file(self, path: str) -> str:
        found = self._files.chosen(path)
        if found != [self._files.inside(path)]:
            raise Refused(f"{shown(path)} is more than a file. Give one, such as {plain(found[0])}.")
        (real,) = found
        if language_of(real) is None:
            raise Refused(f"{shown(path)} is in no language that is read here: {_SPOKEN}. Read it, or use search_code.")
        reading = self._index.read([real], lambda _, __: True)
        if real not in reading.files:
            why = "could not be parsed" if reading.missing else f"is empty, no text or above {LARGEST_PARSED:,} bytes"
            raise Refused(f"{shown(path)} {why}. Read it, or use search_code with this path.")
        return self._outline(real, reading)

    def _paths(self, language: str | None) -> list[str]:
        return [
            path for path in self._files.chosen(None) if (spoken := language_of(path)) and language in (None, spoken)
        ]

    # -- what is said -------------------------------------------------------------------------------------------------

    def _places(self, found: list[Place], note: str, limit: int, missing: int) -> str:
        sources = _Sources(self._files)
        fit = fitting(_defined(place, sources) for place in found[:limit])
        last = f"[{counted(len(found), 'definition')}{_more(len(fit), len(found))}{_unread(missing)}]"
        return "\n".join([*([note] if note else []), *fit, last])

    def _uses(
        self, wanted: list[str], defined: list[Place], uses: list[tuple[str, Used]], limit: int, reading: Reading
    ) -> str:
        sources = _Sources(self._files)
        head = [f"defined at {_defined(place, sources)}" for place in defined[:10]]
        namesakes = len(_exact(reading, wanted[-1:]))
        if namesakes > 1:
            head.append(f"({namesakes} definitions are called {wanted[-1]}: the uses of all of them are listed.)")
        fit = fitting(_used(path, use, sources) for path, use in uses[:limit])
        counts = {word: sum(use.kind == kind for _, use in uses) for kind, word in _COUNTED.items()}
        parts = [counted(number, word) for word, number in counts.items() if number]
        files = f" in {counted(len({path for path, _ in uses}), 'file')}" if uses else ""
        said = f"{', '.join(parts) or 'no use of it'}{files}"
        return "\n".join([*head, *fit, f"[{said}{_more(len(fit), len(uses))}{_unread(reading.missing)}]"])

    def _outline(self, path: str, reading: Reading) -> str:
        parsed = reading.files[path]
        lines = _Sources(self._files).lines(path)
        fit = fitting(
            f"{one.line}-{one.end_line}: {one.kind} {one.qualified}  {cut(_at(lines, one.line).strip())}"
            for one in parsed.definitions
        )
        count = len(parsed.definitions)
        head = f"{plain(path)}: {parsed.language}, {counted(len(lines), 'line')}, {counted(count, 'definition')}"
        broken = ["[parts of the file could not be parsed; names may be missing]"] if parsed.broken else []
        more = [f"[{count - len(fit):,} more]"] if len(fit) < count else []
        return "\n".join([head, *fit, *more, *broken])


class _Sources:
    def __init__(self, files: Files) -> None:
        self._files = files
        self._known: dict[str, list[str]] = {}

    def lines(self, path: str) -> list[str]:
        if path not in self._known:
            self._known[path] = source_lines(self._files.read(path) or b"")
        return self._known[path]


def _at(lines: list[str], line: int) -> str:
    """A line by its number, unless the file became shorter meanwhile."""
    return lines[line - 1] if 0 < line <= len(lines) else ""


def _defined(place: Place, sources: _Sources) -> str:
    one = place.defined
    source = cut(_at(sources.lines(place.path), one.line).strip())
    return f"{plain(place.path)}:{one.line}: {one.kind} {one.qualified}  {source}"


def _used(path: str, use: Used, sources: _Sources) -> str:
    where = f" in {use.inside}" if use.inside else ""
    return f"{plain(path)}:{use.line}: {USES[use.kind]}{where}: {cut(_at(sources.lines(path), use.line).strip())}"


def _more(shown: int, total: int) -> str:
    return f"; {shown} shown, {total - shown:,} more: raise limit, or narrow it" if shown < total else ""


def _unread(missing: int) -> str:
    if not missing:
        return ""
    return f" ({counted(missing, 'file')} could not be read in time: ask again, what was read is kept.)"


# -- names ------------------------------------------------------------------------------------------------------------


def _plain_name(text: str) -> list[str]:
    """The parts of a name, in whatever way a language writes it: `Store.get`, `Store::get()`, `Store#get`."""
    words = re.sub(r"\(.*\)?\s*$", "", text.strip(), flags=re.DOTALL)
    parts = [part.strip() for part in re.split(r"\.|::|#|->|/", words) if part.strip()]
    if not parts or any(re.search(r"\s", part) for part in parts):
        raise Refused(
            f"{shown(text)} is no name. Give one such as get or Store.get; for other text there is search_code."
        )
    return parts


def _exact(reading: Reading, wanted: list[str]) -> list[Place]:
    whole = ".".join(wanted)
    return [
        Place(path, one)
        for path, parsed in reading.files.items()
        for one in parsed.definitions
        if one.name == wanted[-1] and (one.qualified == whole or f".{one.qualified}".endswith(f".{whole}"))
    ]


def _near(reading: Reading, name: str, begins: bool) -> list[Place]:
    """Names that begin with it, or hold it, in whatever case; first those that are as long."""
    lower = name.lower()
    found = [
        Place(path, one)
        for path, parsed in reading.files.items()
        for one in parsed.definitions
        if (one.name.lower().startswith(lower) if begins else lower in one.name.lower())
    ]
    return sorted(found, key=lambda place: len(place.defined.name) > len(name))


def _of_kind(found: list[Place], kind: str | None) -> tuple[list[Place], str]:
    kept = [place for place in found if kind in (None, place.defined.kind)]
    if kept:
        return kept, ""
    others = ", ".join(dict.fromkeys(place.defined.kind for place in found))
    return found, f"None of them is a {kind}; what is called so is a {others}:"


# -- which files are worth parsing ------------------------------------------------------------------------------------

Could = Callable[[str, bytes], bool]

_KEYWORDS = {
    "python": rb"(?:def|class|type)\s+%s(?!\w)|^%s\s*[:=]",
    "rust": rb"(?:fn|struct|enum|union|type|trait|const|static|mut)\s+(?:r#)?%s(?!\w)",
}
_ANYWHERE = rb"(?<![\w.])%s(?!\w)"  # no language has a dot before the name that it defines


def _could_define(name: str) -> Could:
    """Whether the name stands in a source as one that is defined does."""
    word = name.encode("utf-8", "replace")
    test = _by_language(re.escape(word), re.MULTILINE)
    return lambda path, content: word in content and test(path, content)


def _could_define_alike(name: str, begins: bool) -> Could:
    """The same for names that begin with this one, or hold it, in whatever case."""
    lower = name.encode("utf-8", "replace").lower()
    test = _by_language((b"" if begins else rb"\w*") + re.escape(lower) + rb"\w*", re.MULTILINE | re.IGNORECASE)
    return lambda path, content: lower in content.lower() and test(path, content)


def _could_use(name: str) -> Could:
    word = name.encode("utf-8", "replace")
    is_word = re.compile(rb"(?<!\w)" + re.escape(word) + rb"(?!\w)").search
    return lambda _, content: word in content and is_word(content) is not None


def _by_language(word: bytes, flags: int) -> Could:
    tests = {language: re.compile(text.replace(b"%s", word), flags).search for language, text in _KEYWORDS.items()}
    otherwise = re.compile(_ANYWHERE.replace(b"%s", word), flags).search
    return lambda path, content: tests.get(language_of(path) or "", otherwise)(content) is not None
