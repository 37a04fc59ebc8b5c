"""OpenAI's older form: `POST /v1/chat/completions`; and the errors of both of its forms."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from abreast.fake.conversation import Conversation, Made, characters, joined, written
from abreast.fake.form import REFUSAL, arguments, dumps, name, pieces

_ENDINGS = {"end": "stop", "tool": "tool_calls", "cut": "length", "refusal": "stop"}
_ERRORS: dict[int, tuple[str, str | None, str]] = {
    401: ("invalid_request_error", "invalid_api_key", "Incorrect API key provided."),
    403: ("invalid_request_error", None, "You do not have access to this resource."),
    404: ("invalid_request_error", "model_not_found", "The model does not exist or you do not have access to it."),
    429: ("requests", "rate_limit_exceeded", "Rate limit reached for requests. Please try again later."),
    503: ("server_error", None, "The server is currently overloaded. Please try again later."),
}


def error(status: int, message: str | None, code: str | None = None) -> dict[str, Any]:
    """The body of an error, with the type and the code that belong to its status."""
    other = "invalid_request_error" if status < 500 else "server_error"
    kind, usual, text = _ERRORS.get(status, (other, None, "The server had an error while processing your request."))
    return {"error": {"message": message or text, "type": kind, "param": None, "code": code or usual}}


def too_long(tokens: int) -> str:
    return (
        "This model's maximum context length is 128000 tokens. However, your messages resulted in "
        f"{max(tokens, 128_001)} tokens. Please reduce the length of the messages."
    )


def problem_of_model(body: Mapping[str, Any]) -> str | None:
    return None if isinstance(body.get("model"), str) else "you must provide a model parameter"


class ChatCompletions:
    """The messages of `/v1/chat/completions`, whole or streamed."""

    manner = "openai"

    def problem(self, body: Mapping[str, Any]) -> str | None:
        messages = body.get("messages")
        if not isinstance(messages, list) or not messages or not all(isinstance(each, dict) for each in messages):
            return "Missing required parameter: 'messages'."
        return problem_of_model(body)

    def read(self, body: Mapping[str, Any]) -> Conversation:
        size = characters((body["messages"], body.get("tools")))
        calls, result = 0, None
        for message in reversed(body["messages"]):
            role = message.get("role")
            if role == "assistant":
                calls += len(message.get("tool_calls") or ())
            elif role == "tool" and result is None:
                result = joined(message.get("content"))
            elif role == "user" and (text := written(message.get("content"))):
                return Conversation(text, calls, result if calls else None, size)
        return Conversation("", calls, result, size)

    def whole(self, body: Mapping[str, Any], made: Made) -> dict[str, Any]:
        refused = made.ending == "refusal"
        message: dict[str, Any] = {
            "role": "assistant",
            "content": None if refused or (made.calls and not made.text) else made.text,
            "refusal": (made.text or REFUSAL) if refused else None,
            "annotations": [],
        }
        if made.calls:
            message["tool_calls"] = [_call(made)]
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _ENDINGS[made.ending]}
        return {**_head(body, "chat.completion"), "choices": [choice], "usage": _usage(made)}

    def events(self, body: Mapping[str, Any], made: Made) -> Iterator[bytes]:
        head = _head(body, "chat.completion.chunk")
        counts = bool((body.get("stream_options") or {}).get("include_usage"))
        usual: dict[str, Any] = {"usage": None} if counts else {}
        for delta in _deltas(made):
            choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}
            yield _data({**head, "choices": [choice], **usual})
        last = {"index": 0, "delta": {}, "logprobs": None, "finish_reason": _ENDINGS[made.ending]}
        yield _data({**head, "choices": [last], **usual})
        if counts:
            yield _data({**head, "choices": [], "usage": _usage(made)})
        yield b"data: [DONE]\n\n"


def _deltas(made: Made) -> Iterator[dict[str, Any]]:
    yield {"role": "assistant", "content": None if made.calls else "", "refusal": None}
    if made.ending == "refusal":
        yield from ({"refusal": piece} for piece in pieces(made.text or REFUSAL))
    else:
        yield from ({"content": piece} for piece in pieces(made.text))
    if made.calls:
        call = _call(made)
        empty = {**call["function"], "arguments": ""}
        yield {"tool_calls": [{"index": 0, **call, "function": empty}]}
        for piece in pieces(call["function"]["arguments"]):
            yield {"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}


def _data(value: Mapping[str, Any]) -> bytes:
    return f"data: {dumps(value)}\n\n".encode("utf-8", "replace")


def _head(body: Mapping[str, Any], kind: str) -> dict[str, Any]:
    return {
        "id": name("chatcmpl-"),
        "object": kind,
        "created": int(time.time()),
        "model": body["model"],
        "service_tier": "default",
        "system_fingerprint": "fp_fake",
    }


def _call(made: Made) -> dict[str, Any]:
    return {
        "id": name("call_"),
        "type": "function",
        "function": {"name": made.calls, "arguments": arguments(made.args)},
    }


def _usage(made: Made) -> dict[str, Any]:
    used = made.usage
    return {
        "prompt_tokens": used.input,
        "completion_tokens": used.output,
        "total_tokens": used.input + used.output,
        "prompt_tokens_details": {"cached_tokens": used.cached, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": used.reasoning,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }
