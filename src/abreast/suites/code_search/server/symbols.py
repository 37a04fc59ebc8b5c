"""`find_symbol`, `find_references`, `outline_file`: find the definitions and uses of names."""

from __future__ import annotations

import re
from collections.abc import Callable

from abreast.languages import LANGUAGES, SymbolDefinition, SymbolReference, language_of
from abreast.suites.code_search.server.arguments import Parameter, ToolError, quote_value
from abreast.suites.code_search.server.files import Files, fit_answer, printable_path, shorten_line, source_lines
from abreast.suites.code_search.server.index import LARGEST_PARSED, PATIENCE_S, WEIGHT, Index, IndexResult, Parsed
from abreast.text import many

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


DefinitionSite = tuple[str, SymbolDefinition]  # a path and a definition in it


class Symbols:
    """The tools; each returns the text of its answer."""

    def __init__(self, files: Files, patience_s: float = PATIENCE_S) -> None:
        self._files = files
        self._index = Index(files, patience_s)

    def find_symbol(self, name: str, kind: str | None = None, language: str | None = None, limit: int = 50) -> str:
        parts = _name_parts(name)
        paths = self._paths(language)
        index = self._index.read(paths, _could_define(parts[-1]))
        note = ""
        if sites := _exact(index, parts):
            sites, note = _filter_kind(sites, kind)
        else:
            for begins in (True, False):
                index = self._index.read(paths, _could_define_similar(parts[-1], begins))
                if sites := _find_similar(index, parts[-1], begins):
                    break
            else:
                where = f" in {language}" if language else ""
                message = f"Nothing{where} is called {quote_value(name)} or similar.{_unread(index.missing)}"
                return f"{message} Try a part of the name, or search_code."
            sites, note = _filter_kind(sites, kind)[0], f"Nothing is called {quote_value(name)}. Similar names:"
        source = self._source_reader()
        fit = fit_answer(_describe_site(site, source) for site in sites[:limit])
        last = f"[{many(len(sites), 'definition')}{_more(len(fit), len(sites))}{_unread(index.missing)}]"
        return "\n".join([*([note] if note else []), *fit, last])

    def find_references(
        self, name: str, kind: str | None = None, path: str | None = None, language: str | None = None, limit: int = 50
    ) -> str:
        parts = _name_parts(name)
        paths = self._paths(language)
        among = set(paths if path is None else self._files.chosen(path))
        index = self._index.read(paths, _could_use(parts[-1]))
        uses = [
            (file, use)
            for file, parsed in index.files.items()
            if file in among
            for use in parsed.uses_of(parts[-1])
            if kind is None or USES[use.kind] == kind
        ]
        uses.sort(key=lambda item: WEIGHT[item[1].kind])
        sites = _exact(index, parts)
        if not uses and not sites:
            others = "Use find_symbol for similar names, search_code for comments and strings."
            return f"Nothing here uses or defines {quote_value(name)}.{_unread(index.missing)} {others}"
        source = self._source_reader()
        head = [f"defined at {_describe_site(site, source)}" for site in sites[:10]]
        namesakes = len(_exact(index, parts[-1:]))
        if namesakes > 1:
            head.append(f"({namesakes} definitions are called {parts[-1]}; these are the uses of all.)")
        fit = fit_answer(_describe_use(file, use, source) for file, use in uses[:limit])
        counts = {word: sum(use.kind == kind for _, use in uses) for kind, word in _COUNTED.items()}
        kinds = ", ".join(many(number, word) for word, number in counts.items() if number) or "no use of it"
        files = f" in {many(len({file for file, _ in uses}), 'file')}" if uses else ""
        return "\n".join([*head, *fit, f"[{kinds}{files}{_more(len(fit), len(uses))}{_unread(index.missing)}]"])

    def outline_file(self, path: str) -> str:
        chosen = self._files.chosen(path)
        file = chosen[0]
        if chosen != [self._files.inside(path)]:
            raise ToolError(f"{quote_value(path)} is not a single file. Use one, such as {printable_path(file)}.")
        if language_of(file) is None:
            raise ToolError(
                f"{quote_value(path)} is not in a supported language ({_SPOKEN}). Read it, or use search_code."
            )
        index = self._index.read([file], lambda _, __: True)
        if file not in index.files:
            problem = "could not be parsed" if index.missing else f"is empty, binary or above {LARGEST_PARSED:,} bytes"
            raise ToolError(f"{quote_value(path)} {problem}. Read it, or use search_code with this path.")
        return self._outline(file, index.files[file])

    def _outline(self, path: str, parsed: Parsed) -> str:
        lines, count = source_lines(self._files.read(path) or b""), len(parsed.definitions)
        source = self._source_reader()
        fit = fit_answer(
            f"{item.line}-{item.end_line}: {item.kind} {item.qualified}  {source(path, item.line)}"
            for item in parsed.definitions
        )
        head = f"{printable_path(path)}: {parsed.language}, {many(len(lines), 'line')}, {many(count, 'definition')}"
        broken = ["[parts of the file could not be parsed; names may be missing]"] if parsed.broken else []
        more = [f"[{count - len(fit):,} more]"] if len(fit) < count else []
        return "\n".join([head, *fit, *more, *broken])

    def _paths(self, language: str | None) -> list[str]:
        by_path = {path: language_of(path) for path in self._files.chosen(None)}
        return [path for path, own in by_path.items() if own and language in (None, own)]

    def _source_reader(self) -> SourceReader:
        """Return a function that reads a source line by path and number, and caches files."""
        cached: dict[str, list[str]] = {}

        def read(path: str, line: int) -> str:
            if path not in cached:
                cached[path] = source_lines(self._files.read(path) or b"")
            return shorten_line(cached[path][line - 1].strip()) if line <= len(cached[path]) else ""

        return read


