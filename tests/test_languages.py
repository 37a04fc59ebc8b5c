"""Outlines of source files in five languages: definitions and references."""

from __future__ import annotations

import sys
import textwrap

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from abreast.errors import BadInput
from abreast.languages import Outline, grammars, language_of, outline

ENDINGS = (".py", ".go", ".ts", ".tsx", ".js", ".java", ".rs")

PYTHON = """\
import os
from places import helper, other as another

LIMIT: int = 3
lower = 4


@register
class Store(Base):
    SIZE = 1

    @property
    async def get(self, key):
        def inner():
            return helper(key)
        return os.path.join(f"{helper(1)}", inner)


def open_store():
    return Store(LIMIT)  # helper
"""
GO = """\
package stores

import "fmt"

const (
\tFirst, Second = 1, 2
)

var Global = 3

type Store[T any] struct{ n int }

type Getter interface {
\tGet(key string) int
}

func (s *Store[T]) Get(key string) int {
\tconst local = 1
\tfmt.Println(key)
\treturn Find[int](key)
}

func Find[T any](key string) T {
\tgo other()
\treturn pass(handler)
}
"""
TYPESCRIPT = """\
import { helper } from "./places";
export { helper } from "./places";
export const LIMIT = 3;
export const run = async (x: number) => {
  const local = 1;
  return a.b.helper(x);
};
export default class Store<T> extends Base {
  handle = () => this.n;
  get(key: string): T {
    return new Made(key);
  }
}
interface Getter {
  get(key: string): number;
}
type Id = string;
enum Color { Red }
function plain(a: any) {
  return helper(`${helper(a)}`);
}
"""
JAVA = """\
package stores;
import java.util.List;
public class Store<T> {
    static final int LIMIT = 3;
    int count;
    Store(int count) { this.count = make(count); }
    public <R> R get(String key) { return this.find(key).then(new a.b.Made<String>(1)); }
    class Inner { void deep() { list.forEach(this::helper); } }
}
interface Getter { int MAX = 1; void go(); }
enum Color { RED; void paint() {} }
record Point(int x) { Point { check(x); } }
"""
RUST = """\
use std::fmt::Display;
pub const LIMIT: usize = 3;
static NAME: &str = "x";
pub struct Store<T> { n: T }
enum Color { Red }
trait Get { fn get(&self) -> u8; }
type Alias = u8;
impl<T> Get for crate::a::Store<T> {
    fn get(&self) -> u8 {
        generic::<u8>(1);
        path::scoped(2);
        self.member(3);
        println!("{}", printed(4));
        helper!(5)
    }
}
fn main() { pass(helper) }
"""


def parse(name: str, text: str) -> Outline:
    result = outline(name, textwrap.dedent(text).encode())
    assert result is not None
    return result


def definitions_in(name: str, text: str) -> set[tuple[str, str, int]]:
    return {(symbol.kind, symbol.qualified, symbol.line) for symbol in parse(name, text).definitions}


def calls_in(name: str, text: str) -> set[tuple[str, str | None]]:
    return {(symbol.name, symbol.inside) for symbol in parse(name, text).references if symbol.kind == "call"}


def test_the_suffix_decides_the_language() -> None:
    names = ["a.py", "a.pyi", "b/a.go", "a.ts", "a.tsx", "a.mts", "a.cts", "a.js", "a.jsx", "a.mjs", "a.cjs"]
    languages = ["python"] * 2 + ["go"] + ["typescript"] * 8
    assert [language_of(name) for name in [*names, "A.java", "a.rs"]] == [*languages, "java", "rust"]
    assert [language_of(name) for name in ("Makefile", "a.c", ".py", "")] == [None] * 4
    assert outline("notes.md", b"def f(): pass") is None


def test_definitions_of_python() -> None:
    assert definitions_in("a.py", PYTHON) == {
        ("constant", "LIMIT", 4),
        ("class", "Store", 9),
        ("method", "Store.get", 13),
        ("function", "inner", 14),
        ("function", "open_store", 19),
    }
    assert calls_in("a.py", PYTHON) == {
        ("helper", "inner"),
        ("helper", "Store.get"),
        ("join", "Store.get"),
        ("Store", "open_store"),
    }


def test_definitions_of_go() -> None:
    assert definitions_in("a.go", GO) == {
        ("constant", "First", 6),
        ("constant", "Second", 6),
        ("constant", "Global", 9),
        ("type", "Store", 11),
        ("interface", "Getter", 13),
        ("method", "Getter.Get", 14),
        ("method", "Store.Get", 17),
        ("function", "Find", 23),
    }
    assert calls_in("a.go", GO) == {
        ("Println", "Store.Get"),
        ("Find", "Store.Get"),
        ("other", "Find"),
        ("pass", "Find"),
    }


@pytest.mark.parametrize("name", ["a.ts", "a.tsx"])
def test_definitions_of_typescript(name: str) -> None:
    assert definitions_in(name, TYPESCRIPT) == {
        ("constant", "LIMIT", 3),
        ("function", "run", 4),
        ("class", "Store", 8),
        ("method", "Store.handle", 9),
        ("method", "Store.get", 10),
        ("interface", "Getter", 14),
        ("method", "Getter.get", 15),
        ("type", "Id", 17),
        ("type", "Color", 18),
        ("function", "plain", 19),
    }
    assert calls_in(name, TYPESCRIPT) == {("helper", "run"), ("Made", "Store.get"), ("helper", "plain")}


