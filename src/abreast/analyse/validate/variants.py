"""Variants that are not what they seem: several differences, none, different tools, or another model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from abreast.analyse.answer_fields import PREFIX
from abreast.analyse.validate.evidence import (
    LISTED,
    Evidence,
    ExaminedVariant,
    Level,
    ResultFinding,
    listed,
    of_variants,
)
from abreast.targets import simulated
from abreast.text import many


def differences(evidence: Evidence) -> Iterator[ResultFinding]:
    """Variants that differ from the baseline in several things at once, or in nothing."""
    confounded: dict[str, set[str]] = {}
    for variant in evidence.others:
        keys = _treatments(variant, evidence.baseline)
        if len(keys) > 1 and not keys <= PARAMS and not _is_in_a_grid(evidence, variant, keys):
            confounded[variant.name] = keys
    if confounded:
        keys_of = "; ".join(f"{name}: {listed(sorted(keys))}" for name, keys in list(confounded.items())[:LISTED])
        several = f"differ from {evidence.baseline.name} in several things at once"
        message = f"{several}, so no effect can be attributed to one of them ({keys_of})"
        fix = "add variants that change one thing each, or read the verdict as one on the combination"
        yield of_variants("differences", "note", message, fix, confounded)
    yield from exchanges(evidence)
    twins = [pair for pair in combinations(evidence.variants, 2) if not pair[0].differs_in(pair[1])]
    if twins and not str(evidence.run["experiment"]).endswith("(A/A)"):
        message = f"do not differ at all: {listed(f'{first.name} and {second.name}' for first, second in twins)}"
        names = dict.fromkeys(variant.name for pair in twins for variant in pair)
        yield of_variants("differences", "note", message, "run `abreast aa SPEC` for an A/A test", names)


def exchanges(evidence: Evidence) -> Iterator[ResultFinding]:
    """Agents that have other tools than the baseline's, or MCP servers instead of tools. The verdict is on the exchange
    as a whole. One more server, or a single tool, is not reported."""
    exchanged = {}
    for variant in evidence.others:
        keys = _treatments(variant, evidence.baseline)
        item = exchange(variant, evidence.baseline)
        is_reported = keys <= PARAMS and item.differs_in_tools and not item.is_single
        if is_reported and not (keys == {"mcp", "tools"} and _is_in_a_grid(evidence, variant, keys)):
            exchanged[variant.name] = item
    if not exchanged:
        return
    descriptions = "; ".join(f"{name} {item.in_words()}" for name, item in list(exchanged.items())[:LISTED])
    noun = "exchange" if all(item.is_mutual for item in exchanged.values()) else "difference"
    verdict = f"the verdict is on this {noun}" if len(exchanged) == 1 else "the verdicts are on these differences"
    fix = _same_tools(evidence, exchanged.values())
    yield of_variants("differences", "note", f"{descriptions}: {verdict}", fix, exchanged)


def _same_tools(evidence: Evidence, exchanges: Iterable[Exchange]) -> str:
    """Suggest how to measure one of the differences alone."""
    if not any(item.servers for item in exchanges):
        return "add a variant that differs in one tool only to measure that tool"
    if evidence.spec.get("suite") == "code-search":
        return "use `--search-tools both` to measure the server alone"
    return "give both variants the same `tools:` to measure the server alone"


def _treatments(variant: ExaminedVariant, other: ExaminedVariant) -> set[str]:
    """The parameters in which two variants differ, without those that only follow from others: settings of the
    simulator, and `allowed_tools` that go with servers or tools."""
    keys = variant.differs_in(other)
    if variant.simulated and other.simulated:
        keys = keys - set(simulated.PARAMETERS) or keys
    if "allowed_tools" in keys and keys & {"mcp", "tools"}:
        keys = keys - {"allowed_tools"} | ({"tools"} if exchange(variant, other).differs_in_tools else set())
    return keys


def _is_in_a_grid(evidence: Evidence, variant: ExaminedVariant, keys: set[str]) -> bool:
    """Whether for each of these keys another variant differs from this one in that key alone."""
    return all(any(_treatments(variant, other) == {key} for other in evidence.variants) for key in keys)


def models(evidence: Evidence) -> Iterator[ResultFinding]:
    """Variants answered by several models, and variants that request different models but get the same one."""
    arms, always = list(zip(evidence.variants, evidence.arms, strict=True)), "let the target always report the model"
    for variant, arm in arms:
        if arm["a_model"] != arm["another_model"]:
            names = evidence.queries.models(evidence.run_id, only_ok=True)[variant.index]
            message = f"{variant.name} was answered by {len(names)} models: {listed(names)}"
            fix = "set a pinned model version, then run again with --fresh"
            level: Level = "serious" if variant.params.get("model") is not None else "note"
            yield of_variants("models", level, message, fix, (variant.name,))
        if 0 < arm["model"] < arm["ok"]:
            matches = evidence.queries.trials_without_model(evidence.run_id, variant.index, LISTED)
            message = f"model missing from {many(matches.total, 'answer')} of {variant.name}, which other answers have"
            yield evidence.of_matches("models", "note", message, always, matches)
    reporting = {variant.target for variant, arm in arms if arm["model"]}
    unknown = [variant.name for variant, arm in arms if arm["ok"] and not arm["model"] and variant.target in reporting]
    if unknown:
        message = f"model unknown for {listed(unknown)} but known for other variants of the same target"
        yield of_variants("models", "note", message, always, unknown)
    for (first, arm), (second, other) in combinations(arms, 2):
        requested = first.params.get("model"), second.params.get("model")
        answered = {both[key] for both in (arm, other) for key in ("a_model", "another_model")}
        if len(answered) > 1 or None in (*answered, *requested) or requested[0] == requested[1] or first.simulated:
            continue
        asks = f"{first.name} asks for {requested[0]} and {second.name} for {requested[1]}"
        fix = "check what is sent: the parameter may not reach the target, or both names may mean one model"
        message = f"{asks}, and {answered.pop()} answered both"
        yield of_variants("models", "serious", message, fix, (first.name, second.name))


# -- differences in built-in tools and MCP servers, whichever parameters declare them

PARAMS = frozenset({"mcp", "tools", "allowed_tools"})


@dataclass(frozen=True, slots=True)
class Exchange:
    """Names of servers and tools that only the variant has, and those that only the baseline has."""

    servers: tuple[str, ...]
    tools: tuple[str, ...]
    servers_missing: tuple[str, ...]
    tools_missing: tuple[str, ...]

    @property
    def differs_in_tools(self) -> bool:
        return bool(self.tools or self.tools_missing)

    @property
    def is_single(self) -> bool:
        """Whether the difference is a single server or tool."""
        return len((*self.servers, *self.tools, *self.servers_missing, *self.tools_missing)) <= 1

    @property
    def is_mutual(self) -> bool:
        """Whether each side has something that the other lacks."""
        return bool((self.servers or self.tools) and (self.servers_missing or self.tools_missing))

    def in_words(self) -> str:
        """`has the MCP server demo instead of Bash and Grep`."""
        more = _both(self.servers, self.tools)
        less = _both(self.servers_missing, self.tools_missing)
        if more and less:
            return f"has {more} instead of {less}"
        return f"also has {more}" if more else f"lacks {less}"


def exchange(variant: ExaminedVariant, baseline: ExaminedVariant) -> Exchange:
    servers, baseline_servers = _servers(variant.params), _servers(baseline.params)
    shared = [name for name in servers if name in baseline_servers]
    changed = [f"{name} (declared otherwise)" for name in shared if servers[name] != baseline_servers[name]]
    tools, baseline_tools = _side(variant, baseline), _side(baseline, variant)
    return Exchange(
        (*_only(servers, baseline_servers), *changed),
        _only(tools, baseline_tools),
        _only(baseline_servers, servers),
        _only(baseline_tools, tools),
    )


def _only(these: Iterable[str], others: Iterable[str]) -> tuple[str, ...]:
    excluded = set(others)
    return tuple(dict.fromkeys(name for name in these if name not in excluded))


def _side(variant: ExaminedVariant, other: ExaminedVariant) -> list[str]:
    """The built-in tools by name; those that the other has too by their permission, such as `Bash(rg:*)`."""
    tools, other_tools = _tools(variant), _tools(other)
    if tools is None and other_tools is None:
        return _allowed(variant)
    if tools is None or other_tools is None:  # the default tools are unknown
        return ["the default tools"] if tools is None else [f"only {listed_with_and(tools)}"] if tools else []
    both = set(tools) & set(other_tools)
    return [*(name for name in tools if name not in both), *(text for text in _allowed(variant) if _name(text) in both)]


def _tools(variant: ExaminedVariant) -> list[str] | None:
    """The built-in tools by name; None if they are the default ones."""
    params = variant.params
    if params.get("tools") == "default":
        return None
    if "tools" in params:
        tools = _texts(params["tools"])
    else:  # Claude Code has no tools then, whatever is allowed
        tools = [] if variant.target == "claude-code" else _allowed(variant)
    return sorted(set(map(_name, tools)) - set(_texts(params.get("disallowed_tools"))))


def _name(text: str) -> str:
    return text.partition("(")[0]


def _allowed(variant: ExaminedVariant) -> list[str]:
    """Permissions for built-in tools, such as `Bash(rg:*)`; the tools themselves if no permissions are set."""
    params = variant.params
    tools = params.get("tools") if params.get("tools") != "default" else None
    allowed = _texts(tools if params.get("allowed_tools") is None else params["allowed_tools"])
    return sorted(text for text in allowed if not text.startswith(PREFIX))


def _texts(value: Any) -> list[str]:
    """The value as a list of texts; a user's own target may accept anything here."""
    if isinstance(value, list | tuple | Mapping):
        return [str(item) for item in value]
    return [] if value is None else [str(value)]


