"""`target: openai`: chat completions and responses, at OpenAI or any compatible server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from abreast.model import Usage
from abreast.settings import Settings
from abreast.targets.api.http_target import ApiTarget, Image, ModelOutput
from abreast.targets.untrusted_json import count, dollars, mapping, storable


class OpenAI(ApiTarget):
    """OpenAI, vLLM, Ollama, proxies: `api: chat` (supported everywhere) or `api: responses`."""

    name = "openai"
    variables = ("OPENAI_API_KEY",)
    address = "https://api.openai.com/v1"
    address_variable = "OPENAI_BASE_URL"

    def _read_own_parameters(self, settings: Settings) -> None:
        self._api = settings.take("api", "chat", lambda value: value in ("chat", "responses"), "chat or responses")

    @property
    def _url(self) -> str:
        return f"{self.base_url}/{'responses' if self._api == 'responses' else 'chat/completions'}"

    def _key_headers(self, key: str) -> dict[str, str]:
        return {"authorization": f"Bearer {key}"}

    def _body(self, prompt: str, images: list[Image]) -> dict[str, Any]:
        body = self._responses_body(prompt, images) if self._api == "responses" else self._chat_body(prompt, images)
        if self._temperature is not None:
            body["temperature"] = self._temperature
        return {"model": self.model, **body, **self._extra}

    def _chat_body(self, prompt: str, images: list[Image]) -> dict[str, Any]:
        content: Any = prompt
        if images:
            parts = [{"type": "image_url", "image_url": {"url": _url_of(image)}} for image in images]
            content = [{"type": "text", "text": prompt}, *parts]
        system = [] if self._system is None else [{"role": "system", "content": self._system}]
        body: dict[str, Any] = {"messages": [*system, {"role": "user", "content": content}]}
        if self._max_tokens is not None:
            body["max_completion_tokens" if self.base_url == self.address else "max_tokens"] = self._max_tokens
        if isinstance(self._json, Mapping):
            body["response_format"] = {"type": "json_schema", "json_schema": {"name": "answer", "schema": self._json}}
        elif self._json:
            body["response_format"] = {"type": "json_object"}
        return body

    def _responses_body(self, prompt: str, images: list[Image]) -> dict[str, Any]:
        content: Any = prompt
        if images:
            parts = [{"type": "input_image", "image_url": _url_of(image)} for image in images]
            content = [{"role": "user", "content": [{"type": "input_text", "text": prompt}, *parts]}]
        body: dict[str, Any] = {"input": content, "store": False}
        if self._system is not None:
            body["instructions"] = self._system
        if self._max_tokens is not None:
            body["max_output_tokens"] = self._max_tokens
        if isinstance(self._json, Mapping):
            body["text"] = {"format": {"type": "json_schema", "name": "answer", "schema": self._json}}
        elif self._json:
            body["text"] = {"format": {"type": "json_object"}}
        return body

    def _parse_output(self, body: Mapping[str, Any]) -> ModelOutput:
        usage = mapping(body.get("usage"))
        text, reason, refusal = _responses(body) if self._api == "responses" else _chat(body)
        cost = dollars(usage.get("cost"))  # reported by some proxies
        return ModelOutput(text, usage_of(usage), storable(body.get("model")), storable(reason), refusal, cost)


def usage_of(usage: Mapping[str, Any]) -> Usage:
    """Convert OpenAI's token counts. Its input tokens include cache reads, which are subtracted.

    >>> usage_of({"prompt_tokens": 100, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 60}})
    Usage(input_tokens=40, output_tokens=7, cache_read_tokens=60, cache_write_tokens=None, reasoning_tokens=None)
    """
    total_input = count(usage.get("prompt_tokens", usage.get("input_tokens")))
    output = count(usage.get("completion_tokens", usage.get("output_tokens")))
    input_details = mapping(usage.get("prompt_tokens_details") or usage.get("input_tokens_details"))
    output_details = mapping(usage.get("completion_tokens_details") or usage.get("output_tokens_details"))
    cached = count(input_details.get("cached_tokens"))
    uncached = None if total_input is None else max(0, total_input - (cached or 0))
    return Usage(uncached, output, cached, None, count(output_details.get("reasoning_tokens")))


def _chat(body: Mapping[str, Any]) -> tuple[str, Any, str | None]:
    choice = body["choices"][0]
    message, reason = choice["message"], choice.get("finish_reason")
    refusal = message.get("refusal") or None  # some servers send an empty one with every answer
    if refusal is None and reason == "content_filter":
        refusal = "stopped by the content filter"
    content = message.get("content") or ""
    if isinstance(content, list):  # some servers send parts
        content = "".join(part.get("text") or "" for part in content)
    return content, reason, None if refusal is None else str(refusal)


def _responses(body: Mapping[str, Any]) -> tuple[str, Any, str | None]:
    parts = [part for item in body["output"] if item.get("type") == "message" for part in item.get("content") or []]
    text = "".join(part.get("text") or "" for part in parts if part.get("type") == "output_text")
    refusals = [str(part.get("refusal") or "") for part in parts if part.get("type") == "refusal"]
    reason = mapping(body.get("incomplete_details")).get("reason") or body.get("status")
    if not refusals and reason == "content_filter":
        refusals = ["stopped by the content filter"]
    return text, reason, refusals[0] if refusals else None


def _url_of(image: Image) -> str:
    return image.url or f"data:{image.media_type};base64,{image.content}"
