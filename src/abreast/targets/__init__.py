"""Targets: one file per family, all behind `Target.answer`."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from abreast.errors import BadInput, suggestion
from abreast.model import Variant
from abreast.plugins import find_plugin, plugin_names, refuse_clash
from abreast.targets.base import Expected, Problem, Target, Workers

__all__ = ["NAMES", "Expected", "Problem", "Target", "Workers", "build"]

_FAMILIES = {  # modules and classes
    "anthropic": ("api.anthropic", "Anthropic"),
    "openai": ("api.openai", "OpenAI"),
    "claude-code": ("agents.claude_code", "ClaudeCode"),
    "command": ("agents.command", "Command"),
}
NAMES = ("simulated", "mock", *_FAMILIES, "python:MODULE:FUNCTION")


def build(variant: Variant, seed: int, shared: dict[str, Any]) -> Target:
    """Build the target of a variant. `shared` belongs to all targets of a run: the folder of the spec (`base`),
    `prices`, the largest `answer_size`, and `keep_workspaces` for those of failed trials."""
    where = f'variant "{variant.name}"'
    target = variant.target
    if target is None:
        raise BadInput(f"{where}: no target", f"set target: to one of {', '.join(NAMES)}")
    if callable(target) or target.startswith("python:"):
        from abreast.targets.python import PythonTarget

        return PythonTarget(where, target, variant.params, variant.executor, variant.version)
    if variant.executor != "auto":
        raise BadInput(f'{where}: executor is for Python functions, not for "{target}"', "remove executor:")
    checked = shared.setdefault("checked_names", set())
    if target in NAMES and target not in checked:  # once: it reads the installed packages
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
        names = [*NAMES, *plugin_names("target")]
        raise BadInput(f'{where}: unknown target "{target}"{suggestion(target, names)}')
    from abreast.targets.plugin import build_target

    return build_target(plugin, variant, seed, shared)
