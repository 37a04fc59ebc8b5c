"""What agents may use, as two variants have it: built-in tools and MCP servers, whatever parameters say so."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from abreast.analyse.answer_fields import PREFIX as OF_SERVERS
from abreast.analyse.validate.evidence import Variant

PARAMS = frozenset({"mcp", "tools", "allowed_tools"})


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
    mine, theirs = _servers(variant.params), _servers(baseline.params)
    others = tuple(f"{name} (declared otherwise)" for name in mine if name in theirs and mine[name] != theirs[name])
    tools, other = _side(variant, baseline), _side(baseline, variant)
    return Exchange((*_only(mine, theirs), *others), _only(tools, other), _only(theirs, mine), _only(other, tools))


def _only(these: Iterable[str], others: Iterable[str]) -> tuple[str, ...]:
    known = set(others)
    return tuple(dict.fromkeys(each for each in these if each not in known))


def _side(one: Variant, other: Variant) -> list[str]:
    """The built-in tools by name; those that the other has too by how they may be called: `Bash(rg:*)`."""
    mine, theirs = _tools(one), _tools(other)
    if mine is None and theirs is None:
        return _allowed(one)
    if mine is None or theirs is None:  # which the default ones are is not known
        return ["the default tools"] if mine is None else [f"only {listed_with_and(mine)}"] if mine else []
    both = set(mine) & set(theirs)
    return [*(name for name in mine if name not in both), *(text for text in _allowed(one) if _name(text) in both)]


def _tools(variant: Variant) -> list[str] | None:
    """The built-in tools by name; None if they are the default ones."""
    params = variant.params
    if params.get("tools") == "default":
        return None
    if "tools" in params:
        found = _texts(params["tools"])
    else:  # Claude Code has none then, whatever is allowed
        found = [] if variant.target == "claude-code" else _allowed(variant)
    return sorted(set(map(_name, found)) - set(_texts(params.get("disallowed_tools"))))


def _name(text: str) -> str:
    return text.partition("(")[0]


def _allowed(variant: Variant) -> list[str]:
    """What may be called, but for servers': `Bash(rg:*)`. Where nothing is said of that, the tools that there are."""
    params = variant.params
    tools = params.get("tools") if params.get("tools") != "default" else None
    found = _texts(tools if params.get("allowed_tools") is None else params["allowed_tools"])
    return sorted(text for text in found if not text.startswith(OF_SERVERS))


def _texts(value: Any) -> list[str]:
    """A list as it should be, and whatever else a target of a user's own takes by that name."""
    if isinstance(value, list | tuple | Mapping):
        return [str(each) for each in value]
    return [] if value is None else [str(value)]


def _servers(params: Mapping[str, Any]) -> dict[str, Any]:
    """MCP servers by name, and how they are declared. A file of them may be gone by now: then those that may be called,
    else its own name."""
    found: dict[str, Any] = {}
    declared = params.get("mcp")
    for each in declared if isinstance(declared, list) else [declared]:
        if isinstance(each, Mapping):
            inner = each.get("mcpServers") if list(each) == ["mcpServers"] else each
            found |= {str(name): own for name, own in (inner if isinstance(inner, Mapping) else each).items()}
        elif each:
            found |= dict.fromkeys(_callable(params) or ["of its own" if each is True else f"of {each}"], each)
    return found


def _callable(params: Mapping[str, Any]) -> list[str]:
    named = [text for text in _texts(params.get("allowed_tools")) if text.startswith(OF_SERVERS)]
    return [text.removeprefix(OF_SERVERS).partition("__")[0] for text in named if "*" not in text]


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
