"""What an answer about code claims: files, symbols and lines, from a JSON object in it or from its prose."""

from __future__ import annotations

import json
import posixpath
import re
from bisect import bisect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

FIELDS = ("files", "symbols", "lines", "content")
_SINGULAR = {"file": "files", "path": "files", "paths": "files", "symbol": "symbols", "line": "lines"}
_PLACE = ("path", "file", "filename")  # an object with one of these is one place
_MOST, _LONGEST = 2_000, 500  # claims of one kind that are read, and characters of one
_PATIENCE = 1_000_000  # characters that may be read in vain while JSON is looked for
_DECODER = json.JSONDecoder()
_OBJECT = re.compile(r'\{\s*["}]')
_MEANT = re.compile(r'\{\s*"(?:files?|paths?|symbols?|lines?|content)"', re.IGNORECASE)
_NO_JSON = re.compile(r'("(?:[^"\\\n]|\\.)*+"?)|//[^\n]*|,(?=\s*[}\]])')  # after a string: comments, commas at the end
_SUFFIX = re.compile(
    "bash|c|cc|cfg|cjs|conf|cpp|cs|css|csv|cts|env|go|gradle|h|hpp|html|ini|java|js|json|jsonl|jsx|kt|kts|lock|lua|md|mjs|mod|mts|php"
    "|proto|properties|py|pyi|rb|rs|rst|scala|scss|sh|sql|sum|svelte|swift|tf|toml|ts|tsx|txt|vue|xml|yaml|yml|zig",
    re.IGNORECASE,
)
_BARE = frozenset(("Makefile", "Dockerfile", "Jenkinsfile", "Procfile", "Rakefile", "Gemfile", "LICENSE", "CODEOWNERS"))
_PRODUCT = re.compile(r"[A-Z]\w*\.js")  # Node.js is no file
_RANGE = r"\d{1,9}(?: ?(?:-|–|—|to|\.\.) ?L?\d{1,9})?"
_NUMBERS = rf"{_RANGE}(?:(?:, ?(?:and )?| and | & )L?{_RANGE}(?![\w.]| (?!and\b|in\b|of\b)\w))*"
_AT = rf"[#:]L?(?P<at>{_NUMBERS})"
_PATH = re.compile(
    r"(?<![\w@/\\.:+$-])(?P<path>(?:[A-Za-z]:[\\/]+|[\\/]+|~/)?+(?:(?:[\w@+.$-]++|\[[\w.]++\]|\([\w.]++\))[\\/]++)*+(?:[\w@+.$-]*[\w$-])?)"
    rf"(?:{_AT})?"
)
_RIGHT_AFTER = re.compile(  # `a.py`:12, "a.py": [12, 40], a.py(12), `a.py` (L12), and the next cell of a table
    rf"[`'\"*\])]{{0,4}}(?:(?::|: ?\[ ?|\(|[ ,(:]{{0,3}}L(?=\d))(?P<at>{_NUMBERS})(?![\w.]?\w)"
    rf"|[ \t]{{0,80}}\|[ \t`*]{{0,80}}(?:[Ll]ines? )?L?(?P<cell>{_NUMBERS})[ \t`*]{{0,80}}\|)"
)
_LINES = re.compile(
    rf"(?:(?<![\w.-])(?:[Ll]ines?(?: numbers?)?|LINES?)[ :#*`~\"'=(\[]{{1,6}}L?|(?<=[(\[`])L)(?P<at>{_NUMBERS})"
)
_OF = re.compile(r" (?:of|in)(?: the)?(?: file)? [`'\"*]*| ?\([`'\"*]*")
_SPAN = re.compile(r"L?(\d{1,9})(?::\d{1,9}|[^\d:]{1,8}?(\d{1,9}))?")  # behind a colon is a column
_SEVERAL = re.compile(r",|;|&|\band\b")
_CODE = re.compile(r"(?<!`)(`++)([^`\n]{1,200})\1")
_KEYWORD = re.compile(
    r"(?:(?:pub(?:\([^)]{1,40}\))?|export|default|declare|public|private|protected|internal|static|async|abstract|final|override"
    r"|readonly|unsafe|extern|const|get|set) )*"
    r"(?:(?:def|func|fn|fun|class|function|interface|struct|trait|enum|type|record|module|method|constructor"
    r"|const|var|val|let) )?"
)
_NAME = re.compile(r"[$@&]?[^\W\d][\w$]*(?:\.[~$]?[^\W\d][\w$]*)*[!?]?")
_RETURNING = re.compile(r"[\w$.,?\[\] ]{1,200} ([^\W\d][\w$]*)\(")  # a type before the name
_GENERIC = re.compile(r"(?:::)?<[^<>()]{0,100}>|\[[^\[\]()]{0,100}\](?=[.:(])")
_WORDS = frozenset(
    ("None", "True", "False", "null", "nil", "true", "false", "undefined", "self", "this")
)  # of languages


