"""Anthropic's API: `POST /v1/messages`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from abreast.fake.api_format import (
    ChatRequest,
    FakeAnswer,
    arguments_text,
    characters,
    chunks,
    event,
    joined_text,
    new_id,
    read_conversation,
    user_text,
)

_ENDINGS = {"end": "end_turn", "tool": "tool_use", "cut": "max_tokens", "refusal": "refusal"}
_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_MESSAGES = {
    401: "invalid x-api-key",
    403: "Your API key does not have permission to use the specified resource.",
    429: "This request would exceed your account's rate limit. Please try again later.",
    500: "Internal server error",
    529: "Overloaded",
}


def error_body(status: int, message: str | None, request_id: str) -> dict[str, Any]:
    kind = _TYPES.get(status, "invalid_request_error" if status < 500 else "api_error")
    error = {"type": kind, "message": message or _MESSAGES.get(status, kind)}
    return {"type": "error", "error": error, "request_id": request_id}


def too_long(tokens: int) -> str:
    return f"prompt is too long: {max(tokens, 200_001)} tokens > 200000 maximum"


class Messages:
    """`/v1/messages`, streamed or not."""

    provider = "anthropic"

    def problem(self, body: Mapping[str, Any]) -> str | None:
        if not isinstance(body.get("model"), str):
            return "model: Field required"
        if not isinstance(body.get("messages"), list) or not body["messages"]:
            return "messages: at least one message is required"
        if not all(isinstance(message, dict) for message in body["messages"]):
            return "messages: Input should be an object"
        return None

    def max_tokens_problem(self, body: Mapping[str, Any]) -> str | None:
        """Check `max_tokens`, which is required except for counting tokens."""
        return None if type(body.get("max_tokens")) is int else "max_tokens: Field required"

    def read(self, body: Mapping[str, Any]) -> ChatRequest:
        size = characters((body.get("system"), body["messages"], body.get("tools")))
        return read_conversation(body["messages"], _classify, size, ChatRequest(""))

    def response(self, body: Mapping[str, Any], answer: FakeAnswer) -> dict[str, Any]:
        return _message(body, _blocks(answer), _ENDINGS[answer.ending], _usage(answer))

    def events(self, body: Mapping[str, Any], answer: FakeAnswer) -> Iterator[bytes]:
        usage = _usage(answer)
        yield event("message_start", {"message": _message(body, [], None, {**usage, "output_tokens": 1})})
        yield event("ping", {})
        for index, block in enumerate(_blocks(answer)):
            yield from _block_events(index, block, answer)
        ending = {"stop_reason": _ENDINGS[answer.ending], "stop_sequence": None}
        yield event("message_delta", {"delta": ending, "usage": usage})
        yield event("message_stop", {})


def _block_events(index: int, block: dict[str, Any], answer: FakeAnswer) -> Iterator[bytes]:
    if block["type"] == "text":
        start: dict[str, Any] = {"type": "text", "text": ""}
        deltas = [{"type": "text_delta", "text": chunk} for chunk in chunks(block["text"])]
    else:
        start = {**block, "input": {}}
        deltas = [{"type": "input_json_delta", "partial_json": chunk} for chunk in chunks(arguments_text(answer.args))]
    yield event("content_block_start", {"index": index, "content_block": start})
    for delta in deltas:
        yield event("content_block_delta", {"index": index, "delta": delta})
    yield event("content_block_stop", {"index": index})


def _message(
    body: Mapping[str, Any], blocks: list[dict[str, Any]], ending: str | None, usage: dict[str, Any]
) -> dict[str, Any]:
    return {
        "id": new_id("msg_"),
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": blocks,
        "stop_reason": ending,
        "stop_sequence": None,
        "usage": usage,
    }


def _blocks(answer: FakeAnswer) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = [{"type": "text", "text": answer.text}] if answer.text else []
    if answer.tool:
        blocks.append({"type": "tool_use", "id": new_id("toolu_"), "name": answer.tool, "input": answer.args})
    return blocks


def _usage(answer: FakeAnswer) -> dict[str, Any]:
    return {
        "input_tokens": answer.input,
        "cache_creation_input_tokens": answer.cache_write,
        "cache_read_input_tokens": answer.cached,
        "cache_creation": {"ephemeral_5m_input_tokens": answer.cache_write, "ephemeral_1h_input_tokens": 0},
        "output_tokens": answer.output,
        "service_tier": "standard",
    }


def _classify(message: Mapping[str, Any]) -> tuple[int, str | None, str]:
    role, content = message.get("role"), message.get("content")
    parts = [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    if role == "assistant":
        return sum(part.get("type") == "tool_use" for part in parts), None, ""
    results = [joined_text(part.get("content")) for part in parts if part.get("type") == "tool_result"]
    return (0, results[-1] if results else None, user_text(content)) if role == "user" else (0, None, "")