def test_names_bound_to_modules_are_imports_not_definitions() -> None:
    source = """\
        const files = require("./files");
        const { open: opened, close } = require("./files");
        const lazy = await import("./lazy");
        const part = require("./files").part;
        const made = require("./files")(3);
        """
    result = outline("a.js", textwrap.dedent(source).encode())
    assert result is not None
    assert [symbol.name for symbol in result.definitions] == ["made"]
    imported = [symbol.name for symbol in result.references if symbol.kind == "import" and symbol.name != "require"]
    assert imported == ["files", "open", "opened", "close", "lazy"]


def test_definitions_of_java() -> None:
    assert definitions_in("A.java", JAVA) == {
        ("class", "Store", 3),
        ("constant", "Store.LIMIT", 4),
        ("method", "Store.Store", 6),
        ("method", "Store.get", 7),
        ("class", "Store.Inner", 8),
        ("method", "Store.Inner.deep", 8),
        ("interface", "Getter", 10),
        ("constant", "Getter.MAX", 10),
        ("method", "Getter.go", 10),
        ("class", "Color", 11),
        ("method", "Color.paint", 11),
        ("class", "Point", 12),
        ("method", "Point.Point", 12),
    }
    assert calls_in("A.java", JAVA) == {
        ("make", "Store.Store"),
        ("find", "Store.get"),
        ("then", "Store.get"),
        ("Made", "Store.get"),
        ("forEach", "Store.Inner.deep"),
        ("check", "Point.Point"),
    }


def test_definitions_of_rust_without_macros() -> None:
    assert definitions_in("a.rs", RUST) == {
        ("constant", "LIMIT", 2),
        ("constant", "NAME", 3),
        ("type", "Store", 4),
        ("type", "Color", 5),
        ("interface", "Get", 6),
        ("method", "Get.get", 6),
        ("type", "Alias", 7),
        ("method", "Store.get", 9),
        ("function", "main", 17),
    }
    inside = {("generic", "Store.get"), ("scoped", "Store.get"), ("member", "Store.get"), ("printed", "Store.get")}
    assert calls_in("a.rs", RUST) == inside | {("pass", "main")}


@pytest.mark.parametrize(
    ("name", "text", "imported"),
    [
        ("a.py", PYTHON, {"os", "places", "helper", "other", "another"}),
        ("a.ts", TYPESCRIPT, {"helper"}),
        ("A.java", JAVA, {"java", "util", "List"}),
        ("a.rs", RUST, {"std", "fmt", "Display"}),
    ],
)
def test_imports_are_neither_calls_nor_definitions(name: str, text: str, imported: set[str]) -> None:
    assert {symbol.name for symbol in parse(name, text).references if symbol.kind == "import"} == imported


@pytest.mark.parametrize(
    ("name", "text"), [("a.py", PYTHON), ("a.go", GO), ("a.ts", TYPESCRIPT), ("A.java", JAVA), ("a.rs", RUST)]
)
def test_every_name_occurs_once_at_the_position_in_the_outline(name: str, text: str) -> None:
    result, source = parse(name, text), text.encode()
    assert not result.broken
    symbols = [*result.definitions, *result.references]
    assert len({symbol.at for symbol in symbols}) == len(symbols), "a name is a definition or a reference, never both"
    for symbol in symbols:
        word = symbol.name.encode()
        assert source[symbol.at : symbol.at + len(word)] == word
        assert source[: symbol.at].count(b"\n") + 1 == symbol.line
    for symbol in result.definitions:
        assert symbol.line <= symbol.end_line <= len(text.splitlines())


def test_comments_and_strings_are_listed_by_position() -> None:
    text = 'x = "helper"  # helper\n'
    result = parse("a.py", text)
    assert [text[start:end] for start, end in result.quoted] == ['"helper"', "# helper"]
    assert [symbol.name for symbol in result.references] == ["x"]


def test_the_valid_part_of_a_broken_file_is_read() -> None:
    result = parse("a.py", "def whole():\n    pass\n\ndef broken(:\n")
    assert result.broken
    assert result.definitions[0].qualified == "whole"


@pytest.mark.parametrize("ending", ENDINGS)
def test_deep_nesting_does_not_overflow_the_stack(ending: str) -> None:
    result = outline(f"a{ending}", b"x = " + b"(" * 20_000 + b")" * 20_000)
    assert result is not None


def test_a_huge_file_is_not_read_and_counts_as_broken() -> None:
    result = parse("a.py", "x = 1\n" * 1_000_000)
    assert result.broken
    assert not result.references


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=300) | st.text(max_size=300).map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_any_bytes_have_an_outline_in_every_language(source: bytes) -> None:
    for ending in ENDINGS:
        result = outline(f"a{ending}", source)
        assert result is not None
        assert all(symbol.name and 1 <= symbol.line <= symbol.end_line for symbol in result.definitions)


WORDS = (
    "def class func fn impl struct type const static interface enum record import use export ( ) { } < > [ ] : ; , . "
    "= => -> :: ! & * \" ' ` ${ # // /* \n \t x Store LIMIT 1 package function new async macro_rules! $"
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(WORDS.split(" ")), max_size=60).map(" ".join))
def test_any_sequence_of_tokens_has_an_outline_in_every_language(text: str) -> None:
    for ending in ENDINGS:
        result = outline(f"a{ending}", text.encode())
        assert result is not None
        assert all(text.encode()[symbol.at :].startswith(symbol.name.encode()) for symbol in result.references)


def test_without_tree_sitter_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tree_sitter_go", None)
    grammars._load_grammar.cache_clear()
    with pytest.raises(BadInput, match="reading source code needs tree-sitter") as raised:
        outline("a.go", b"package a")
    assert raised.value.fix == 'pip install "abreast[code]"'
    grammars._load_grammar.cache_clear()