@dataclass(frozen=True, slots=True)
class Span:
    """Lines from the first to the last of them.

    >>> Span.read("L10-L20"), Span.read(7), Span.read("12:5"), Span.read("none")
    (Span(first=10, last=20), Span(first=7, last=7), Span(first=12, last=12), None)
    """

    first: int
    last: int

    @classmethod
    def read(cls, value: Any) -> Span | None:
        """A number, `10-20`, or a pair of numbers; None if it is none of them."""
        if isinstance(value, list | tuple) and len(value) == 2:
            ends = value
        elif isinstance(value, str) and (found := _SPAN.fullmatch(value.strip())):
            ends = int(found[1]), int(found[2] or found[1])
        else:
            ends = value, value
        if not all(type(each) is int and 0 < each < 10**9 for each in ends):
            return None
        return cls(min(ends), max(ends))

    def __str__(self) -> str:
        return f"{self.first}" if self.first == self.last else f"{self.first}-{self.last}"


@dataclass(frozen=True, slots=True)
class Claims:
    """What is claimed, each thing once. `listed` are the fields that stand in a JSON object of the answer."""

    files: tuple[str, ...]
    symbols: tuple[str, ...]
    lines: tuple[tuple[str, Span], ...]
    content: tuple[str, ...] = ()
    listed: frozenset[str] = frozenset()


Place = tuple[str, Span | None]
"""A path, and the lines if they are named."""


def claims_in(text: str, value: Any, known: Callable[[str], bool], asked: str) -> Claims:
    """What an answer claims. Of JSON objects the last one that has one of FIELDS counts, or all that are single places;
    what they leave out is read from the prose. There, `known` says which words are paths although they do not look it,
    and what the question (`asked`) names itself is no claim."""
    given = _given(text, value)
    files = list(_places(given.get("files")))
    lines = list(_lines(given.get("lines"), files))
    spans = [place for place in (*files, *lines) if place[1] is not None]
    if "lines" not in given and not spans:
        in_prose = list(_in_prose(text, known, asked))
        spans = [place for place in in_prose if place[1] is not None]
        if "files" in given:
            spans = _of_these(spans, {path for path, _ in files})
        else:
            files = in_prose
    symbols = _listed_symbols(given["symbols"]) if "symbols" in given else _symbols_in_prose(text, asked)
    return Claims(
        _once(path for path, _ in (*files, *lines)),
        _once(symbols),
        tuple(dict.fromkeys((path, span) for path, span in spans if span is not None))[:_MOST],
        tuple(item for item in _items(given.get("content")) if isinstance(item, str)),
        frozenset(given.keys() & set(FIELDS)),
    )


def _once(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for name in names if 0 < len(name) <= _LONGEST))[:_MOST]


def distinct(names: Iterable[str], separator: str) -> list[str]:
    """Without those that are only the end of another one: `b.py` beside `a/b.py` is the same thing, said shorter.

    >>> distinct(["src/a.py", "a.py", "b.py"], "/")
    ['src/a.py', 'b.py']
    """
    found = list(names)
    shorter = {end for name in found for end in _ends(name, separator)}
    return [name for name in found if name not in shorter]


def _ends(name: str, separator: str) -> list[str]:
    parts = name.split(separator)
    return [separator.join(parts[at:]) for at in range(1, len(parts))]


