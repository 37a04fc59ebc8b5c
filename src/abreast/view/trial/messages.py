"""Turns in messages of the OpenAI and Anthropic APIs, and of tools that use their formats."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from abreast.targets.untrusted_json import mapping, mappings
from abreast.view.trial.turns import IMAGE, Turn, TurnList, cut, readable


def add_messages(calls: TurnList, messages: list[Mapping[str, Any]]) -> None:
    """Add messages in the format of the OpenAI or Anthropic API."""
    for message in messages:
        role = str(message.get("role") or "assistant")
        if thought := message.get("reasoning_content") or message.get("reasoning"):
            calls.add(Turn(kind="thought", role=role, text=readable(thought)))
        content = message.get("content")
        if role == "tool":
            calls.finish(message.get("tool_call_id"), content)
            continue
        if isinstance(content, str) and content:
            calls.add(Turn(kind="message", role=role, text=cut(content)))
        for part in mappings(content):
            _add_part(calls, role, part)
        if message.get("refusal"):
            calls.add(Turn(kind="error", role=role, text=readable(message["refusal"])))
        for call in mappings(message.get("tool_calls")):
            function = mapping(call.get("function"))
            name = function.get("name") or call.get("name")
            calls.add_call(name, function.get("arguments"), call.get("id"), role)


def _add_part(calls: TurnList, role: str, part: Mapping[str, Any]) -> None:
    """Add a part of a message in the format of Anthropic or Claude Code."""
    kind = part.get("type")
    if kind in ("text", "output_text", "input_text") and part.get("text"):
        calls.add(Turn(kind="message", role=role, text=readable(part["text"])))
    elif kind == "thinking" and part.get("thinking"):
        calls.add(Turn(kind="thought", role=role, text=readable(part["thinking"])))
    elif kind in ("tool_use", "server_tool_use"):
        calls.add_call(part.get("name"), part.get("input"), part.get("id"), role)
    elif kind == "tool_result":
        calls.finish(part.get("tool_use_id"), part.get("content"), part.get("is_error") is True)
    elif kind == "refusal":
        calls.add(Turn(kind="error", role=role, text=readable(part.get("refusal"))))
    elif "image" in str(kind):
        calls.add(Turn(kind="note", role=role, text=IMAGE))


def add_response_item(calls: TurnList, item: Mapping[str, Any]) -> None:
    """Add an item of OpenAI's Responses API."""
    kind = str(item.get("type"))
    if kind == "message":
        for part in mappings(item.get("content")):
            _add_part(calls, str(item.get("role") or "assistant"), part)
    elif kind == "reasoning":
        if text := readable(item.get("summary")) or readable(item.get("content")):
            calls.add(Turn(kind="thought", text=text))
    elif kind.endswith("_call_output"):
        calls.finish(item.get("call_id"), item.get("output"))
    elif kind.endswith("_call"):
        arguments = item.get("arguments", item.get("action"))
        calls.add_call(item.get("name") or kind.removesuffix("_call"), arguments, item.get("call_id"))
