"""`target: anthropic`: the Messages API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from abreast.model import Usage
from abreast.targets.api.http_target import ApiTarget, Image, ModelOutput
from abreast.targets.untrusted_json import count, mapping, storable

VERSION = "2023-06-01"
MAX_TOKENS = 4_096  # the API requires a number


class Anthropic(ApiTarget):
    """Claude models, at Anthropic or behind a compatible proxy."""

    name = "anthropic"
    variables = ("ANTHROPIC_API_KEY",)
    address = "https://api.anthropic.com"
    address_variable = "ANTHROPIC_BASE_URL"
    _fixed_headers = {"anthropic-version": VERSION}  # noqa: RUF012

    @property
    def _url(self) -> str:
        return f"{self.base_url.removesuffix('/v1')}/v1/messages"

    def _key_headers(self, key: str) -> dict[str, str]:
        return {"x-api-key": key}

    def _body(self, prompt: str, images: list[Image]) -> dict[str, Any]:
        content: Any = prompt
        if images:
            content = [*map(_image, images), {"type": "text", "text": prompt}]
        body: dict[str, Any] = {
            "model": self.model,
            "max_tokens": self._max_tokens or MAX_TOKENS,
            "messages": [{"role": "user", "content": content}],
        }
        if self._system is not None:
            body["system"] = self._system
        if self._temperature is not None:
            body["temperature"] = self._temperature
        if isinstance(self._json, Mapping):
            body["output_config"] = {"format": {"type": "json_schema", "schema": self._json}}
        elif self._json:
            body["system"] = f"{self._system or ''}\nAnswer with one JSON value and nothing else.".strip()
        return {**body, **self._extra}

    def _parse_output(self, body: Mapping[str, Any]) -> ModelOutput:
        text = "".join(part["text"] for part in body["content"] if part.get("type") == "text")
        reason = storable(body.get("stop_reason"))
        refusal = str(mapping(body.get("stop_details")).get("explanation") or "") if reason == "refusal" else None
        return ModelOutput(text, usage_of(mapping(body.get("usage"))), storable(body.get("model")), reason, refusal)


def usage_of(usage: Mapping[str, Any]) -> Usage:
    """Convert Anthropic's token counts. Its input tokens exclude cache reads and writes."""
    return Usage(
        count(usage.get("input_tokens")),
        count(usage.get("output_tokens")),
        count(usage.get("cache_read_input_tokens")),
        count(usage.get("cache_creation_input_tokens")),
        count(mapping(usage.get("output_tokens_details")).get("thinking_tokens")),
    )


def _image(image: Image) -> dict[str, Any]:
    source = {"type": "base64", "media_type": image.media_type, "data": image.content}
    return {"type": "image", "source": source if image.url is None else {"type": "url", "url": image.url}}
