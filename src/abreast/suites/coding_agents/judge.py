"""The judge of coding agents: its dimensions and its model."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from abreast.errors import BadInput, did_you_mean
from abreast.suites.coding_agents.agents import target_of

MODEL = "claude-sonnet-5-5"  # the default

RUBRIC = {  # the five default dimensions
    "completeness": "Is everything done that the task asks for, with nothing left open or only announced?",
    "technical_correctness": "Is the code right as code: does it parse, call what exists, handle errors, and fit the "
    "conventions of the project?",
    "functional_correctness": "Would it do what the task wants when it runs, at the edges too?",
    "clarity": "Is it easy to read and to maintain: names, structure, no more than is needed?",
    "instruction_adherence": "Does it keep to what the task says, constraints and scope included?",
}

FURTHER = {  # dimensions of older settings files, judged on request
    "output_quality": "How good is the result on the whole?",
    "context_adherence": "Does it use what the project already has, and fit into it?",
}

SAME = {"logical_correctness": "functional_correctness"}
SCALE = (1, 10)
DIMENSIONS = {**RUBRIC, **FURTHER}


def canonical_dimension(where: str, name: str) -> str:
    dimension = SAME.get(name, name)
    if dimension not in DIMENSIONS:
        message = f'{where}: no dimension "{name}"{did_you_mean(name, DIMENSIONS)}'
        raise BadInput(message, f"use one of {', '.join(DIMENSIONS)}")
    return dimension


def judge_of(
    settings: str | Mapping[str, Any] | None, dimensions: Sequence[str], passing: Mapping[str, float]
) -> dict[str, Any]:
    """Return the scorer's settings from a model name, from settings, or from environment variables."""
    if settings is None:
        target = _from_environment()
    else:
        target = target_of("judge", settings) if isinstance(settings, str) else dict(settings)
    rubric = {name: DIMENSIONS[name] for name in dimensions}
    marks = {"passing": dict(passing)} if passing else {}
    return {"rubric": rubric, "scale": list(SCALE), "shows": ["input", "answer", "change"], **marks, **target}


def _from_environment() -> dict[str, Any]:
    """Return the model that LLM_PROVIDER, LLM_MODEL and related variables describe, else the default model."""
    env = os.environ
    provider, model = env.get("LLM_PROVIDER", ""), env.get("LLM_MODEL", "")
    if not model:
        return {"target": "anthropic", "model": MODEL}
    if provider not in ("", "anthropic", "openai", "openai-compatible"):
        raise BadInput(f"LLM_PROVIDER={provider}: must be anthropic or openai-compatible")
    if not provider and not env.get("LLM_OPENAI_ENDPOINT"):
        target = target_of("judge", model)
    else:
        target = {"target": "anthropic" if provider == "anthropic" else "openai", "model": model}
    keys = [f"LLM_{target['target'].upper()}_API_KEY", "LLM_API_KEY"]
    key = next((name for name in keys if env.get(name)), None)
    address = env.get("LLM_OPENAI_ENDPOINT") if target["target"] == "openai" else None
    return {**target, **({"key_env": key} if key else {}), **({"base_url": address} if address else {})}