def _of_these(places: list[Place], paths: set[str]) -> list[Place]:
    """Places in these files, as far as both say which they are."""
    shorter = {end for path in paths for end in _ends(path, "/")}
    same = {path: path in paths or path in shorter or not paths.isdisjoint(_ends(path, "/")) for path, _ in places}
    return [place for place in places if same[place[0]]]


# -- JSON -------------------------------------------------------------------------------------------------------------


def _given(text: str, value: Any) -> dict[str, Any]:
    """What stands in JSON, by field."""
    told = [each for each in _items(value) if isinstance(each, Mapping)] or _objects(text)
    found = [_plain_keys(inner) for each in told for inner in _unwrapped(each)]
    whole = [each for each in found if not _is_place(each)]
    if whole:
        return {_SINGULAR.get(key, key): each for key, each in whole[-1].items()}
    names = [each.get("symbols", each.get("symbol", each.get("name"))) for each in found]
    symbols = [name for each in names for name in _items(each)]
    return {**({"files": found} if found else {}), **({"symbols": symbols} if symbols else {})}


def _plain_keys(told: Mapping[Any, Any]) -> dict[str, Any]:
    return {str(key).strip().lower(): each for key, each in told.items()}


def _is_place(told: Mapping[str, Any]) -> bool:
    return "files" not in told and any(isinstance(told.get(key), str) for key in _PLACE)


