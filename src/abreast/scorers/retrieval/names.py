"""Normalize paths, line ranges and symbols, and find symbols in text."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

LONGEST_NAME = 500  # characters
_MOST_OCCURRENCES = 200  # occurrences of one symbol to read in a text
_SUFFIX = re.compile(
    "bash|c|cc|cfg|cjs|conf|cpp|cs|css|csv|cts|env|go|gradle|h|hpp|html|ini|java|js|json|jsonl|jsx|kt|kts|lock|lua|md|mjs|mod|mts|php"
    "|proto|properties|py|pyi|rb|rs|rst|scala|scss|sh|sql|sum|svelte|swift|tf|toml|ts|tsx|txt|vue|xml|yaml|yml|zig",
    re.IGNORECASE,
)
_BARE = frozenset(("Makefile", "Dockerfile", "Jenkinsfile", "Procfile", "Rakefile", "Gemfile", "LICENSE", "CODEOWNERS"))
_PRODUCT = re.compile(r"[A-Z]\w*\.js")  # Node.js is not a file
_RANGE = r"\d{1,9}(?: ?(?:-|–|—|to|through|until|bis|à|\.\.\.?) ?L?\d{1,9})?"
NUMBERS = rf"{_RANGE}(?:(?:, ?(?:and )?| and | & )L?{_RANGE}(?![\w.]| (?!and\b|in\b|of\b)\w))*"
AT = rf"[#:]L?(?P<at>{NUMBERS})"
_SPAN = re.compile(r"L?(\d{1,9})(?::\d{1,9}|[^\d:]{1,12}?(\d{1,9}))?")  # the number after a colon is a column
SEVERAL = re.compile(r",|;|&|\band\b")
_KEYWORD = re.compile(
    r"(?:(?:pub(?:\([^)]{1,40}\))?|export|default|declare|public|private|protected|internal|static|async|abstract|final"
    r"|override|readonly|unsafe|extern|const(?= (?:async|unsafe|extern|fn) )|get|set) )*(?:(?:(?P<definition>def|func"
    r"|fn|fun|class|function|interface|struct|trait|enum|type|record|module|const)|method|constructor|var|val|let) )?"
)
_NAME = re.compile(r"[$@&]?[^\W\d][\w$]*(?:\.[~$]?[^\W\d][\w$]*)*[!?]?")
_RETURNING = re.compile(r"[\w$.,?\[\] ]{1,200} ([^\W\d][\w$]*)\(")  # a type before the name
_GENERIC = re.compile(r"(?:::)?<[^<>()]{0,100}>|\[[^\[\]()]{0,100}\](?=[.:(])")


@dataclass(frozen=True, slots=True)
class Span:
    """A range of lines, both ends included.

    >>> Span.read("L10-L20"), Span.read(7), Span.read("12:5"), Span.read("none")
    (Span(first=10, last=20), Span(first=7, last=7), Span(first=12, last=12), None)
    """

    first: int
    last: int

    @classmethod
    def read(cls, value: Any) -> Span | None:
        """Parse a number, `10-20`, or a pair of numbers; None for anything else."""
        if isinstance(value, list | tuple) and len(value) == 2:
            ends = value
        elif isinstance(value, str) and (match := _SPAN.fullmatch(value.strip())):
            ends = int(match[1]), int(match[2] or match[1])
        else:
            ends = value, value
        if not all(type(line) is int and 0 < line < 10**9 for line in ends):
            return None
        return cls(min(ends), max(ends))

    def __str__(self) -> str:
        return f"{self.first}" if self.first == self.last else f"{self.first}-{self.last}"


Location = tuple[str, Span | None]
"""A path, and a range of lines if there is one."""


def path_of(text: str) -> str:
    """Normalize a path.

    >>> path_of("`.\\\\src\\\\a.py`"), path_of("./src//x/../a.py"), path_of("src/auth/"), path_of("file:///w/a.py")
    ('src/a.py', 'src/a.py', 'src/auth', '/w/a.py')
    """
    path = _plain_path(text)
    for _ in range(100):  # what is left may be quoted again
        text, path = path, _plain_path(path)
        if path == text:
            break
    return path


def _plain_path(text: str) -> str:
    plain = text.strip().strip("`'\"*<>").removeprefix("file://").replace("\\", "/")
    if not plain:
        return ""
    path = posixpath.normpath(plain).removeprefix("//").removeprefix("./")
    return "/" + path.lstrip("/") if plain.startswith("/") else "" if path == "." else path


def parse_location(text: str) -> Location:
    """Parse `src/a.py:12-20` or `src/a.py#L12`."""
    plain = text.strip().strip("`'\"*")
    match = re.search(rf"{AT}(?::\d{{1,9}})?\Z", plain[-200:])
    if match is None:
        return path_of(plain), None
    return path_of(plain[: len(plain) - len(match[0])]), Span.read(SEVERAL.split(match["at"])[0])


def looks_like_path(word: str, path: str) -> bool:
    name = path.rpartition("/")[2]
    stem, dot, suffix = name.rpartition(".")
    if name in _BARE or ("/" in path and path != "/" and word[-1] in "/\\"):
        return True
    if not dot or _PRODUCT.fullmatch(path):
        return False
    if "/" in path:
        return bool(stem) and suffix[:1].isalpha() and len(suffix) <= 10
    return _SUFFIX.fullmatch(suffix) is not None and bool(re.search("[^\\W\\d]", stem))


def symbol_of(text: str) -> str:
    """Normalize a symbol to parts separated by dots; empty if it is not a name.

    >>> symbol_of("func (s *Store) Get"), symbol_of("`Store::get()`"), symbol_of("def load(path: str) -> int")
    ('Store.Get', 'Store.get', 'load')
    >>> symbol_of("(*Store).Get"), symbol_of("src/store.py:Store.get"), symbol_of("not a name")
    ('Store.Get', 'Store.get', '')
    >>> symbol_of("Store<K>::get"), symbol_of("Store.prototype.get"), symbol_of("public List<Order> find(String id)")
    ('Store.get', 'Store.get', 'find')
    """
    plain = text.strip().strip("`'\"* ")[:LONGEST_NAME]
    receiver = re.match(r"(?:func )?\((?:\w+ )?\*?([\w.]+)(?:\[[^\]]*\])?\)[ .](?=\w)", plain)
    if receiver:
        plain = f"{receiver[1]}.{plain[receiver.end() :]}"
    if (file := re.match(r"[^\s()]*\.(\w{1,5})::?(?=\w)", plain)) and _SUFFIX.fullmatch(file[1]):
        plain = plain[file.end() :]  # drop the file name
    plain = re.sub(r"^<(\w+) as [\w:]+>(?=::)", r"\1", plain)
    for _ in range(3):  # generics may be nested
        plain = _GENERIC.sub("", plain)
    if re.match(r"\\?(?:[^\W\d]\w*\\){1,20}[^\W\d]", plain):  # PHP namespaces
        plain = plain.lstrip("\\").replace("\\", ".")
    plain = plain.replace("::", ".").replace("->", ".", 1 if re.match(r"\w+->\w", plain) else 0)
    plain = re.sub(r"\.?#", ".", plain).replace(".prototype.", ".")
    keyword = re.match(_KEYWORD, plain)[0]  # type: ignore[index]
    rest = plain.removeprefix(keyword)
    if (typed := _RETURNING.match(rest)) and not keyword.endswith(("def ", "func ", "fn ", "fun ", "function ")):
        return typed[1]
    match = _NAME.match(rest)
    if match is None:  # a keyword that is also a name: get
        rest = plain
        match = _NAME.match(rest)
    if match is None:
        return ""
    behind = rest[match.end() :].strip()
    name = match[0].lstrip("@&")
    return name if not behind or behind[0] in "(<[:={;–—" or behind[:2] == "- " or keyword else ""


def declared_symbol(code: str) -> str:
    """Return the symbol that a line of code declares; empty if it declares none.

    >>> declared_symbol("export async function load() {"), declared_symbol("load()")
    ('load', '')
    """
    match = _KEYWORD.match(code)
    return symbol_of(code) if match and match["definition"] else ""


def contains_word(word: str, text: str) -> bool:
    """Whether a text contains this word, not only as part of another."""
    return word in text and re.search(rf"(?<![\w$]){re.escape(word)}(?![\w$])", text) is not None


def names_symbol(text: str, symbol: str) -> bool:
    """Whether a text contains this symbol as a complete identifier.

    A symbol that could be an English word must be marked as a name: called, quoted, set off, or defined.

    >>> names_symbol("calls get_all", "get_all"), names_symbol("calls get_all", "get"), names_symbol("I get it", "get")
    (True, False, False)
    >>> names_symbol("calls get()", "get"), names_symbol("- get: reads", "get"), names_symbol("the function get", "get")
    (True, True, True)
    """
    return next(occurrences(text, symbol), None) is not None


def occurrences(text: str, symbol: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each occurrence of a symbol in a text; see `names_symbol`."""
    if symbol not in text:
        return
    if not re.fullmatch("[A-Za-z]?[a-z]+", symbol):
        pattern = rf"(?<![\w$])(?P<name>{re.escape(symbol)})(?![\w$])"
    else:
        before = r"[\"'*`.]|\| ?|^[ \t]*+(?:(?:[-*+]|\d{1,3}[.)])[ \t]*+)?"
        kind = "class|type|struct|enum|trait|interface|function|method|func|def|fn|constant|variable"
        pattern = (
            rf"(?<![\w$])(?P<name>{symbol})(?=\()|(?:{before})(?P<set_off>{symbol})(?:[\"'*`|:]|[ \t]*$| [-–—(|])"
            rf"|\b(?:{kind}) (?P<kind>{symbol})(?![\w$])"
        )
    for match in islice(re.finditer(pattern, text, re.MULTILINE), _MOST_OCCURRENCES):
        yield match.span(match.lastgroup or 0)


def distinct(names: Iterable[str], separator: str) -> list[str]:
    """Drop names that are the end of another name: `b.py` if there is `a/b.py`.

    >>> distinct(["src/a.py", "a.py", "b.py"], "/")
    ['src/a.py', 'b.py']
    """
    full = list(names)
    shorter = {end for name in full for end in ends(name, separator)}
    return [name for name in full if name not in shorter]


def ends(name: str, separator: str) -> list[str]:
    parts = name.split(separator)
    return [separator.join(parts[index:]) for index in range(1, len(parts))]
