"""Variants that are not what they seem: several differences, none, other tools, or another model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from abreast.analyse.answer_fields import PREFIX
from abreast.analyse.validate.evidence import (
    SHOWN,
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
        each = "; ".join(f"{name}: {listed(sorted(keys))}" for name, keys in list(confounded.items())[:SHOWN])
        several = f"differ from {evidence.baseline.name} in several things at once"
        message = f"{several}, so that no difference can be put down to one of them ({each})"
        fix = "add variants that change one thing each, or read the verdict as one on the whole"
        yield of_variants("differences", "note", message, fix, confounded)
    yield from exchanges(evidence)
    twins = [pair for pair in combinations(evidence.variants, 2) if not pair[0].differs_in(pair[1])]
    if twins and not str(evidence.run["experiment"]).endswith("(A/A)"):
        message = f"do not differ at all: {listed(f'{one.name} and {other.name}' for one, other in twins)}"
        names = dict.fromkeys(variant.name for pair in twins for variant in pair)
        yield of_variants(
            "differences", "note", message, "a test of the set-up against itself is: abreast aa SPEC", names
        )


def exchanges(evidence: Evidence) -> Iterator[ResultFinding]:
    """Agents that have other tools than the baseline's, or MCP servers instead of some: that is one treatment, and what
    the verdict is on. A server more, or a single tool, needs no words."""
    found = {}
    for variant in evidence.others:
        keys = _treatments(variant, evidence.baseline)
        one = exchange(variant, evidence.baseline)
        said = keys <= PARAMS and one.differs_in_tools and not one.is_of_one
        if said and not (keys == {"mcp", "tools"} and _is_in_a_grid(evidence, variant, keys)):
            found[variant.name] = one
    if not found:
        return
    told = "; ".join(f"{name} {one.in_words()}" for name, one in list(found.items())[:SHOWN])
    what = " exchange" if all(one.is_mutual for one in found.values()) else " difference"
    verdict = f"the verdict is on that{what}" if len(found) == 1 else "the verdicts are on that"
    yield of_variants("differences", "note", f"{told}: {verdict}", _same_tools(evidence, found.values()), found)


def _same_tools(evidence: Evidence, found: Iterable[Exchange]) -> str:
    """How to measure one thing alone."""
    if not any(one.servers for one in found):
        return "to measure one tool alone, add a variant that differs in that only"
    if evidence.spec.get("suite") == "code-search":
        return "to measure the server alone, give the search tools to both: --search-tools both"
    return "to measure the server alone, give the same tools: to both variants"


def _treatments(variant: ExaminedVariant, other: ExaminedVariant) -> set[str]:
    """What two variants differ in. A simulator told of another prompt and what it brings: the prompt. Servers and what
    is allowed for them alone: the servers; tools and how they may be called: the tools."""
    found = variant.differs_in(other)
    if variant.simulated and other.simulated:
        found = found - set(simulated.OWN) or found
    if "allowed_tools" in found and found & {"mcp", "tools"}:
        one = exchange(variant, other)
        found = found - {"allowed_tools"} | ({"tools"} if one.differs_in_tools else set())
    return found


def _is_in_a_grid(evidence: Evidence, variant: ExaminedVariant, keys: set[str]) -> bool:
    """Whether for each of these there is another variant that differs from this one in that alone."""
    return all(any(_treatments(variant, other) == {key} for other in evidence.variants) for key in keys)


def models(evidence: Evidence) -> Iterator[ResultFinding]:
    """Which models answered: one for each variant, and not the same for two that ask for different ones."""
    arms, always = list(zip(evidence.variants, evidence.arms, strict=True)), "let the target report the model always"
    for variant, arm in arms:
        if arm["a_model"] != arm["another_model"]:
            names = evidence.queries.models(evidence.run_id, only_ok=True)[variant.index]
            message = f"{variant.name} was answered by {len(names)} models: {listed(names)}"
            fix = "name a version that does not move, then run it anew with --fresh"
            level: Level = "serious" if variant.params.get("model") is not None else "note"
            yield of_variants("models", level, message, fix, (variant.name,))
        if 0 < arm["model"] < arm["ok"]:
            matches = evidence.queries.trials_without_model(evidence.run_id, variant.index, SHOWN)
            message = f"{many(matches.total, 'answer')} of {variant.name} without a model, the others have one"
            yield evidence.of_matches("models", "note", message, always, matches)
    reporting = {variant.target for variant, arm in arms if arm["model"]}
    unknown = [variant.name for variant, arm in arms if arm["ok"] and not arm["model"] and variant.target in reporting]
    if unknown:
        message = f"which model answered for {listed(unknown)} is not known, for others of the same target it is"
        yield of_variants("models", "note", message, always, unknown)
    for (first, arm), (second, other) in combinations(arms, 2):
        requested = first.params.get("model"), second.params.get("model")
        answered = {both[key] for both in (arm, other) for key in ("a_model", "another_model")}
        if len(answered) > 1 or None in (*answered, *requested) or requested[0] == requested[1] or first.simulated:
            continue
        asks = f"{first.name} asks for {requested[0]} and {second.name} for {requested[1]}"
        fix = "look at what is sent: the parameter may not reach the target, or both names mean one model"
        message = f"{asks}, and {answered.pop()} answered both"
        yield of_variants("models", "serious", message, fix, (first.name, second.name))


# -- what agents may use: built-in tools and MCP servers, whichever parameters declare them

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


def exchange(variant: ExaminedVariant, baseline: ExaminedVariant) -> Exchange:
    mine, theirs = _servers(variant.params), _servers(baseline.params)
    others = tuple(f"{name} (declared otherwise)" for name in mine if name in theirs and mine[name] != theirs[name])
    tools, other = _side(variant, baseline), _side(baseline, variant)
    return Exchange((*_only(mine, theirs), *others), _only(tools, other), _only(theirs, mine), _only(other, tools))


def _only(these: Iterable[str], others: Iterable[str]) -> tuple[str, ...]:
    known = set(others)
    return tuple(dict.fromkeys(each for each in these if each not in known))


def _side(one: ExaminedVariant, other: ExaminedVariant) -> list[str]:
    """The built-in tools by name; those that the other has too by how they may be called: `Bash(rg:*)`."""
    mine, theirs = _tools(one), _tools(other)
    if mine is None and theirs is None:
        return _allowed(one)
    if mine is None or theirs is None:  # which the default ones are is not known
        return ["the default tools"] if mine is None else [f"only {listed_with_and(mine)}"] if mine else []
    both = set(mine) & set(theirs)
    return [*(name for name in mine if name not in both), *(text for text in _allowed(one) if _name(text) in both)]


def _tools(variant: ExaminedVariant) -> list[str] | None:
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


def _allowed(variant: ExaminedVariant) -> list[str]:
    """What may be called, but for servers': `Bash(rg:*)`. Where nothing is said of that, the tools that there are."""
    params = variant.params
    tools = params.get("tools") if params.get("tools") != "default" else None
    found = _texts(tools if params.get("allowed_tools") is None else params["allowed_tools"])
    return sorted(text for text in found if not text.startswith(PREFIX))


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
    named = [text for text in _texts(params.get("allowed_tools")) if text.startswith(PREFIX)]
    return [text.removeprefix(PREFIX).partition("__")[0] for text in named if "*" not in text]


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