def _unwrapped(told: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The object, or those in it if it only holds them: `{"answer": {"files": [...]}}`."""
    if any(key in FIELDS or key in _SINGULAR for key in _plain_keys(told)):
        return [told]
    inside = [each for value in told.values() for each in _items(value) if isinstance(each, Mapping)]
    return [each for each in inside if any(key in FIELDS or key in _SINGULAR for key in _plain_keys(each))]


def _objects(text: str) -> list[Mapping[str, Any]]:
    """The JSON objects of a text that are in no other one. One with comments, or with a comma too many, is read too."""
    found: list[Mapping[str, Any]] = []
    at, patience = 0, _PATIENCE
    while patience > 0 and (match := _OBJECT.search(text, at)):
        start = match.start()
        try:
            value, at = _DECODER.raw_decode(text, start)
            found.append(value)
        except (ValueError, RecursionError) as error:
            patience -= error.pos - start + 100 if isinstance(error, json.JSONDecodeError) else _PATIENCE // 10
            at = start + 1
            if _MEANT.match(text, start):
                patience -= _PATIENCE // 20
                mended = _NO_JSON.sub(lambda part: part[1] or "", text[start : start + _PATIENCE // 20])
                try:
                    value, _ = _DECODER.raw_decode(mended)
                except (ValueError, RecursionError):
                    continue
                found.append(value)
                return found  # where it ends in the text is not known; it is asked for at the end
    return found


def _items(value: Any) -> list[Any]:
    return list(value)[:_MOST] if isinstance(value, list | tuple) else [] if value is None else [value]


# -- paths ------------------------------------------------------------------------------------------------------------


def path_of(text: str) -> str:
    """A path in its plain form, whoever wrote it.

    >>> path_of("`.\\\\src\\\\a.py`"), path_of("./src//x/../a.py"), path_of("src/auth/"), path_of("file:///w/a.py")
    ('src/a.py', 'src/a.py', 'src/auth', '/w/a.py')
    """
    plain = text.strip().strip("`'\"*<>").removeprefix("file://").replace("\\", "/")
    if not plain:
        return ""
    found = posixpath.normpath(plain).removeprefix("//").removeprefix("./")
    return "/" + found.lstrip("/") if plain.startswith("/") else "" if found == "." else found


def _located(text: str) -> Place:
    """`src/a.py:12-20` or `src/a.py#L12` as a path and its lines."""
    plain = text.strip().strip("`'\"*")
    match = re.search(rf"{_AT}(?::\d{{1,9}})?\Z", plain[-200:])
    if match is None:
        return path_of(plain), None
    return path_of(plain[: len(plain) - len(match[0])]), Span.read(_SEVERAL.split(match["at"])[0])


def _places(value: Any) -> Iterator[Place]:
    """What stands under `files`: paths, with lines behind them or not, or objects that have a path."""
    if isinstance(value, Mapping):
        yield from _lines(value, ())
        return
    for item in _items(value):
        if isinstance(item, str):
            yield _located(item)
        elif isinstance(item, Mapping):
            yield from _of_object(item)


def _of_object(item: Mapping[str, Any]) -> Iterator[Place]:
    keys = _plain_keys(item)
    path = next((keys[name] for name in (*_PLACE, "name") if isinstance(keys.get(name), str)), None)
    if path is None:
        return
    plain, span = _located(path)
    told = next((keys[name] for name in ("lines", "line", "line_number", "line_numbers") if name in keys), None)
    spans: list[Span | None] = [*_spans(told)]
    yield from ((plain, each) for each in spans or [span])


def _lines(value: Any, files: Iterable[Place]) -> Iterator[Place]:
    """What stands under `lines`: numbers and ranges by path, a list of places, or numbers of the one file there is."""
    if isinstance(value, Mapping) and not _is_place(value):
        for path, told in value.items():
            yield from ((path_of(str(path)), span) for span in _spans(told))
        return
    paths = {path for path, _ in files}
    for item in _items(value):
        bare = [] if isinstance(item, Mapping) else list(_spans([item]))
        yield from ((path, span) for path in paths if len(paths) == 1 for span in bare)
        if not bare:
            yield from _places([item])


def _spans(told: Any) -> Iterator[Span]:
    """Numbers and ranges, one by one: `12`, `[12, 40]`, `[[10, 20]]`, `"10-20, 31"`, `[{"line": 12}]`."""
    for item in _items(told):
        if isinstance(item, Mapping):
            item = next((item[key] for key in ("line", "lines", "start") if key in item), None)
        parts = _SEVERAL.split(item[:_LONGEST]) if isinstance(item, str) else [item]
        yield from filter(None, map(Span.read, parts))


def _in_prose(text: str, known: Callable[[str], bool], asked: str) -> Iterator[Place]:
    """Paths, each with the lines that are said of it: right behind it, before it (`line 12 of a.py`), or anywhere until
    the next one."""
    starts, paths = [], []
    for match in _PATH.finditer(text):
        path = _path_in(match["path"], known, asked)
        if not path:
            continue
        starts.append(match.start())
        paths.append(path)
        behind = None if match["at"] else _RIGHT_AFTER.match(text, match.end())
        told = match["at"] or (behind and (behind["at"] or behind["cell"]))
        yield path, None
        yield from ((path, span) for span in _spans(told))
    for match in _LINES.finditer(text):
        following = bisect(starts, match.start())
        belongs = following < len(starts) and _OF.fullmatch(text, match.end(), starts[following])
        if belongs or following:
            path = paths[following if belongs else following - 1]
            yield from ((path, span) for span in _spans(match["at"]))


def _path_in(word: str, known: Callable[[str], bool], asked: str) -> str:
    """The path that a word of prose is; empty if it is none."""
    if not 0 < len(word) <= _LONGEST:
        return ""
    for form in (word, word.removeprefix("@")):  # Claude's own mark of a file
        path = path_of(form)
        if path and known(path):
            return path
    return path if path and _looks_like_a_path(word, path) and not stands_in(path, asked) else ""


def _looks_like_a_path(word: str, path: str) -> bool:
    name = path.rpartition("/")[2]
    stem, dot, suffix = name.rpartition(".")
    if name in _BARE or ("/" in path and path != "/" and word[-1] in "/\\"):
        return True
    if not dot or _PRODUCT.fullmatch(path):
        return False
    if "/" in path:
        return bool(stem) and suffix[:1].isalpha() and len(suffix) <= 10
    return _SUFFIX.fullmatch(suffix) is not None and bool(re.search("[^\\W\\d]", stem))


def stands_in(word: str, text: str) -> bool:
    """Whether a text has this word whole."""
    return word in text and re.search(rf"(?<![\w$]){re.escape(word)}(?![\w$])", text) is not None


# -- symbols ----------------------------------------------------------------------------------------------------------


def symbol_of(text: str) -> str:
    """A name in its plain form, its parts separated by dots; empty if it is none.

    >>> symbol_of("func (s *Store) Get"), symbol_of("`Store::get()`"), symbol_of("def load(path: str) -> int")
    ('Store.Get', 'Store.get', 'load')
    >>> symbol_of("(*Store).Get"), symbol_of("src/store.py:Store.get"), symbol_of("not a name")
    ('Store.Get', 'Store.get', '')
    >>> symbol_of("Store<K>::get"), symbol_of("Store.prototype.get"), symbol_of("public List<Order> find(String id)")
    ('Store.get', 'Store.get', 'find')
    """
    plain = text.strip().strip("`'\"* ")[:_LONGEST]
    receiver = re.match(r"(?:func )?\((?:\w+ )?\*?([\w.]+)(?:\[[^\]]*\])?\)[ .](?=\w)", plain)
    if receiver:
        plain = f"{receiver[1]}.{plain[receiver.end() :]}"
    if (file := re.match(r"[^\s()]*\.(\w{1,5})::?(?=\w)", plain)) and _SUFFIX.fullmatch(file[1]):
        plain = plain[file.end() :]  # of which it is
    plain = re.sub(r"^<(\w+) as [\w:]+>(?=::)", r"\1", plain)
    for _ in range(3):  # types of types
        plain = _GENERIC.sub("", plain)
    plain = plain.replace("::", ".").replace("->", ".", 1 if re.match(r"\w+->\w", plain) else 0)
    plain = re.sub(r"\.?#", ".", plain).replace(".prototype.", ".")
    keyword = re.match(_KEYWORD, plain)[0]  # type: ignore[index]
    rest = plain.removeprefix(keyword)
    if (typed := _RETURNING.match(rest)) and not keyword.endswith(("def ", "func ", "fn ", "fun ", "function ")):
        return typed[1]
    match = _NAME.match(rest)
    if match is None:  # a word that is also a name: get
        rest = plain
        match = _NAME.match(rest)
    if match is None:
        return ""
    behind = rest[match.end() :].strip()
    name = match[0].lstrip("@&")
    return name if not behind or behind[0] in "(<[:={;–—" or behind[:2] == "- " or keyword else ""


def _listed_symbols(value: Any) -> list[str]:
    found = []
    for item in _items(value):
        if isinstance(item, Mapping):
            item = next((item[key] for key in ("name", "symbol") if isinstance(item.get(key), str)), "")
        if isinstance(item, str):
            found.append(symbol_of(item) or " ".join(item.split())[:200])  # what is no name is a claim all the same
    return found


def _symbols_in_prose(text: str, asked: str) -> list[str]:
    """Names that are marked as code. Those of files are no symbols, nor are words of a language."""
    found = []
    for code in dict.fromkeys(match[2].strip() for match in _CODE.finditer(text)):
        name = symbol_of(code)
        if not name or name in _WORDS or _looks_like_a_path(code, path_of(_located(code)[0])):
            continue
        if not stands_in(name, asked):
            found.append(name)
    return found


def names_it(text: str, symbol: str) -> bool:
    """Whether a text has this name as a whole identifier. One that may be a word of the language that people speak must
    be written as a name is: called, quoted, set off, or defined.

    >>> names_it("calls get_all", "get_all"), names_it("calls get_all", "get"), names_it("I get it", "get")
    (True, False, False)
    >>> names_it("calls get()", "get"), names_it("- get: reads", "get"), names_it("def get(key)", "get")
    (True, True, True)
    """
    if not re.fullmatch("[A-Za-z]?[a-z]+", symbol):
        return stands_in(symbol, text)
    if symbol not in text:
        return False
    before = r"[\"'*`.]|\| ?|^[ \t]*+(?:(?:[-*+]|\d{1,3}[.)])[ \t]*+)?|\b(?:class|type|struct|enum|trait|interface) "
    written = rf"(?<![\w$]){symbol}\(|(?:{before}){symbol}(?:[\"'*`|:]|[ \t]*$| [-–—(|])"
    return re.search(written, text, re.MULTILINE) is not None
