"""Plugins: targets, scorers, suites and other parts that installed packages register as entry points."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeVar, cast

from abreast.errors import AbreastError, PluginError, TrialError, classify, location

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

Kind = Literal["target", "scorer", "suite", "limit", "engine", "store", "format"]
Base = TypeVar("Base")

GROUPS: dict[Kind, str] = {
    "target": "abreast.targets",
    "scorer": "abreast.scorers",
    "suite": "abreast.suites",
    "limit": "abreast.limits",
    "engine": "abreast.engines",
    "store": "abreast.stores",
    "format": "abreast.formats",
}
LONGEST_VALUE = 100  # characters of a wrong value that a message shows


@dataclass(frozen=True, slots=True)
class Plugin:
    """An entry point of one of our groups. Whatever is wrong with it is reported with the package it comes from."""

    kind: Kind
    point: EntryPoint

    def __str__(self) -> str:
        package = self.package
        return f'{self.kind} "{self.point.name}" ({f"{package}, " if package else ""}{self.point.value})'

    @property
    def package(self) -> str | None:
        """The distribution and its version, such as `my-package 1.0`."""
        return None if self.point.dist is None else f"{self.point.dist.name} {self.point.dist.version}"

    def error(self, problem: str) -> PluginError:
        article = "An" if self.kind == "engine" else "A"
        return PluginError(f"{self}: {problem}", f'see docs/how-to/extending.md, "{article} {self.kind} of your own"')

    def load(self) -> Any:
        return self.call("importing it", self.point.load)

    def call(self, what: str, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call code of the plugin. What it raises becomes a `PluginError`, unless it is an error of abreast already."""
        try:
            return function(*arguments)
        except (AbreastError, TrialError):
            raise
        except (Exception, SystemExit) as error:
            failure = classify(error)
            place = location(failure.detail)
            raise self.error(f"{what} failed: {failure.message}{f', at {place}' if place else ''}") from error

    def build(self, what: str, names: Sequence[str], *arguments: Any) -> Any:
        """Load the factory and call it with these arguments; `names` are what the docs call them."""
        factory = self.load()
        if not callable(factory):
            self.refuse(f"its entry point must be {what}", factory)
        if inspect.iscoroutinefunction(factory):
            raise self.error(f"its entry point must be {what}; it must not be async")
        self.check_call(f"its entry point must be {what}", factory, names)
        return self.call(f"{self.point.attr or self.point.module}({', '.join(names)})", factory, *arguments)

    def check_call(self, rule: str, function: Any, names: Sequence[str]) -> None:
        """Refuse a function that cannot be called with this many arguments."""
        try:
            signature = inspect.signature(function)
        except (TypeError, ValueError):  # some builtins have none
            return
        try:
            signature.bind(*names)
        except TypeError:
            name = getattr(function, "__name__", type(function).__name__)
            raise self.error(f"{rule}, called as ({', '.join(names)}), got {name}{signature}") from None

    def check_method(self, owner: Any, name: str, names: Sequence[str], is_awaited: bool = False) -> None:
        """Refuse an object whose method is missing, or cannot be called so."""
        method, kind, called = getattr(owner, name, None), type(owner).__name__, f"{name}({', '.join(names)})"
        if not callable(method):
            raise self.error(f"{kind} has no method {called}")
        if is_async(method) != is_awaited:
            raise self.error(f"{kind}.{called} must {'' if is_awaited else 'not '}be async")
        self.check_call(f"{name} is a method of a {self.kind}", method, names)

    def refuse(self, rule: str, value: Any) -> NoReturn:
        raise self.error(f"{rule}, got {describe(value)}")


def is_async(function: Any) -> bool:
    """Whether calling this gives a coroutine."""
    while isinstance(function, partial):
        function = function.func
    inner = inspect.unwrap(function)
    return inspect.iscoroutinefunction(inner) or inspect.iscoroutinefunction(type(inner).__call__)


class _Completed:
    """An object of a plugin, with the defaults of a base class for what it lacks."""

    def __init__(self, loaded: Any, defaults: Any) -> None:
        self._loaded, self._defaults = loaded, defaults

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loaded if hasattr(self._loaded, name) else self._defaults, name)


def completed(loaded: Any, base: type[Base]) -> Base:
    """What a plugin loads to as an instance of `base`, also if it is a module or an object of another class."""
    return loaded if isinstance(loaded, base) else cast(Base, _Completed(loaded, base()))


def find_plugin(kind: Kind, name: str) -> Plugin | None:
    """The plugin of this name. Two packages that register different things under one name are refused."""
    from importlib.metadata import entry_points  # late: takes 20 ms to import

    found = [Plugin(kind, point) for point in entry_points(group=GROUPS[kind], name=name)]
    if len({plugin.point.value for plugin in found}) > 1:
        raise PluginError(
            f'{kind} "{name}" is registered by {" and by ".join(str(plugin.package) for plugin in found)}',
            "uninstall one of them",
        )
    return found[0] if found else None


def plugin_names(kind: Kind) -> list[str]:
    """The names that packages register; nothing is imported."""
    from importlib.metadata import entry_points

    return sorted({point.name for point in entry_points(group=GROUPS[kind])})


def plugin_names_at_start(kind: Kind) -> list[str]:
    """The same without another look at all packages, which takes 4 ms: what is installed later is not found."""
    return sorted(name for group, name in _registered_names(tuple(sys.path)) if group == GROUPS[kind])


def refuse_clash(kind: Kind, name: str) -> None:
    """Refuse a plugin that has the name of something built in: it would never be used."""
    is_registered = (GROUPS[kind], name) in _registered_names(tuple(sys.path))
    plugin = find_plugin(kind, name) if is_registered else None
    if plugin is not None:
        raise PluginError(
            f'{plugin}: "{name}" is the name of a built-in {kind}', "choose another name for the entry point"
        )


@lru_cache(maxsize=1)
def _registered_names(path: tuple[str, ...]) -> frozenset[tuple[str, str]]:
    """Group and name of all entry points on this path, read once."""
    from importlib.metadata import distributions

    return frozenset((point.group, point.name) for package in distributions() for point in package.entry_points)


def describe(value: Any) -> str:
    """A wrong value for a message: what it is, and its text if that is short.

    >>> describe("yes"), describe(None), describe(int), describe(describe)
    ("the str 'yes'", 'None', 'the class int', 'the function describe')
    """
    if value is None:
        return "None"
    if inspect.isclass(value):
        return f"the class {value.__name__}"
    if inspect.isroutine(value):
        return f"the function {value.__name__}"
    kind = type(value).__name__
    try:
        text = repr(value)
    except Exception:  # noqa: BLE001 - an object of a plugin
        return f"an object of type {kind}"
    return (
        f"the {kind} {text}"
        if len(text) <= LONGEST_VALUE and "object at 0x" not in text
        else f"an object of type {kind}"
    )
