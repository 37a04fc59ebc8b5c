"""Digests of functions change with everything that may change the answers, and with nothing else."""

from __future__ import annotations

import collections
import csv
import datetime
import decimal
import doctest
import functools
import hashlib
import importlib
import logging
import os
import random
import re
import shutil
import socket
import subprocess
import sys
import textwrap
import threading
import time
import types
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import jinja2
import numpy as np
import pydantic
import pytest

import abreast
from abreast import Case, Experiment, Variant
from abreast.code import digest as code_digest
from abreast.code import source as python_source
from abreast.code.digest import source_digest
from abreast.code.reference import load_function
from abreast.errors import BadInput
from conftest import Folder


def answer(case: Any, value: Any = None) -> str:
    return str(value)


@dataclass(frozen=True)
class Frozen:
    level: Any = 1


@dataclass(frozen=True, slots=True)
class FrozenSlots:
    level: Any = 1


class Slots:
    __slots__ = ("__private", "level", "never_set")

    def __init__(self, level: Any, private: int = 0) -> None:
        self.level = level
        self.__private = private


class SlotsBelow(Slots):
    __slots__ = ("more",)


class Plain:
    def __init__(self, level: Any) -> None:
        self.level = level

    def method(self, case: Any) -> Any:
        return self.level

    def __call__(self, case: Any) -> Any:
        return self.level


class Words(list[str]):
    pass


class Point(collections.namedtuple("Point", "x y")):
    __slots__ = ()


class Model(pydantic.BaseModel):
    level: int
    _hidden: int = pydantic.PrivateAttr(default=0)


def closure(value: Any) -> Callable[..., Any]:
    def inner(case: Any) -> Any:
        return value

    return inner


def default(value: Any) -> Callable[..., Any]:
    def inner(case: Any, value: Any = value) -> Any:
        return value

    return inner


def keyword_default(value: Any) -> Callable[..., Any]:
    def inner(case: Any, *, value: Any = value) -> Any:
        return value

    return inner


def attribute(value: Any) -> Callable[..., Any]:
    def inner(case: Any) -> Any:
        return None

    inner.value = value  # type: ignore[attr-defined]
    return inner


class Outer:
    class _Inner:
        def level(self) -> Any:
            return LEVEL

    def __call__(self, case: Any) -> Any:
        return self._Inner().level()


LEVEL = 1


def test_data_used_by_a_nested_class_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    before = source_digest(Outer())
    monkeypatch.setitem(globals(), "LEVEL", 2)
    assert source_digest(Outer()) != before


HOLDERS: list[Callable[[Any], Callable[..., Any]]] = [
    closure,
    default,
    keyword_default,
    attribute,
    lambda value: functools.partial(answer, value=value),
    lambda value: functools.partial(answer, "case", value),
    lambda value: Plain(value),
    lambda value: Plain(value).method,
    lambda value: Plain(Plain([{"deep": value}])).method,
    lambda value: functools.wraps(answer)(closure(value)),
    lambda value: functools.lru_cache(closure(value)),
    lambda value: {"a": value}.get,
]


@pytest.mark.parametrize("hold", HOLDERS)
def test_the_content_of_an_object_counts_wherever_it_is_stored(hold: Callable[[Any], Callable[..., Any]]) -> None:
    assert source_digest(hold(Frozen(1))) == source_digest(hold(Frozen(1)))
    assert source_digest(hold(Frozen(1))) != source_digest(hold(Frozen(2)))


def slot_pair(level: int) -> SlotsBelow:
    pair = SlotsBelow(1)
    pair.more = level
    return pair


def generator(level: int) -> Iterator[int]:
    yield from range(level)


