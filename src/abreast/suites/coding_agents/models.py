"""Whose model it is, by its name."""

from __future__ import annotations

from typing import Any

from abreast.errors import BadInput


def target_of(where: str, model: str) -> dict[str, Any]:
    """`claude-...` is asked at Anthropic's API, `gpt-...` at OpenAI's; others say whose they are: `openai:qwen3`."""
    target, colon, name = model.partition(":")
    if colon and name and target in ("anthropic", "openai"):
        return {"target": target, "model": name}
    if model.startswith("claude"):
        return {"target": "anthropic", "model": model}
    if model.startswith(("gpt", "o1", "o3", "o4", "chatgpt")):
        return {"target": "openai", "model": model}
    raise BadInput(f'{where} "{model}": whose model is it?', f"write anthropic:{model} or openai:{model}")