def _servers(params: Mapping[str, Any]) -> dict[str, Any]:
    """Declarations of MCP servers by name. A file of servers may be gone by now, so its servers are named by their
    allowed tools, else by the file."""
    servers: dict[str, Any] = {}
    declared = params.get("mcp")
    for item in declared if isinstance(declared, list) else [declared]:
        if isinstance(item, Mapping):
            inner = item.get("mcpServers") if list(item) == ["mcpServers"] else item
            servers |= {str(name): own for name, own in (inner if isinstance(inner, Mapping) else item).items()}
        elif item:
            servers |= dict.fromkeys(_callable(params) or ["of its own" if item is True else f"of {item}"], item)
    return servers


def _callable(params: Mapping[str, Any]) -> list[str]:
    """Names of servers with allowed tools."""
    allowed = [text for text in _texts(params.get("allowed_tools")) if text.startswith(PREFIX)]
    return [text.removeprefix(PREFIX).partition("__")[0] for text in allowed if "*" not in text]


def _both(servers: tuple[str, ...], tools: tuple[str, ...]) -> str:
    named_servers = f"the MCP server{'' if len(servers) == 1 else 's'} {listed_with_and(servers)}" if servers else ""
    return " and ".join(filter(None, (named_servers, listed_with_and(tools))))


def listed_with_and(words: Iterable[str]) -> str:
    """
    >>> listed_with_and(["Bash"]), listed_with_and(["Bash", "Glob", "Grep"])
    ('Bash', 'Bash, Glob and Grep')
    """
    *first, last = tuple(words) or ("",)
    return f"{', '.join(first)} and {last}" if first else last