CONTENTS: list[Callable[[int], Any]] = [
    lambda n: n,
    lambda n: str(n),
    lambda n: Frozen(n),
    lambda n: FrozenSlots(n),
    lambda n: FrozenSlots(Frozen([n])),
    lambda n: Slots(n),
    lambda n: Slots(1, private=n),
    slot_pair,
    lambda n: Plain(n),
    lambda n: Plain(Plain(n)),
    lambda n: Words([str(n)]),
    lambda n: Point(1, n),
    lambda n: Model(level=n),
    lambda n: types.SimpleNamespace(level=n),
    lambda n: np.array([1, n]),
    lambda n: np.array([1, None, {"n": n}], dtype=object),
    lambda n: np.arange(5000) // (n + 1000),
    lambda n: np.float32(n),
    lambda n: Plain(np.array([n])),
    lambda n: np.random.default_rng(n),
    lambda n: random.Random(n),
    lambda n: collections.deque([n]),
    lambda n: collections.defaultdict(list, {"n": n}),
    lambda n: collections.OrderedDict(n=n),
    lambda n: {1, "x", n},
    lambda n: {n: 1},
    lambda n: bytearray([n]),
    lambda n: memoryview(bytes([n])),
    lambda n: types.MappingProxyType({"n": n}),
    lambda n: {"n": n}.values(),
    lambda n: re.compile(f"x{{{n}}}"),
    lambda n: re.match("x*", "x" * n),
    lambda n: Path(str(n)),
    lambda n: datetime.date(2026, 1, n),
    lambda n: decimal.Decimal(n),
    lambda n: range(n),
    lambda n: iter([n]),
    generator,
    lambda n: (item for item in [n]),
    lambda n: functools.partial(answer, value=n),
    lambda n: jinja2.Template(f"hello {n}"),
    lambda n: closure(closure(n)),
    lambda n: lambda: n,
]


@pytest.mark.parametrize("make", CONTENTS)
def test_every_kind_of_data_counts_by_its_content(make: Callable[[int], Any]) -> None:
    assert source_digest(closure(make(3))) == source_digest(closure(make(3)))
    assert source_digest(closure(make(3))) != source_digest(closure(make(4)))


class Service:
    """A user's object with settings and a lock."""

    def __init__(self, model: str) -> None:
        self.model = model
        self.lock = threading.Lock()
        self.log = logging.getLogger("service")

    @functools.cached_property
    def connection(self) -> Any:
        return object()

    def __call__(self, case: Any) -> str:
        return self.model


def test_services_count_by_their_class_and_objects_that_own_them_by_their_other_content() -> None:
    with socket.socket() as first_socket, socket.socket() as second_socket, Path(__file__).open() as file:
        first_socket.bind(("127.0.0.1", 0))
        assert source_digest(closure(first_socket)) == source_digest(closure(second_socket))
        assert source_digest(closure(file)) != source_digest(closure(first_socket))
    for make in (threading.Lock, threading.Event, threading.Thread, threading.local, object, mock.Mock):
        assert source_digest(closure(make())) == source_digest(closure(make()))
    assert source_digest(Service("a")) == source_digest(Service("a"))
    assert source_digest(Service("a")) != source_digest(Service("b"))


def test_cached_properties_do_not_count() -> None:
    used = Service("a")
    assert used.connection
    assert source_digest(used) == source_digest(Service("a"))


def test_content_that_cannot_be_read_is_refused_with_the_name_of_the_object() -> None:
    with pytest.raises(BadInput, match=r"closure.<locals>.inner.value.level is a _csv.reader, whose content") as raised:
        source_digest(closure(Plain(csv.reader(["a,b"]))))
    assert raised.value.fix == "set `version:` of the variant, or make it a dataclass"


def test_a_declared_version_stands_in_for_content_that_cannot_be_read(tmp_path: Path) -> None:
    variants = [Variant("a", closure(csv.reader(["a,b"])), version=version) for version in ("", "1")]
    refused, accepted = (Experiment(cases=[Case("c", "?")], variants=[variant]) for variant in variants)
    with pytest.raises(BadInput, match="content cannot be compared"):
        refused.check()
    accepted.check()


def test_endlessly_nested_data_is_refused() -> None:
    nested: list[Any] = []
    for _ in range(5000):
        nested = [nested]
    with pytest.raises(BadInput, match="nested too deeply"):
        source_digest(closure(nested))


@dataclass
class Node:
    name: str
    peers: list[Node] = field(default_factory=list)


def test_objects_with_cyclic_references_have_a_digest() -> None:
    def ring(name: str) -> Node:
        first, second = Node("one"), Node(name)
        first.peers, second.peers = [second, first], [first]
        return first

    assert source_digest(closure(ring("two"))) == source_digest(closure(ring("two")))
    assert source_digest(closure(ring("two"))) != source_digest(closure(ring("2")))


def test_a_shared_object_counts_as_two_equal_ones() -> None:
    shared = Frozen(1)
    assert source_digest(closure([shared, shared])) == source_digest(closure([Frozen(1), Frozen(1)]))


def test_two_lambdas_on_one_line_have_different_digests() -> None:
    up, down = (lambda case: case + 1), (lambda case: case - 1)
    assert source_digest(up) != source_digest(down)


def test_an_object_that_lies_about_its_class_has_a_digest() -> None:
    assert source_digest(closure(mock.Mock(spec=answer)))


@pytest.mark.parametrize("module", [code_digest, python_source])
def test_the_examples_run(module: types.ModuleType) -> None:
    assert doctest.testmod(module).failed == 0


# Modules


class Workshop:
    """A folder of modules, written and reloaded each time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.files: dict[str, str] = {}

    def digest(self, reference: str = "python:entry_module:f", **files: str) -> str:
        self.files |= files
        for name, text in self.files.items():
            file = self.path / f"{name.replace('__', '/', 1)}.py"
            file.parent.mkdir(exist_ok=True)
            file.write_text(textwrap.dedent(text))
        self.forget()
        return source_digest(load_function(reference))

    def forget(self) -> None:
        for name in [name for name, module in sys.modules.items() if self._is_mine(module)]:
            del sys.modules[name]
        importlib.invalidate_caches()

    def _is_mine(self, module: types.ModuleType) -> bool:
        paths = [vars(module).get("__file__"), *(vars(module).get("__path__") or ())]
        return any(str(path).startswith(str(self.path)) for path in paths if path)


@pytest.fixture
def workshop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Workshop]:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    modules = Workshop(tmp_path)
    yield modules
    modules.forget()


@pytest.mark.parametrize(
    "entry",
    [
        "import helper_module\ndef f(case):\n    return helper_module.g(case)\n",
        "import helper_module as h\ndef f(case):\n    return h.g(case)\n",
        "from helper_module import g\ndef f(case):\n    return g(case)\n",
        "from helper_module import Thing\ndef f(case):\n    return Thing()\n",
        "from helper_module import VALUE\ndef f(case):\n    return VALUE\n",
        "from helper_module import *\ndef f(case):\n    return g(case)\n",
        "def f(case):\n    from helper_module import g\n    return g(case)\n",
        "def f(case):\n    import os, helper_module\n    return helper_module.g(case)\n",
        "if True: import helper_module\ndef f(case):\n    return helper_module.g(case)\n",
        "import importlib\nh = importlib.import_module('helper_module')\ndef f(case):\n    return h.g(case)\n",
        "import os, \\\n    helper_module\ndef f(case):\n    return helper_module.g(case)\n",
        "import importlib\ndef f(case):\n    return importlib.import_module('helper_module').g(case)\n",
        "def f(case):\n    return __import__('helper_module').g(case)\n",
        "def f(case):\n  match case:\n    case 1:\n      import helper_module\n      return helper_module\n",
        "try:\n  import not_there as h\nexcept ImportError:\n  import helper_module as h\ndef f(case):\n  return h\n",
        "import importlib\nALL = [importlib.import_module('helper' + '_module')]\ndef f(case):\n  return ALL[0].g()\n",
        "from middle_module import (  # why\n    g,\n)\ndef f(case):\n    return g(case)\n",
        "import middle_module\ndef f(case):\n    return middle_module.g(case)\n",
    ],
)
def test_an_edit_of_an_imported_module_changes_the_digest(entry: str, workshop: Workshop) -> None:
    helper = "VALUE = 1\nclass Thing: pass\ndef g(case):\n    return 1\n"
    middle = "import entry_module  # a circle\nfrom helper_module import g\n"
    before = workshop.digest(entry_module=entry, middle_module=middle, helper_module=helper, unrelated_module="x = 1")
    assert workshop.digest() == before
    assert workshop.digest(unrelated_module="x = 2") == before
    assert workshop.digest(helper_module=helper.replace("return 1", "return 2")) != before


def test_modules_of_a_package_count_where_they_are_imported(workshop: Workshop) -> None:
    before = workshop.digest(
        "python:some_package.entry:f",
        some_package____init__="",
        some_package__entry="from . import near\nfrom .far import g\ndef f(case):\n    return near, g\n",
        some_package__near="x = 1\n",
        some_package__far="def g(case):\n    return 1\n",
        some_package__other="x = 1\n",
    )
    reference = "python:some_package.entry:f"
    assert workshop.digest(reference, some_package__other="x = 2\n") == before
    for name in ("near", "far", "__init__"):
        text = workshop.files[f"some_package__{name}"]
        assert workshop.digest(reference, **{f"some_package__{name}": text + "y = 1\n"}) != before
        assert workshop.digest(reference, **{f"some_package__{name}": text}) == before


def test_other_imported_modules_do_not_count(workshop: Workshop) -> None:
    before = workshop.digest(
        "python:some_package:f", some_package____init__="def f(case):\n    return 1\n", some_package__other="x = 1\n"
    )
    importlib.import_module("some_package.other")
    assert source_digest(load_function("python:some_package:f")) == before


def test_data_that_a_module_reads_from_a_file_counts(workshop: Workshop) -> None:
    entry = """
        import pathlib, helper_module
        PROMPT = pathlib.Path(__file__).with_name("prompt.txt").read_text()
        def g():
            return PROMPT
        def f(case):
            return g() + helper_module.CONFIG["x"]
    """
    helper = """
        import json, pathlib
        CONFIG = json.loads(pathlib.Path(__file__).with_name("config.json").read_text())
    """
    (workshop.path / "prompt.txt").write_text("hello")
    (workshop.path / "config.json").write_text('{"x": "1"}')
    before = workshop.digest(entry_module=entry, helper_module=helper)
    (workshop.path / "prompt.txt").write_text("good day")
    changed = workshop.digest()
    assert changed != before
    (workshop.path / "config.json").write_text('{"x": "2"}')
    assert workshop.digest() not in (before, changed)


def test_layout_and_comments_do_not_count_and_docstrings_do(workshop: Workshop) -> None:
    before = workshop.digest(entry_module="def f(case):\n    'Be brief.'\n    return {'a': [1, 2]}[case]\n")
    laid_out = """
        # A comment, blank lines, other quotes, other line breaks.


        def f( case ) :  # here too
          "Be brief."
          return ({
              "a": [1, 2],
          }[case])
    """
    assert workshop.digest(entry_module=laid_out) == before
    assert workshop.digest(entry_module=laid_out.replace("Be brief", "Be long")) != before  # it may be a prompt


def test_constants_that_a_pattern_matches_count(workshop: Workshop) -> None:
    source = "def f(case):\n    match case:\n        case {}:\n            return 1\n    return 2\n"
    digests = {workshop.digest(entry_module=source.format(value)) for value in ("True", "False", "None", "1")}
    assert len(digests) == 4


def test_the_digest_of_a_source_is_the_same_under_every_python_version() -> None:
    source = python_source.read_source(EVERYTHING.encode())
    assert source is not None
    assert source.digest == "b8e545c8471899b63e5c2f33d8d09ed6"


def test_a_function_has_the_same_digest_under_every_python_version(tmp_path: Path) -> None:
    assert run_script(tmp_path, EVERYTHING) == "0b0ad58d0586ad413d866a3a56f1d085"


EVERYTHING = """
import collections, enum, functools, pathlib, re, typing
from dataclasses import dataclass, field
class Colour(enum.Enum):
    RED = "red"
