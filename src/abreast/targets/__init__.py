"""Targets: one file per family, all behind `Target.answer`."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from abreast.errors import BadInput, suggestion
from abreast.model import Variant
from abreast.plugins import find_plugin, plugin_names, refuse_clash
from abreast.targets.base import Expected, Problem, Target, Workers

__all__ = ["NAMES", "Expected", "Problem", "Target", "Workers", "build"]

_FAMILIES = {  # where each is defined
    "anthropic": ("api.anthropic", "Anthropic"),
    "openai": ("api.openai", "OpenAI"),
    "claude-code": ("agents.claude_code", "ClaudeCode"),
    "command": ("agents.command", "Command"),
}
NAMES = ("simulated", "mock", *_FAMILIES, "python:MODULE:FUNCTION")


def build(variant: Variant, seed: int, shared: dict[str, Any]) -> Target:
    """The target of one variant. `shared` is what the targets of one run have in common: the folder of the spec
    (`base`), what tokens cost (`prices`), how large an answer may be (`answer_size`), and whether the workspaces of
    failed trials stay (`keep_workspaces`)."""
    where = f'variant "{variant.name}"'
    target = variant.target
    if target is None:
        raise BadInput(f"{where}: no target", f"write target: with one of {', '.join(NAMES)}")
    if callable(target) or target.startswith("python:"):
        from abreast.targets.python import PythonTarget

        return PythonTarget(where, target, variant.params, variant.executor, variant.version)
    if variant.executor != "auto":
        raise BadInput(f'{where}: executor is for Python functions, not for "{target}"', "remove it")
    checked = shared.setdefault("checked_names", set())
    if target in NAMES and target not in checked:  # once for a thousand variants: it reads what is installed
        refuse_clash("target", target)
        checked.add(target)
    if target in ("simulated", "mock"):
        from abreast.targets.simulated import Simulated

        return Simulated(where, variant.params, seed, shared)
    if target in _FAMILIES:
        module, name = _FAMILIES[target]
        family: type[Any] = getattr(import_module(f"{__name__}.{module}"), name)
        built: Target = family(where, variant.params, shared)
        return built
    plugin = find_plugin("target", target)
    if plugin is None:
        known = [*NAMES, *plugin_names("target")]
        raise BadInput(f'{where}: unknown target "{target}"{suggestion(target, known)}')
    from abreast.targets.plugin import build_target

    return build_target(plugin, variant, seed, shared)