SourceReader = Callable[[str, int], str]


def _describe_site(site: DefinitionSite, source: SourceReader) -> str:
    path, definition = site
    where = f"{printable_path(path)}:{definition.line}"
    return f"{where}: {definition.kind} {definition.qualified}  {source(path, definition.line)}"


def _describe_use(path: str, use: SymbolReference, source: SourceReader) -> str:
    inside = f" in {use.inside}" if use.inside else ""
    return f"{printable_path(path)}:{use.line}: {USES[use.kind]}{inside}: {source(path, use.line)}"


def _more(count: int, total: int) -> str:
    return f"; {count} shown, {total - count:,} more: raise limit, or narrow it" if count < total else ""


def _unread(missing: int) -> str:
    if not missing:
        return ""
    return f" ({many(missing, 'file')} could not be read in time; call again to read the rest.)"


# -- names ------------------------------------------------------------------------------------------------------------


def _name_parts(text: str) -> list[str]:
    """Split a qualified name of any language: `Store.get`, `Store::get()`, `Store#get`."""
    plain = re.sub(r"\(.*\)?\s*$", "", text.strip(), flags=re.DOTALL)
    parts = [part.strip() for part in re.split(r"\.|::|#|->|/", plain) if part.strip()]
    if not parts or any(re.search(r"\s", part) for part in parts):
        raise ToolError(f"{quote_value(text)} is not a name such as get or Store.get. For other text, use search_code.")
    return parts


def _select(index: IndexResult, accept: Callable[[SymbolDefinition], bool]) -> list[DefinitionSite]:
    return [(path, item) for path, parsed in index.files.items() for item in parsed.definitions if accept(item)]


def _exact(index: IndexResult, parts: list[str]) -> list[DefinitionSite]:
    ending = "." + ".".join(parts)
    return _select(index, lambda item: item.name == parts[-1] and f".{item.qualified}".endswith(ending))


def _find_similar(index: IndexResult, name: str, begins: bool) -> list[DefinitionSite]:
    """Return names that begin with this one, or contain it, ignoring case; those of the same length first."""
    lower = name.lower()
    sites = _select(index, lambda item: item.name.lower().startswith(lower) if begins else lower in item.name.lower())
    return sorted(sites, key=lambda site: len(site[1].name) > len(name))


def _filter_kind(sites: list[DefinitionSite], kind: str | None) -> tuple[list[DefinitionSite], str]:
    """Return the sites of a kind, else all of them with a note."""
    matching = [site for site in sites if kind in (None, site[1].kind)]
    others = ", ".join(dict.fromkeys(definition.kind for _, definition in sites))
    return (matching, "") if matching else (sites, f"None of them is a {kind}, but a {others}:")


# -- quick tests before parsing ---------------------------------------------------------------------------------------

Could = Callable[[str, bytes], bool]

_KEYWORDS = {
    "python": rb"(?:def|class|type)\s+%s(?!\w)|^%s\s*[:=]",
    "rust": rb"(?:fn|struct|enum|union|type|trait|const|static|mut)\s+(?:r#)?%s(?!\w)",
}
_ANYWHERE = rb"(?<![\w.])%s(?!\w)"  # a definition has no dot before the name


def _could_define(name: str) -> Could:
    """Return a quick test for files that may define a name."""
    word = name.encode()
    test = _by_language(re.escape(word), re.MULTILINE)
    return lambda path, content: word in content and test(path, content)


def _could_define_similar(name: str, begins: bool) -> Could:
    """Return a quick test for files that may define a name that begins with this one or contains it."""
    lower = name.encode().lower()
    test = _by_language((b"" if begins else rb"\w*") + re.escape(lower) + rb"\w*", re.MULTILINE | re.IGNORECASE)
    return lambda path, content: lower in content.lower() and test(path, content)


def _could_use(name: str) -> Could:
    word = name.encode()
    is_word = re.compile(rb"(?<!\w)" + re.escape(word) + rb"(?!\w)").search
    return lambda _, content: word in content and is_word(content) is not None


def _by_language(word: bytes, flags: int) -> Could:
    tests = {language: re.compile(text.replace(b"%s", word), flags).search for language, text in _KEYWORDS.items()}
    otherwise = re.compile(_ANYWHERE.replace(b"%s", word), flags).search
    return lambda path, content: tests.get(language_of(path) or "", otherwise)(content) is not None