@dataclass(frozen=True, slots=True)
class Settings:
    names: list[str] = field(default_factory=lambda: ["a"])
    level: int = 1
class Pair(typing.NamedTuple):
    left: int = 1
Point = collections.namedtuple("Point", "x y")
def twice(function):
    @functools.wraps(function)
    def wrapper(*arguments):
        return function(*arguments) * 2
    return wrapper
@functools.lru_cache(maxsize=None)
def cached(x: int, /, *more, key=None, **rest) -> "int":
    return x
class Box:
    __slots__ = ("held",)
    def __init__(self): self.held = {1, 2}
    @property
    def width(self): return [x for x in self.held if x] + [*range(3)]
    @classmethod
    def make(cls): return cls()
PATTERN, WORDS = re.compile("a+", re.I), frozenset("xyz")
@twice
def f(case, words={"a", "b"}, *, settings=Settings()):
    total = 0
    try:
        with open(case) as file, pathlib.Path() as path:
            total += sum(len(line) for line in file) ** -1 or 1_000 + 0x10 + 1e3 + 2j
    except* (ValueError, KeyError) as errors:
        raise RuntimeError(f"{errors!r:>{settings.level}} {case=} {{}}") from errors
    finally:
        del total
    match case:
        case {"a": [1, *rest], **others} if rest: return b"bytes", ..., "\\N{BULLET}\\U0001fae8"
        case Pair(left=1) | None: return not (lambda q: q @ q)(case)
    while (n := cached(1)) and 1 < n <= 2 != 3: yield n
    return Colour.RED, Settings(), Pair(), Point(1, 2), Box.make().width, PATTERN, WORDS, words, f"{case:{n}}"
