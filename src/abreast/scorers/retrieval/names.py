"""Names of things in code in their plain form, whoever wrote them: paths, lines and symbols."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

LONGEST_NAME = 500  # characters
_MOST_OCCURRENCES = 200  # of one name that are looked at
_SUFFIX = re.compile(
    "bash|c|cc|cfg|cjs|conf|cpp|cs|css|csv|cts|env|go|gradle|h|hpp|html|ini|java|js|json|jsonl|jsx|kt|kts|lock|lua|md|mjs|mod|mts|php"
    "|proto|properties|py|pyi|rb|rs|rst|scala|scss|sh|sql|sum|svelte|swift|tf|toml|ts|tsx|txt|vue|xml|yaml|yml|zig",
    re.IGNORECASE,
)
_BARE = frozenset(("Makefile", "Dockerfile", "Jenkinsfile", "Procfile", "Rakefile", "Gemfile", "LICENSE", "CODEOWNERS"))
_PRODUCT = re.compile(r"[A-Z]\w*\.js")  # Node.js is no file
_RANGE = r"\d{1,9}(?: ?(?:-|–|—|to|through|until|bis|à|\.\.\.?) ?L?\d{1,9})?"
NUMBERS = rf"{_RANGE}(?:(?:, ?(?:and )?| and | & )L?{_RANGE}(?![\w.]| (?!and\b|in\b|of\b)\w))*"
AT = rf"[#:]L?(?P<at>{NUMBERS})"
_SPAN = re.compile(r"L?(\d{1,9})(?::\d{1,9}|[^\d:]{1,12}?(\d{1,9}))?")  # behind a colon is a column
SEVERAL = re.compile(r",|;|&|\band\b")
_KEYWORD = re.compile(
    r"(?:(?:pub(?:\([^)]{1,40}\))?|export|default|declare|public|private|protected|internal|static|async|abstract|final|override"
    r"|readonly|unsafe|extern|const|get|set) )*"
    r"(?:(?:def|func|fn|fun|class|function|interface|struct|trait|enum|type|record|module|method|constructor"
    r"|const|var|val|let) )?"
)
_NAME = re.compile(r"[$@&]?[^\W\d][\w$]*(?:\.[~$]?[^\W\d][\w$]*)*[!?]?")
_RETURNING = re.compile(r"[\w$.,?\[\] ]{1,200} ([^\W\d][\w$]*)\(")  # a type before the name
_GENERIC = re.compile(r"(?:::)?<[^<>()]{0,100}>|\[[^\[\]()]{0,100}\](?=[.:(])")


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


Place = tuple[str, Span | None]
"""A path, and the lines if they are named."""


def path_of(text: str) -> str:
    """A path in its plain form, whoever wrote it.

    >>> path_of("`.\\\\src\\\\a.py`"), path_of("./src//x/../a.py"), path_of("src/auth/"), path_of("file:///w/a.py")
    ('src/a.py', 'src/a.py', 'src/auth', '/w/a.py')
    """
    path = _plain_path(text)
    for _ in range(100):  # what is left may have marks around it again
        text, path = path, _plain_path(path)
        if path == text:
            break
    return path


def _plain_path(text: str) -> str:
    plain = text.strip().strip("`'\"*<>").removeprefix("file://").replace("\\", "/")
    if not plain:
        return ""
    found = posixpath.normpath(plain).removeprefix("//").removeprefix("./")
    return "/" + found.lstrip("/") if plain.startswith("/") else "" if found == "." else found


def located(text: str) -> Place:
    """`src/a.py:12-20` or `src/a.py#L12` as a path and its lines."""
    plain = text.strip().strip("`'\"*")
    match = re.search(rf"{AT}(?::\d{{1,9}})?\Z", plain[-200:])
    if match is None:
        return path_of(plain), None
    return path_of(plain[: len(plain) - len(match[0])]), Span.read(SEVERAL.split(match["at"])[0])


def looks_like_a_path(word: str, path: str) -> bool:
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
    """A name in its plain form, its parts separated by dots; empty if it is none.

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
        plain = plain[file.end() :]  # of which it is
    plain = re.sub(r"^<(\w+) as [\w:]+>(?=::)", r"\1", plain)
    for _ in range(3):  # types of types
        plain = _GENERIC.sub("", plain)
    if re.match(r"\\?(?:[^\W\d]\w*\\){1,20}[^\W\d]", plain):  # namespaces of PHP
        plain = plain.lstrip("\\").replace("\\", ".")
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


def stands_in(word: str, text: str) -> bool:
    """Whether a text has this word whole."""
    return word in text and re.search(rf"(?<![\w$]){re.escape(word)}(?![\w$])", text) is not None


def names_it(text: str, symbol: str) -> bool:
    """Whether a text has this name as a whole identifier. One that may be a word of the language that people speak must
    be written as a name is: called, quoted, set off, or defined.

    >>> names_it("calls get_all", "get_all"), names_it("calls get_all", "get"), names_it("I get it", "get")
    (True, False, False)
    >>> names_it("calls get()", "get"), names_it("- get: reads", "get"), names_it("the function get", "get")
    (True, True, True)
    """
    return next(occurrences(text, symbol), None) is not None


def occurrences(text: str, symbol: str) -> Iterator[tuple[int, int]]:
    """Where a text has this name as a whole identifier; see `names_it`."""
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
    """Without those that are only the end of another one: `b.py` beside `a/b.py` is the same thing, said shorter.

    >>> distinct(["src/a.py", "a.py", "b.py"], "/")
    ['src/a.py', 'b.py']
    """
    found = list(names)
    shorter = {end for name in found for end in ends(name, separator)}
    return [name for name in found if name not in shorter]


def ends(name: str, separator: str) -> list[str]:
    parts = name.split(separator)
    return [separator.join(parts[at:]) for at in range(1, len(parts))]
