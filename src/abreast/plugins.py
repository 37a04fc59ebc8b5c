"""Plugins: targets, scorers, suites and other parts that packages register as entry points."""

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

Kind = Literal["target", "scorer", "suite", "limit", "engine", "store", "format", "importer"]
Base = TypeVar("Base")

GROUPS: dict[Kind, str] = {
    "target": "abreast.targets",
    "scorer": "abreast.scorers",
    "suite": "abreast.suites",
    "limit": "abreast.limits",
    "engine": "abreast.engines",
    "store": "abreast.stores",
    "format": "abreast.formats",
    "importer": "abreast.importers",
}
LONGEST_VALUE = 100  # characters of a wrong value in a message


@dataclass(frozen=True, slots=True)
class Plugin:
    """An entry point of one of our groups. Errors name the package that registered it."""

    kind: Kind
    point: EntryPoint

    def __str__(self) -> str:
        package = self.package
        return f'{self.kind} "{self.point.name}" ({f"{package}, " if package else ""}{self.point.value})'

    @property
    def package(self) -> str | None:
        """Name and version of the distribution, such as `my-package 1.0`."""
        return None if self.point.dist is None else f"{self.point.dist.name} {self.point.dist.version}"

    def error(self, problem: str) -> PluginError:
        article = "An" if self.kind in ("engine", "importer") else "A"
        return PluginError(f"{self}: {problem}", f'see docs/how-to/extending.md, "{article} {self.kind} of your own"')

    def load(self) -> Any:
        return self.call("importing it", self.point.load)

    def call(self, action: str, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call code of the plugin. Exceptions become a `PluginError`, unless they are errors of abreast."""
        try:
            return function(*arguments)
        except (AbreastError, TrialError):
            raise
        except (Exception, SystemExit) as error:
            failure = classify(error)
            where = location(failure.detail)
            raise self.error(f"{action} failed: {failure.message}{f', at {where}' if where else ''}") from error

    def build(self, description: str, names: Sequence[str], *arguments: Any) -> Any:
        """Load the factory and call it with these arguments, whose documented names are `names`."""
        factory, rule = self.load(), f"its entry point must be {description}"
        if not callable(factory):
            self.refuse(rule, factory)
        if inspect.iscoroutinefunction(factory):
            raise self.error(f"{rule}; it must not be async")
        self.check_call(rule, factory, names)
        return self.call(f"{self.point.attr or self.point.module}({', '.join(names)})", factory, *arguments)

    def check_call(self, rule: str, function: Any, names: Sequence[str]) -> None:
        """Refuse a function that does not take these arguments."""
        try:
            signature = inspect.signature(function)
        except (TypeError, ValueError):  # some builtins have no signature
            return
        try:
            signature.bind(*names)
        except TypeError:
            name = getattr(function, "__name__", type(function).__name__)
            raise self.error(f"{rule}, called as ({', '.join(names)}), got {name}{signature}") from None

    def check_method(self, owner: Any, name: str, names: Sequence[str], is_awaited: bool = False) -> None:
        """Refuse an object without this method, or whose method does not take these arguments."""
        method, kind, signature = getattr(owner, name, None), type(owner).__name__, f"{name}({', '.join(names)})"
        if not callable(method):
            raise self.error(f"{kind} has no method {signature}")
        if is_async(method) != is_awaited:
            raise self.error(f"{kind}.{signature} must {'' if is_awaited else 'not '}be async")
        self.check_call(f"{name} is a method of a {self.kind}", method, names)

    def refuse(self, rule: str, value: Any) -> NoReturn:
        raise self.error(f"{rule}, got {describe(value)}")


def is_async(function: Any) -> bool:
    """Whether calling this returns a coroutine."""
    while isinstance(function, partial):
        function = function.func
    inner = inspect.unwrap(function)
    return inspect.iscoroutinefunction(inner) or inspect.iscoroutinefunction(type(inner).__call__)


class _Completed:
    """An object of a plugin, with the defaults of a base class for missing members."""

    def __init__(self, loaded: Any, defaults: Any) -> None:
        self._loaded, self._defaults = loaded, defaults

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loaded if hasattr(self._loaded, name) else self._defaults, name)


def completed(loaded: Any, base: type[Base]) -> Base:
    """A loaded plugin as an instance of `base`, even if it is a module or an object of another class."""
    return loaded if isinstance(loaded, base) else cast(Base, _Completed(loaded, base()))


def find_plugin(kind: Kind, name: str) -> Plugin | None:
    """The plugin with this name. Two packages with different plugins of one name are refused."""
    from importlib.metadata import entry_points  # late: takes 20 ms to import

    plugins = [Plugin(kind, point) for point in entry_points(group=GROUPS[kind], name=name)]
    if len({plugin.point.value for plugin in plugins}) > 1:
        raise PluginError(
            f'{kind} "{name}" is registered by {" and by ".join(str(plugin.package) for plugin in plugins)}',
            "uninstall one of them",
        )
    return plugins[0] if plugins else None


def plugin_names(kind: Kind) -> list[str]:
    """The names of registered plugins; nothing is imported."""
    from importlib.metadata import entry_points

    return sorted({point.name for point in entry_points(group=GROUPS[kind])})


def plugin_names_at_start(kind: Kind) -> list[str]:
    """`plugin_names` from the cached entry points, which saves 4 ms and ignores later installations."""
    return sorted(name for group, name in _registered_names(tuple(sys.path)) if group == GROUPS[kind])


def refuse_clash(kind: Kind, name: str) -> None:
    """Refuse a plugin with the name of a built-in, because it would never be used."""
    is_registered = (GROUPS[kind], name) in _registered_names(tuple(sys.path))
    plugin = find_plugin(kind, name) if is_registered else None
    if plugin is not None:
        raise PluginError(
            f'{plugin}: "{name}" is the name of a built-in {kind}', "choose another name for the entry point"
        )


@lru_cache(maxsize=1)
def _registered_names(path: tuple[str, ...]) -> frozenset[tuple[str, str]]:
    """Group and name of all entry points on this path, cached."""
    from importlib.metadata import distributions

    return frozenset((point.group, point.name) for package in distributions() for point in package.entry_points)


def describe(value: Any) -> str:
    """Describe a wrong value in a message: its type, and its repr if that is short.

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
    is_readable = len(text) <= LONGEST_VALUE and "object at 0x" not in text
    return f"the {kind} {text}" if is_readable else f"an object of type {kind}"