"""


def test_imports_for_type_checkers_do_not_count(workshop: Workshop) -> None:
    entry = "import typing\nif typing.TYPE_CHECKING:\n    import helper_module\ndef f(case):\n    return 1\n"
    before = workshop.digest(entry_module=entry, helper_module="x = 1\n")
    assert workshop.digest(helper_module="x = 2\n") == before


def test_a_digest_imports_nothing(workshop: Workshop) -> None:
    entry = "def f(case):\n    import helper_module\n    return helper_module.VALUE\n"
    workshop.digest(entry_module=entry, helper_module="VALUE = 1\n")
    assert "helper_module" not in sys.modules


def test_a_project_may_move_to_another_folder(tmp_path: Path, workshop: Workshop) -> None:
    entry = """
        import os, pathlib
        HERE = pathlib.Path(__file__).parent
        TEXT = os.path.dirname(__file__)
        class Files:
            prompts = HERE / "{}"
        def f(case, home=HERE):
            return HERE, TEXT, Files.prompts
    """
    before, other = (workshop.digest(entry_module=entry.format(name)) for name in ("prompts", "others"))
    assert before != other
    moved = Workshop(tmp_path / "elsewhere" / "deep")
    moved.path.mkdir(parents=True)
    sys.path.insert(0, str(moved.path))
    workshop.forget()
    assert moved.digest(entry_module=entry.format("prompts")) == before
    sys.path.remove(str(moved.path))
    moved.forget()


def test_a_chain_of_calls_may_be_as_long_as_a_project_is_large(workshop: Workshop) -> None:
    calls = "".join(f"def f{n}(case):\n    return f{n + 1}(case)\n" for n in range(2000))
    entry = f"{calls}def f2000(case):\n    return LEVEL\nLEVEL = int('1')\nf = f0\n"
    before = workshop.digest(entry_module=entry)
    workshop.digest()
    sys.modules["entry_module"].LEVEL = 2  # type: ignore[attr-defined]
    assert source_digest(load_function("python:entry_module:f")) != before


def test_constants_and_replaced_functions_of_modules_inside_packages_count(workshop: Workshop) -> None:
    entry = "import some_package.inner\ndef f(case):\n  return some_package.inner.g(some_package.inner.DATA)\n"
    before = workshop.digest(
        entry_module=entry,
        some_package____init__="",
        some_package__inner="def g(case):\n    return 1\nDATA = [int('1')]\n",
    )
    inner: Any = sys.modules["some_package.inner"]
    function = load_function("python:entry_module:f")
    inner.DATA.append(2)
    changed = source_digest(function)
    assert changed != before
    inner.g = lambda case: 2
    assert source_digest(function) not in (before, changed)


def test_a_container_counts_as_it_was_before_the_function_filled_it(workshop: Workshop) -> None:
    entry = """
        CACHE, ASKED, SETTINGS = {}, [], {"level": 1}
        def f(case):
            ASKED.append(case)
            return CACHE.setdefault(case, SETTINGS["level"]), also(case)
        def also(case):
            return ASKED
    """
    before = workshop.digest(entry_module=entry)
    function: Any = load_function("python:entry_module:f")
    function("case")
    assert source_digest(function) == before
    sys.modules["entry_module"].SETTINGS["level"] = 2  # type: ignore[attr-defined]
    assert source_digest(function) != before


def test_code_edited_after_it_was_loaded_has_neither_the_old_nor_the_new_digest(
    workshop: Workshop,
) -> None:
    old = workshop.digest(entry_module="def f(case):\n    return 1\n")
    function = load_function("python:entry_module:f")
    new_text = "import os\ndef f(case):\n    return 2\n"
    (workshop.path / "entry_module.py").write_text(new_text)
    between = source_digest(function)
    new = workshop.digest(entry_module=new_text)
    assert len({old, between, new}) == 3


def test_modules_in_an_archive_count(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = workshop.path / "modules.zip"
    monkeypatch.syspath_prepend(str(archive))

    def digest(text: str) -> str:
        with zipfile.ZipFile(archive, "w") as file:
            file.writestr("zipped_module.py", text)
        sys.path_importer_cache.pop(str(archive), None)
        return workshop.digest(entry_module="import zipped_module\ndef f(case):\n    return zipped_module.g()\n")

    before = digest("def g():\n    return 1\n")
    assert digest("def g():\n    return 1  # why\n") == before
    assert digest("def g():\n    return 2\n") != before


def test_a_module_loaded_from_a_file_under_the_name_of_another_counts(workshop: Workshop) -> None:
    entry = """
        import importlib.util, pathlib, helper_module
        spec = importlib.util.spec_from_file_location("helper_module", pathlib.Path(__file__).parent / "plugin.txt.py")
        plugin = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(plugin)
        ask = plugin.ask
        def f(case):
            return ask()
    """
    (workshop.path / "plugin.txt.py").write_text("LEVEL = 1\ndef ask():\n    return LEVEL\n")
    before = workshop.digest(entry_module=entry, helper_module="def ask():\n    return 0\n")
    (workshop.path / "plugin.txt.py").write_text("LEVEL = 2\ndef ask():\n    return LEVEL\n")
    assert workshop.digest() != before


def test_the_declared_encoding_of_a_source_is_followed(workshop: Workshop) -> None:
    file = workshop.path / "entry_module.py"
    digests = []
    for encoding, letter in [("latin-1", "é"), ("utf-8", "é"), ("latin-1", "è")]:
        file.write_bytes(f"# coding: {encoding}\ndef f(case):\n    return '{letter}'\n".encode(encoding))
        digests.append(workshop.digest())
    assert digests[0] == digests[1] != digests[2]


def test_state_that_a_function_of_a_module_remembers_does_not_count(workshop: Workshop) -> None:
    entry = """
        CLIENT = None
        def f(case):
            global CLIENT
            CLIENT = CLIENT or "a client"
            return CLIENT
    """
    before = workshop.digest(entry_module=entry)
    function = load_function("python:entry_module:f")
    function("case")
    assert source_digest(function) == before


def test_only_names_that_are_read_count_and_not_attributes_with_that_name(workshop: Workshop) -> None:
    script = """
        level = {}
        class Box:
            pass
        def f(case):
            return [(lambda: case.level)() for _ in range(3)]
    """
    first, second = (run_script(workshop.path, script.format(level)) for level in ("level = 1", "level = 2"))
    assert first == second
    script = script.replace("case.level", "level")
    first, second = (run_script(workshop.path, script.format(level)) for level in ("level = 1", "level = 2"))
    assert first != second


def install(path: Path, name: str, module: str, version: str, text: str, *, from_folder: bool = False) -> None:
    """A package as installed by pip in a separate site-packages."""
    site = path / "site-packages"
    for old in site.glob("*.dist-info"):
        shutil.rmtree(old)
    file = site / f"{module}.py"
    info = site / f"{name}-{version}.dist-info"
    for folder in (file.parent, info):
        folder.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (info / "RECORD").write_text(f"{module}.py,sha256={hashlib.sha256(text.encode()).hexdigest()},{len(text)}\n")
    if from_folder:
        (info / "direct_url.json").write_text('{"dir_info": {}, "url": "file:///home/me/project"}')


@pytest.mark.parametrize("module", ["installed_lib", "installed_space/inner"])
def test_the_version_of_an_installed_package_counts_and_not_its_files(tmp_path: Path, module: str) -> None:
    script = f"def f(case):\n    import {module.replace('/', '.')}\n    return {module.split('/')[0]}\n"

    def digest(version: str, text: str) -> str:
        install(tmp_path, "Other-Name", module, version, text)
        return run_script(tmp_path, script, PYTHONPATH=f"{tmp_path / 'site-packages'}")

    before = digest("1.0", "x = 1\n")
    assert digest("1.0", "x = 2\n") == before
    assert digest("1.1", "x = 1\n") != before


def test_a_package_installed_from_a_folder_counts_by_its_files(tmp_path: Path) -> None:
    script = "import installed_lib\ndef f(case):\n    return installed_lib.x\n"

    def digest(text: str) -> str:
        install(tmp_path, "installed-lib", "installed_lib", "1.0", text, from_folder=True)
        return run_script(tmp_path, script, PYTHONPATH=f"{tmp_path / 'site-packages'}")

    assert digest("x = 1\n") == digest("x = 1\n")
    assert digest("x = 1\n") != digest("x = 2\n")


def test_a_function_behind_a_decorator_of_a_library_counts(workshop: Workshop) -> None:
    entry = "import contextlib\n@contextlib.contextmanager\ndef f(case):\n    yield LEVEL\nLEVEL = int('1')\n"
    before = workshop.digest(entry_module=entry)
    load_function("python:entry_module:f")
    sys.modules["entry_module"].LEVEL = 2  # type: ignore[attr-defined]
    assert source_digest(load_function("python:entry_module:f")) != before


# Scripts and other processes


SOURCE = Path(abreast.__file__).parents[1]


def run_script(path: Path, script: str, seed: str = "0", python: str = sys.executable, **environment: str) -> str:
    file = path / "script.py"
    file.write_text(
        textwrap.dedent(script) + "\nfrom abreast.code.digest import source_digest\nprint(source_digest(f))\n"
    )
    environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONDONTWRITEBYTECODE": "1", **environment}
    environment["PYTHONPATH"] = f"{environment.get('PYTHONPATH', '')}{os.pathsep}{SOURCE}"
    done = subprocess.run([python, file], capture_output=True, text=True, cwd=path, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


SCRIPT = """
import functools, logging, random, re, threading
from dataclasses import dataclass, field
import jinja2
import numpy as np
import helper_module
from other_module import Base, VALUE
LOG = logging.getLogger(__name__)
CHANCE = random.Random()
WORDS = {"b", "a", "c", ("d", 1)}
TABLE = np.arange(10)
TEMPLATE = jinja2.Template("hello {{ name }}")
@dataclass(frozen=True, slots=True)
class Settings:
    names: frozenset = frozenset({"x", "y", "z"})
    level: int = 3
class Judge(Base):
    kinds = {"one", "two"}
    def __init__(self, settings):
        self.settings, self.lock = settings, threading.Lock()
    def ask(self, case, *, words=frozenset("abc")):
        LOG.info("asked")
        return helper_module.g(case), WORDS, TABLE, TEMPLATE, VALUE, CHANCE.random(), {"p", "q"} & words
UNUSED = 1
f = functools.partial(Judge(Settings()).ask, words={"k", "l", "m"})
"""


def test_a_digest_is_the_same_in_every_process_and_follows_what_a_script_uses(tmp_path: Path) -> None:
    (tmp_path / "helper_module.py").write_text("def g(case):\n    return {'a', 'b'}\n")
    (tmp_path / "other_module.py").write_text("VALUE = 1\nclass Base:\n    pass\n")
    before = run_script(tmp_path, SCRIPT, "1")
    assert {run_script(tmp_path, SCRIPT, seed) for seed in ("2", "3", "random")} == {before}
    assert run_script(tmp_path, SCRIPT.replace("UNUSED = 1", "UNUSED = 2\n\n")) == before
    for old, new in [
        ("level: int = 3", "level: int = 4"),
        ("Settings()", "Settings(level=5)"),
        ("arange(10)", "arange(11)"),
        ("hello", "bye"),
        ('"two"', '"three"'),
        ('"k", "l"', '"k"'),
    ]:
        assert run_script(tmp_path, SCRIPT.replace(old, new)) != before, new
    for name in ("helper_module.py", "other_module.py"):
        text = (tmp_path / name).read_text()
        (tmp_path / name).write_text(text + "\nMORE = 1\n")
        assert run_script(tmp_path, SCRIPT) != before, name
        (tmp_path / name).write_text(text)


def test_functions_typed_at_a_prompt_or_in_a_notebook_count_by_what_was_typed(tmp_path: Path) -> None:
    script = """
        import linecache
        def cell(number, text):
            name = f"<cell {number}>"
            linecache.cache[name] = (len(text), None, text.splitlines(True), name)
            exec(compile(text, name, "exec"), globals())
        cell(1, "LEVEL = 1\\ndef helper():\\n    return LEVEL\\n")
        cell(2, "import enum\\nclass Kind(enum.Enum):\\n    A = 1\\ndef f(case):\\n    return helper(), Kind.A\\n")
    """
    before = run_script(tmp_path, script)
    assert run_script(tmp_path, script.replace("return LEVEL", "return (LEVEL)  # the same")) == before
    for old, new in [("LEVEL = 1", "LEVEL = 2"), ("return LEVEL", "return -LEVEL"), ("A = 1", "A = 2")]:
        assert run_script(tmp_path, script.replace(old, new)) != before


def test_functions_made_by_exec_count_by_what_was_compiled(tmp_path: Path) -> None:
    script = "space = {}\nexec('X = 1\\ndef f(case):\\n    return X + 1', space)\nf = space['f']\n"
    before = run_script(tmp_path, script)
    assert run_script(tmp_path, f"# elsewhere\n{script}") == before
    for old, new in [("X = 1", "X = 2"), ("X + 1", "X - 1"), ("X + 1", "X + 2")]:
        assert run_script(tmp_path, script.replace(old, new)) != before


def test_a_digest_is_fast() -> None:
    source_digest(test_a_digest_is_fast)
    begin = time.perf_counter()
    for _ in range(3):
        source_digest(test_a_digest_is_fast)
        source_digest(Plain(HOLDERS))
    assert (time.perf_counter() - begin) / 6 < 0.05


# Loading


def load_error(folder: Folder, reference: str) -> str:
    """The error of a command that refuses a reference."""
    folder.cases(1)
    folder.write("spec.yaml", f"cases: cases.jsonl\nvariants: {{a: {{target: '{reference}'}}}}\nscorers: [exact]\n")
    done = folder.abreast("check", "spec.yaml")
    assert done.code == 2, done.output
    assert done.err.startswith("error: spec.yaml")
    return done.err.replace(str(folder.path), "HERE")


@pytest.mark.parametrize(
    ("reference", "message", "fix"),
    [
        ("python:absent_one:f", 'no module named "absent_one"', 'install "absent_one", or put it in HERE'),
        ("python:thingz_one:f", 'no module named "thingz_one"', '(did you mean "things_one"?)'),
        (
            "python:buried_one:f",
            'no module named "buried_one"',
            "use python:deep.er.buried_one:f for HERE/deep/er/buried_one.py",
        ),
        ("python:deep/er/buried_one.py:f", "does not name a module", "use python:deep.er.buried_one:f"),
        ("python:.things_one:f", "does not name a module", "use python:things_one:f"),
        ("python:../things_one:f", "does not name a module", "next to the spec"),
        ("python:things_one", "not a function reference", "use python:MODULE:FUNCTION"),
        ("python:things_one:predic", 'HERE/things_one.py has no "predic"', '(did you mean "predict"?)'),
        ("python:things_one:LEVEL", "LEVEL is not a function but an int", "define a function in things_one"),
        ("python:things_one:Judge", "Judge is a class", "judge = Judge(), and use python:things_one:judge.METHOD"),
        ("python:things_one:Oracle", "Oracle is a class", "oracle = Oracle(), and use python:things_one:oracle"),
        ("python:things_one:Judge.ask", "ask is a method", "judge = Judge(), and use python:things_one:judge.ask"),
        ("python:things_one:angry.word", '"word" cannot be read: ValueError: no (HERE/things_one.py, line 10)', ""),
        ("python:misspelt_one:f", "SyntaxError: '(' was never closed (HERE/misspelt_one.py, line 2)", "python -c"),
        ("python:failing_one:f", "JSONDecodeError: Expecting value", "(HERE/failing_one.py, line 2)"),
        ("python:leaving_one:f", "SystemExit: bye (HERE/leaving_one.py, line 2)", 'if __name__ == "__main__":'),
        (
            "python:needing_one:f",
            "No module named 'absent_one' (HERE/needing_one.py, line 1)",
            'install "absent_one" in',
        ),
    ],
)
def test_a_reference_that_cannot_be_loaded_is_refused_with_location_and_fix(
    folder: Folder, reference: str, message: str, fix: str
) -> None:
    folder.write(
        "things_one.py",
        """\
        LEVEL = 1
        class Judge:
            def ask(self, case):
                return "yes"
        class Oracle(Judge):
            __call__ = Judge.ask
        class Angry:
            @property
            def word(self):
                raise ValueError("no")
        angry = Angry()
        def predict(case):
            return "yes"
        """,
    )
    folder.write("deep/er/buried_one.py", "def f(case):\n    return 1\n")
    folder.write("misspelt_one.py", "def f(case):\n    return (1\n")
    folder.write("failing_one.py", "import json\nDATA = json.loads('')\n")
    folder.write("leaving_one.py", "import sys\nsys.exit('bye')\n")
    folder.write("needing_one.py", "import absent_one\n")
    error = load_error(folder, reference)
    assert message in error
    assert fix in error


def test_modules_beside_the_spec_take_precedence_over_those_of_the_working_folder(folder: Folder) -> None:
    folder.cases(1)
    folder.write("place_one.py", "def f(case):\n    return 'no'\n")
    folder.write("inner/place_one.py", "def f(case):\n    return 'yes'\n")
    spec = (
        "cases: ../cases.jsonl\nvariants: {a: {target: python:place_one:f}}\nscorers: [exact]\nstore: ../results.db\n"
    )
    folder.write("inner/spec.yaml", spec)
    assert folder.command("run", "inner/spec.yaml").code == 0
    assert folder.sql("select answer from predictions") == [{"answer": "yes"}]


def test_a_module_of_the_same_name_beside_another_spec_is_not_mistaken_for_it(folder: Folder) -> None:
    for name in ("one", "two"):
        folder.write(f"{name}/twin_module.py", f"def f(case):\n    return '{name}'\n")
        folder.write(
            f"{name}/spec.yaml",
            "cases: [{id: a, input: x, expected: y}]\nvariants: {a: {target: python:twin_module:f}}\nscorers: [text]\n",
        )
    assert folder.abreast("check", "one/spec.yaml").code == 0
    refused = folder.abreast("check", "two/spec.yaml")
    assert refused.code == 2
    assert "one/twin_module.py is loaded under that name" in refused.err
    assert folder.abreast("check", "one/spec.yaml").code == 0
