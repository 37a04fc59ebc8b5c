"""What an answer about code claims: files, symbols and lines, from a JSON object in it or from its prose."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from abreast.scorers.jsontext import find_objects

FIELDS = ("files", "symbols", "lines", "content")
_SINGULAR = {"file": "files", "path": "files", "paths": "files", "symbol": "symbols", "line": "lines"}
_MOST, _LONGEST = 2_000, 500  # claims of one kind that are read, and characters of one
_SUFFIX = re.compile(
    "bash|c|cc|cfg|cjs|conf|cpp|cs|css|csv|cts|env|go|gradle|h|hpp|html|ini|java|js|json|jsonl|jsx|kt|kts|lock|lua|md|mjs|mod|mts|php"
    "|proto|properties|py|pyi|rb|rs|rst|scala|scss|sh|sql|sum|svelte|swift|tf|toml|ts|tsx|txt|vue|xml|yaml|yml|zig",
    re.IGNORECASE,
)
_BARE = frozenset(("Makefile", "Dockerfile", "Jenkinsfile", "Procfile", "Rakefile", "Gemfile", "LICENSE", "CODEOWNERS"))
_PRODUCT = re.compile(r"[A-Z]\w*\.js")  # Node.js is no file
_AT = r"(?:#L|:)(?P<at>\d+(?:(?:-L?|–|:)\d+)?(?:, ?\d+(?:[-–]\d+)?(?![\w.]))*)"
_PATH = re.compile(
    r"(?<![\w@/\\.:+-])(?P<path>(?:[A-Za-z]:[\\/]+|[\\/]+|~/)?+(?:[\w@+.-]+[\\/]++)*+(?:[\w@+.-]*[\w-])?)"
    rf"(?:{_AT})?"
)
_LINE_AFTER = re.compile(r"[`'\"*)\]]*[ ,(:]{0,3}(?:(?:at|on|in) )?[Ll]ines? (?P<at>\d+(?: ?[-–] ?\d+| to \d+)?)")
_LINE_BEFORE = re.compile(r"[Ll]ines? (?P<at>\d+(?: ?[-–] ?\d+| to \d+)?) (?:of|in) [`'\"*]*$")
_SPAN = re.compile(r"L?(\d{1,9})(?:\D+?(\d{1,9}))?")
_CODE = re.compile(r"(?<!`)(`++)([^`\n]{1,200})\1")
_KEYWORD = re.compile(
    r"(?:(?:pub|export|default|public|private|static|async|abstract|final|const) )*"
    r"(?:(?:def|func|fn|class|function|interface|struct|trait|enum|type|method|const|var|let) )?"
)
_NAME = re.compile(r"[^\W\d][\w$]*(?:\.[^\W\d][\w$]*)*")
_IDENTIFIER = re.compile(r"[^\W\d][\w$]*")


@dataclass(frozen=True, slots=True)
class Span:
    """Lines from the first to the last of them.

    >>> Span.read("L10-L20"), Span.read(7), Span.read("none")
    (Span(first=10, last=20), Span(first=7, last=7), None)
    """

    first: int
    last: int

    @classmethod
    def read(cls, value: Any) -> Span | None:
        """A number, `10-20`, or a pair of numbers; None if it is none of them."""
        if isinstance(value, list | tuple) and len(value) == 2 and all(type(each) is int for each in value):
            return cls(min(value), max(value)) if min(value) > 0 else None
        if isinstance(value, bool) or not isinstance(value, int | str):
            return None
        found = _SPAN.fullmatch(str(value).strip())
        if found is None:
            return None
        first = int(found[1])
        last = int(found[2] or first)
        return cls(min(first, last), max(first, last)) if min(first, last) > 0 else None

    def __str__(self) -> str:
        return f"{self.first}" if self.first == self.last else f"{self.first}-{self.last}"


@dataclass(frozen=True, slots=True)
class Claims:
    """What is claimed, each thing once. `listed` are the fields that stand in a JSON object of the answer."""

    files: tuple[str, ...]
    symbols: tuple[str, ...]
    lines: tuple[tuple[str, Span], ...]
    listed: frozenset[str] = frozenset()


Place = tuple[str, Span | None]
"""A path, and the lines if they are named."""


def claims_in(text: str, value: Any, known: Callable[[str], bool], asked: str) -> Claims:
    """What an answer claims. Of JSON objects the last one that has one of FIELDS counts; what it leaves out is read
    from the prose. There, `known` says which words are paths although they do not look it, and what the question
    (`asked`) names itself is no claim."""
    told = value if isinstance(value, Mapping) else _last_object(text)
    given = {_SINGULAR.get(str(key).lower(), str(key).lower()): each for key, each in (told or {}).items()}
    files, lines = list(_places(given.get("files"))), list(_lines(given.get("lines")))
    spans = [place for place in (*files, *lines) if place[1] is not None]
    in_prose = list(_in_prose(text, known, asked)) if not (given.keys() >= {"files", "lines"}) else []
    if "files" not in given and "lines" not in given:
        files = in_prose
    if "lines" not in given and not spans:
        spans = [place for place in in_prose if place[1] is not None]
    symbols = _listed_symbols(given["symbols"]) if "symbols" in given else _symbols_in_prose(text, asked)
    return Claims(
        distinct((path for path, _ in (*files, *lines)), "/"),
        distinct(symbols, "."),
        tuple(dict.fromkeys((path, span) for path, span in spans if span is not None))[:_MOST],
        frozenset(given.keys() & set(FIELDS)),
    )


def distinct(names: Iterable[str], separator: str) -> tuple[str, ...]:
    """Each once; what is only the end of another one (`b.py` of `a/b.py`) is the same thing, said shorter.

    >>> distinct(["src/a.py", "a.py", "b.py", "b.py"], "/")
    ('src/a.py', 'b.py')
    """
    found = list(dict.fromkeys(name for name in names if 0 < len(name) <= _LONGEST))[:_MOST]
    ends: set[str] = set()
    for name in found:
        parts = name.split(separator)
        ends.update(separator.join(parts[at:]) for at in range(1, len(parts)))
    return tuple(name for name in found if name not in ends)


def _last_object(text: str) -> Mapping[str, Any] | None:
    wanted = {*FIELDS, *_SINGULAR}
    found = [each for each in find_objects(text) if any(str(key).lower() in wanted for key in each)]
    return found[-1] if found else None


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
    match = re.fullmatch(rf"(?P<path>.*?)(?:{_AT})?", text.strip().strip("`'\"*"), re.DOTALL)
    assert match is not None
    return path_of(match["path"]), Span.read(match["at"].split(",")[0]) if match["at"] else None


def _items(value: Any) -> list[Any]:
    return list(value)[:_MOST] if isinstance(value, list | tuple) else [] if value is None else [value]


def _places(value: Any) -> Iterator[Place]:
    """What stands under `files`: paths, with lines behind them or not, or objects that have a path."""
    if isinstance(value, Mapping):
        yield from _lines(value)
        return
    for item in _items(value):
        if isinstance(item, str):
            yield _located(item)
        elif isinstance(item, Mapping):
            yield from _of_object(item)


def _of_object(item: Mapping[str, Any]) -> Iterator[Place]:
    keys = {str(key).lower(): each for key, each in item.items()}
    path = next((keys[name] for name in ("path", "file", "filename", "name") if isinstance(keys.get(name), str)), None)
    if path is None:
        return
    plain, span = _located(path)
    told = next((keys[name] for name in ("lines", "line", "line_number") if name in keys), None)
    spans: list[Span | None] = [each for each in map(Span.read, _spans(told)) if each is not None]
    yield from ((plain, each) for each in spans or [span])


def _lines(value: Any) -> Iterator[Place]:
    """What stands under `lines`: numbers and ranges by path, or a list of places."""
    if not isinstance(value, Mapping):
        yield from _places(value)
        return
    if isinstance(value.get("file", value.get("path")), str):
        yield from _of_object(value)
        return
    for path, told in value.items():
        for span in filter(None, map(Span.read, _spans(told))):
            yield path_of(str(path)), span


def _spans(told: Any) -> list[Any]:
    """Numbers and ranges, one by one: `12`, `[12, 40]`, `[[10, 20]]`, `"10-20, 31"`."""
    if isinstance(told, str):
        return told.split(",")
    return [part for item in _items(told) for part in (item.split(",") if isinstance(item, str) else [item])]


def _in_prose(text: str, known: Callable[[str], bool], asked: str) -> Iterator[Place]:
    for match in _PATH.finditer(text):
        word = match["path"]
        if not 0 < len(word) <= _LONGEST:
            continue
        path = path_of(word)
        if (
            not path
            or not (_looks_like_a_path(word, path) or known(path))
            or (_stands_in(path, asked) and not known(path))
        ):
            continue
        yield path, None
        told = match["at"]
        if told is None:
            after = _LINE_AFTER.match(text, match.end())
            before = _LINE_BEFORE.search(text, max(0, match.start() - 60), match.start())
            told = after["at"] if after else before["at"] if before else ""
        for span in filter(None, map(Span.read, told.split(","))):
            yield path, span


def _looks_like_a_path(word: str, path: str) -> bool:
    name = path.rpartition("/")[2]
    stem, dot, suffix = name.rpartition(".")
    if name in _BARE or ("/" in path and word[-1] in "/\\"):
        return True
    if not dot or _PRODUCT.fullmatch(path):
        return False
    if "/" in path:
        return bool(stem) and suffix[:1].isalpha() and len(suffix) <= 10
    return _SUFFIX.fullmatch(suffix) is not None and bool(re.search("[^\\W\\d]", stem))


def _stands_in(word: str, text: str) -> bool:
    """Whether a text has this word whole."""
    return word in text and re.search(rf"(?<![\w$]){re.escape(word)}(?![\w$])", text) is not None


# -- symbols ----------------------------------------------------------------------------------------------------------


def symbol_of(text: str) -> str:
    """A name in its plain form, its parts separated by dots; empty if it is none.

    >>> symbol_of("func (s *Store) Get"), symbol_of("`Store::get()`"), symbol_of("def load(path: str) -> int")
    ('Store.Get', 'Store.get', 'load')
    >>> symbol_of("(*Store).Get"), symbol_of("src/store.py:Store.get"), symbol_of("not a name")
    ('Store.Get', 'Store.get', '')
    """
    plain = text.strip().strip("`'\"* ")
    receiver = re.match(r"(?:func )?\((?:\w+ )?\*?([\w.]+)(?:\[[^\]]*\])?\)[ .](?=\w)", plain)
    if receiver:
        plain = f"{receiver[1]}.{plain[receiver.end() :]}"
    plain = re.sub(r"^[^\s()]*\.\w{1,5}::?(?=\w)", "", plain)  # the file that it is in
    plain = plain.replace("::", ".").replace("->", ".", 1 if re.match(r"\w+->\w", plain) else 0).replace("#", ".")
    keyword = _KEYWORD.match(plain)
    rest = plain[keyword.end() :] if keyword else plain
    match = _NAME.match(rest)
    if match is None:
        return ""
    behind = rest[match.end() :].strip()
    return match[0] if not behind or behind[0] in "(<[:={;" or (keyword and keyword[0]) else ""


def _listed_symbols(value: Any) -> list[str]:
    found = []
    for item in _items(value):
        if isinstance(item, Mapping):
            item = next((item[key] for key in ("name", "symbol") if isinstance(item.get(key), str)), "")
        if isinstance(item, str):
            found.append(symbol_of(item) or " ".join(item.split())[:200])  # what is no name is a claim all the same
    return found


def _symbols_in_prose(text: str, asked: str) -> list[str]:
    """Names that are marked as code. Those of files are no symbols."""
    found = []
    for match in _CODE.finditer(text):
        code = match[2].strip()
        name = symbol_of(code)
        if name and not _looks_like_a_path(code, path_of(_located(code)[0])) and not _stands_in(name, asked):
            found.append(name)
    return found


def names_it(text: str, symbol: str) -> bool:
    """Whether a text has this name as a whole identifier.

    >>> names_it("calls get_all and get()", "get"), names_it("calls get_all", "get")
    (True, False)
    """
    return _stands_in(symbol, text)
