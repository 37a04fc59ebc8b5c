"""What a judge looks at in the work of an agent, and who the judge is."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from abreast.errors import BadInput, did_you_mean
from abreast.suites.coding_agents.agents import target_of

MODEL = "claude-sonnet-5-5"  # who judges if nobody is named

# The five dimensions, from 1 to 10.
RUBRIC = {
    "completeness": "Is everything done that the task asks for, with nothing left open or only announced?",
    "technical_correctness": "Is the code right as code: does it parse, call what exists, handle errors, and fit the "
    "conventions of the project?",
    "functional_correctness": "Would it do what the task wants when it runs, at the edges too?",
    "clarity": "Is it easy to read and to maintain: names, structure, no more than is needed?",
    "instruction_adherence": "Does it keep to what the task says, constraints and scope included?",
}

# Dimensions of older settings files, judged if they are named.
FURTHER = {
    "output_quality": "How good is the result on the whole?",
    "context_adherence": "Does it use what the project already has, and fit into it?",
}

SAME = {"logical_correctness": "functional_correctness"}
SCALE = (1, 10)
DIMENSIONS = {**RUBRIC, **FURTHER}


def dimension(where: str, name: str) -> str:
    found = SAME.get(name, name)
    if found not in DIMENSIONS:
        raise BadInput(
            f'{where}: no dimension "{name}"{did_you_mean(name, DIMENSIONS)}', f"known: {', '.join(DIMENSIONS)}"
        )
    return found


def judge_of(
    given: str | Mapping[str, Any] | None, dimensions: Sequence[str], passing: Mapping[str, float]
) -> dict[str, Any]:
    """The settings of the scorer: by a model's name, by settings of its own, or by the environment."""
    named = target_of("judge", given) if isinstance(given, str) else dict(given or {})
    chosen = _by_environment() if given is None else named
    shows = ["input", "answer", "change"]
    rubric = {name: DIMENSIONS[name] for name in dimensions}
    marks = {"passing": dict(passing)} if passing else {}
    return {"rubric": rubric, "scale": list(SCALE), "shows": shows, **marks, **chosen}


def _by_environment() -> dict[str, Any]:
    """LLM_PROVIDER, LLM_MODEL and the others, as older settings had them; else the usual model with its usual key."""
    around = os.environ
    provider, model = around.get("LLM_PROVIDER", ""), around.get("LLM_MODEL", "")
    if not model:
        return {"target": "anthropic", "model": MODEL}
    if provider not in ("", "anthropic", "openai", "openai-compatible"):
        raise BadInput(f"LLM_PROVIDER={provider}: must be anthropic or openai-compatible")
    if not provider and not around.get("LLM_OPENAI_ENDPOINT"):
        found = target_of("judge", model)
    else:
        found = {"target": "anthropic" if provider == "anthropic" else "openai", "model": model}
    keys = [f"LLM_{found['target'].upper()}_API_KEY", "LLM_API_KEY"]
    key = next((name for name in keys if around.get(name)), None)
    address = around.get("LLM_OPENAI_ENDPOINT") if found["target"] == "openai" else None
    return {**found, **({"key_env": key} if key else {}), **({"base_url": address} if address else {})}
