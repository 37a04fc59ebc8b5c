"""OpenAI's two forms, `POST /v1/chat/completions` and `POST /v1/responses`, and their errors."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import Any

from abreast.fake.api_format import (
    REFUSAL,
    ChatRequest,
    FakeAnswer,
    arguments_text,
    characters,
    chunks,
    dumps,
    event,
    joined_text,
    new_id,
    read_conversation,
    user_text,
)

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

    provider = "openai"

    def problem(self, body: Mapping[str, Any]) -> str | None:
        messages = body.get("messages")
        if not isinstance(messages, list) or not messages or not all(isinstance(each, dict) for each in messages):
            return "Missing required parameter: 'messages'."
        return problem_of_model(body)

    def read(self, body: Mapping[str, Any]) -> ChatRequest:
        size = characters((body["messages"], body.get("tools")))
        return read_conversation(body["messages"], _classify_message, size, ChatRequest(""))

    def response(self, body: Mapping[str, Any], made: FakeAnswer) -> dict[str, Any]:
        refused = made.ending == "refusal"
        message: dict[str, Any] = {
            "role": "assistant",
            "content": None if refused or (made.tool and not made.text) else made.text,
            "refusal": (made.text or REFUSAL) if refused else None,
            "annotations": [],
        }
        if made.tool:
            message["tool_calls"] = [_call(made)]
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _ENDINGS[made.ending]}
        return {**_head(body, "chat.completion"), "choices": [choice], "usage": _usage(made)}

    def events(self, body: Mapping[str, Any], made: FakeAnswer) -> Iterator[bytes]:
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


def _classify_message(message: Mapping[str, Any]) -> tuple[int, str | None, str]:
    role, content = message.get("role"), message.get("content")
    calls = len(message.get("tool_calls") or ()) if role == "assistant" else 0
    return calls, joined_text(content) if role == "tool" else None, user_text(content) if role == "user" else ""


def _deltas(made: FakeAnswer) -> Iterator[dict[str, Any]]:
    yield {"role": "assistant", "content": None if made.tool else "", "refusal": None}
    if made.ending == "refusal":
        yield from ({"refusal": piece} for piece in chunks(made.text or REFUSAL))
    else:
        yield from ({"content": piece} for piece in chunks(made.text))
    if made.tool:
        call = _call(made)
        empty = {**call["function"], "arguments": ""}
        yield {"tool_calls": [{"index": 0, **call, "function": empty}]}
        for piece in chunks(call["function"]["arguments"]):
            yield {"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}


def _data(value: Mapping[str, Any]) -> bytes:
    return f"data: {dumps(value)}\n\n".encode("utf-8", "replace")


def _head(body: Mapping[str, Any], kind: str) -> dict[str, Any]:
    return {
        "id": new_id("chatcmpl-"),
        "object": kind,
        "created": int(time.time()),
        "model": body["model"],
        "service_tier": "default",
        "system_fingerprint": "fp_fake",
    }


def _call(made: FakeAnswer) -> dict[str, Any]:
    return {
        "id": new_id("call_"),
        "type": "function",
        "function": {"name": made.tool, "arguments": arguments_text(made.args)},
    }


def _usage(made: FakeAnswer) -> dict[str, Any]:
    return {
        "prompt_tokens": made.input,
        "completion_tokens": made.output,
        "total_tokens": made.input + made.output,
        "prompt_tokens_details": {"cached_tokens": made.cached, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": made.reasoning,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }


MOST_KEPT = 10_000  # responses that a later request can go on from
_CALLS = ("function_call", "custom_tool_call", "local_shell_call")
_RESULTS = ("function_call_output", "custom_tool_call_output", "local_shell_call_output")


class Responses:
    """The items of `/v1/responses`, whole or streamed. It remembers conversations by `previous_response_id`."""

    provider = "openai"

    def __init__(self) -> None:
        self._kept: dict[str, ChatRequest] = {}

    def problem(self, body: Mapping[str, Any]) -> str | None:
        given = body.get("input")
        if not given or not (isinstance(given, str) or _are_objects(given)):
            return "Missing required parameter: 'input'."
        before = body.get("previous_response_id")
        if before is not None and before not in self._kept:
            return f"Previous response with id '{before}' not found."
        return problem_of_model(body)

    def read(self, body: Mapping[str, Any]) -> ChatRequest:
        given = body["input"]
        size = characters((body.get("instructions"), given, body.get("tools")))
        before = self._kept.get(str(body.get("previous_response_id")), ChatRequest(""))
        if isinstance(given, str):
            return ChatRequest(given.strip(), 0, None, size + before.characters)
        return read_conversation(given, _classify_item, size, before)

    def response(self, body: Mapping[str, Any], made: FakeAnswer) -> dict[str, Any]:
        return self._response(body, made, new_id("resp_"), _items(body, made))

    def events(self, body: Mapping[str, Any], made: FakeAnswer) -> Iterator[bytes]:
        own, items = new_id("resp_"), _items(body, made)
        begun = _begun(body, own)
        number = 0
        for kind, value in (
            ("response.created", {"response": begun}),
            ("response.in_progress", {"response": begun}),
            *(each for at, item in enumerate(items) for each in _item_events(at, item)),
        ):
            yield event(kind, {"sequence_number": number, **value})
            number += 1
        done = self._response(body, made, own, items)
        kind = "response.incomplete" if made.ending == "cut" else "response.completed"
        yield event(kind, {"sequence_number": number, "response": done})

    def _response(
        self, body: Mapping[str, Any], made: FakeAnswer, own: str, items: list[dict[str, Any]]
    ) -> dict[str, Any]:
        if body.get("store") is not False:
            self._keep(own, body, made)
        cut = made.ending == "cut"
        return {
            **_begun(body, own),
            "status": "incomplete" if cut else "completed",
            "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
            "output": items,
            "usage": _response_usage(made),
        }

    def _keep(self, own: str, body: Mapping[str, Any], made: FakeAnswer) -> None:
        asked = self.read(body)
        self._kept[own] = ChatRequest(
            asked.text, asked.calls + bool(made.tool), asked.result, asked.characters + len(made.text)
        )
        if len(self._kept) > MOST_KEPT:
            del self._kept[next(iter(self._kept))]


def _are_objects(given: Any) -> bool:
    return isinstance(given, list) and all(isinstance(item, dict) for item in given)


def _begun(body: Mapping[str, Any], own: str) -> dict[str, Any]:
    """A response that has no output yet."""
    return {
        "id": own,
        "object": "response",
        "created_at": int(time.time()),
        "status": "in_progress",
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "model": body["model"],
        "output": [],
        "parallel_tool_calls": True,
        "previous_response_id": body.get("previous_response_id"),
        "store": body.get("store") is not False,
        "usage": None,
    }


def _items(body: Mapping[str, Any], made: FakeAnswer) -> list[dict[str, Any]]:
    refused = made.ending == "refusal"
    items: list[dict[str, Any]] = []
    if made.text or refused:
        part: dict[str, Any] = {"type": "output_text", "text": made.text, "annotations": [], "logprobs": []}
        if refused:
            part = {"type": "refusal", "refusal": made.text or REFUSAL}
        status = "incomplete" if made.ending == "cut" else "completed"
        items.append(
            {"id": new_id("msg_"), "type": "message", "status": status, "role": "assistant", "content": [part]}
        )
    if made.tool:
        items.append(_call_item(body, made))
    return items


def _call_item(body: Mapping[str, Any], made: FakeAnswer) -> dict[str, Any]:
    """A call of a function, or of a free-form tool if the name is offered as such, or only text is given."""
    tool, space = _offered(_tools(body), made.tool)
    within = {"namespace": space} if space else {}
    if tool.get("type", "custom" if isinstance(made.args, str) else "function") == "custom":
        text = made.args if isinstance(made.args, str) else made.args.get("input", arguments_text(made.args))
        call = {"id": new_id("ctc_"), "type": "custom_tool_call", "input": text}
    else:
        call = {"id": new_id("fc_"), "type": "function_call", "arguments": arguments_text(made.args)}
    return {**call, "status": "completed", "call_id": new_id("call_"), "name": tool.get("name", made.tool), **within}


def _tools(body: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """All tools that a request offers: beside its input and, as codex does for newer models, among it."""
    places = [body, *(body["input"] if isinstance(body["input"], list) else [])]
    for place in places:
        tools = place.get("tools")
        yield from (tool for tool in tools if isinstance(tool, dict)) if isinstance(tools, list) else ()


def _offered(tools: Iterator[Mapping[str, Any]], wanted: str) -> tuple[Mapping[str, Any], str]:
    """The tool of that name and the namespace it is in, which may be part of the name: `SPACE__NAME`."""
    for tool in tools:
        space = str(tool.get("name"))
        if tool.get("type") != "namespace" and space == wanted:
            return tool, ""
        for inner in _tools({"tools": tool.get("tools"), "input": ""}):
            if wanted in (inner.get("name"), f"{space}__{inner.get('name')}", f"{space}{inner.get('name')}"):
                return inner, space
    return {}, ""


def _item_events(at: int, item: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """How an item comes into being, from its announcement to its end."""
    place = {"item_id": item["id"], "output_index": at}
    if item["type"] == "message":
        yield (
            "response.output_item.added",
            {"output_index": at, "item": {**item, "status": "in_progress", "content": []}},
        )
        yield from _part_events({**place, "content_index": 0}, item["content"][0])
    else:
        field, kind = ("arguments", "function_call_arguments")
        if item["type"] == "custom_tool_call":
            field, kind = ("input", "custom_tool_call_input")
        yield "response.output_item.added", {"output_index": at, "item": {**item, "status": "in_progress", field: ""}}
        for piece in chunks(item[field]):
            yield f"response.{kind}.delta", {**place, "delta": piece}
        yield f"response.{kind}.done", {**place, field: item[field]}
    yield "response.output_item.done", {"output_index": at, "item": item}


def _part_events(place: dict[str, Any], part: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    field, kind = ("refusal", "refusal") if part["type"] == "refusal" else ("text", "output_text")
    yield "response.content_part.added", {**place, "part": {**part, field: ""}}
    for piece in chunks(part[field]):
        yield f"response.{kind}.delta", {**place, "delta": piece}
    yield f"response.{kind}.done", {**place, field: part[field]}
    yield "response.content_part.done", {**place, "part": part}


def _classify_item(item: Mapping[str, Any]) -> tuple[int, str | None, str]:
    kind, output = item.get("type", "message"), item.get("output")
    if kind in _RESULTS:  # text, a list of parts, or an object with a text in it
        return 0, joined_text(output.get("content") if isinstance(output, dict) else output), ""
    is_user = kind == "message" and item.get("role") == "user"
    return int(kind in _CALLS), None, user_text(item.get("content")) if is_user else ""


def _response_usage(made: FakeAnswer) -> dict[str, Any]:
    return {
        "input_tokens": made.input,
        "input_tokens_details": {"cached_tokens": made.cached},
        "output_tokens": made.output,
        "output_tokens_details": {"reasoning_tokens": made.reasoning},
        "total_tokens": made.input + made.output,
    }
