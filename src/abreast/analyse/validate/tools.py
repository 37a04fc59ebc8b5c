"""What agents may use, as two variants have it: built-in tools and MCP servers, whatever parameters say so."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from abreast.analyse.validate.evidence import Variant

PARAMS = frozenset({"mcp", "tools", "allowed_tools"})
OF_SERVERS = "mcp__"  # what the tools of a server are called by


@dataclass(frozen=True, slots=True)
class Exchange:
    """What a variant has that the baseline has not, and the other way round, by name."""

    servers: tuple[str, ...]
    tools: tuple[str, ...]
    servers_missing: tuple[str, ...]
    tools_missing: tuple[str, ...]

    @property
    def differs_in_tools(self) -> bool:
        return bool(self.tools or self.tools_missing)

    @property
    def is_of_one(self) -> bool:
        """Whether a single server or tool is there or not: nothing that could be mistaken for something else."""
        return len((*self.servers, *self.tools, *self.servers_missing, *self.tools_missing)) <= 1

    @property
    def is_mutual(self) -> bool:
        """Whether each has something that the other has not."""
        return bool((self.servers or self.tools) and (self.servers_missing or self.tools_missing))

    def in_words(self) -> str:
        """`has the MCP server demo instead of Bash and Grep`."""
        more = _both(self.servers, self.tools)
        less = _both(self.servers_missing, self.tools_missing)
        if more and less:
            return f"has {more} instead of {less}"
        return f"has {more} besides" if more else f"has to do without {less}"


def exchange(variant: Variant, baseline: Variant) -> Exchange:
    """What a variant has instead of what the baseline has."""
    mine, theirs = (_servers(each.params) for each in (variant, baseline))
    tools, other = _tools(variant.params), _tools(baseline.params)
    if tools == other:  # then what they may be used for
        tools, other = _allowed(variant.params), _allowed(baseline.params)
    return Exchange(_only(mine, theirs), _only(tools, other), _only(theirs, mine), _only(other, tools))


def _only(these: Iterable[str], others: Iterable[str]) -> tuple[str, ...]:
    known = set(others)
    return tuple(dict.fromkeys(each for each in these if each not in known))


def _tools(params: Mapping[str, Any]) -> list[str]:
    """The built-in tools, each by its name alone; those that are only allowed if nothing else is said."""
    if "tools" not in params:
        return [text.partition("(")[0] for text in _allowed(params)]
    return ["the default tools"] if params["tools"] == "default" else sorted(_texts(params["tools"]))


def _allowed(params: Mapping[str, Any]) -> list[str]:
    """What may be called, but for servers': `Bash(rg:*)`."""
    return sorted(text for text in _texts(params.get("allowed_tools")) if not text.startswith(OF_SERVERS))


def _texts(value: Any) -> list[str]:
    """A list as it should be, and whatever else a target of a user's own takes by that name."""
    if isinstance(value, list | tuple | Mapping):
        return [str(each) for each in value]
    return [] if value is None else [str(value)]


def _servers(params: Mapping[str, Any]) -> list[str]:
    """The names of MCP servers. A file of them may be gone by now: then those that may be called, else its own name."""
    found: list[str] = []
    declared = params.get("mcp")
    for each in declared if isinstance(declared, list) else [declared]:
        if isinstance(each, Mapping):
            inner = each.get("mcpServers") if list(each) == ["mcpServers"] else each
            found += map(str, inner if isinstance(inner, Mapping) else each)
        elif each is not None:
            found += _callable(params) or [f"of {each}"]
    return list(dict.fromkeys(found))


def _callable(params: Mapping[str, Any]) -> list[str]:
    named = [text for text in _texts(params.get("allowed_tools")) if text.startswith(OF_SERVERS)]
    return [text.removeprefix(OF_SERVERS).partition("__")[0] for text in named]


def _both(servers: tuple[str, ...], tools: tuple[str, ...]) -> str:
    what = f"the MCP server{'' if len(servers) == 1 else 's'} {listed_with_and(servers)}" if servers else ""
    return " and ".join(filter(None, (what, listed_with_and(tools))))


def listed_with_and(words: Iterable[str]) -> str:
    """
    >>> listed_with_and(["Bash"]), listed_with_and(["Bash", "Glob", "Grep"])
    ('Bash', 'Bash, Glob and Grep')
    """
    *first, last = tuple(words) or ("",)
    return f"{', '.join(first)} and {last}" if first else last
