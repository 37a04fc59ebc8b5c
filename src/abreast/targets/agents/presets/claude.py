"""What Claude Code prints, and Qwen Code after its manner: an object a line, the last one with the result."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

from abreast.errors import Crashed
from abreast.model import Usage
from abreast.targets.agents.claude_stream import Stream
from abreast.targets.agents.presets.agent_output import Said, lines, trouble, without
from abreast.targets.untrusted_json import count, dollars, mapping

QWEN_LOGIN = "run `qwen auth` once, or: export OPENAI_API_KEY=... and OPENAI_BASE_URL=..."
_UNREADABLE = (AttributeError, TypeError, ValueError, RecursionError)  # fields of another kind than they should be
_API_ERROR = re.compile(r"^\[API Error: (.*)\]$", re.S)


def read(out: Path, err: Path) -> Said:
    try:
        return _claude(_heard(out))
    except _UNREADABLE as error:
        return Said(trouble=Crashed(f"an output that cannot be read: {error}"))


def read_qwen(out: Path, err: Path) -> Said:
    try:
        return _qwen(_heard(out))
    except _UNREADABLE as error:
        return Said(trouble=Crashed(f"an output that cannot be read: {error}"))


def _claude(stream: Stream) -> Said:
    said = _said(stream)
    said.is_included = bool(stream.start) and not stream.is_paid_by_key
    said.trouble = stream.trouble()
    return said


def _qwen(stream: Stream) -> Said:
    """Its errors are answers with exit code 0, and its input counts what was read from a cache."""
    said = _said(stream)
    cached = said.usage.cache_read_tokens
    said.usage = Usage(without(said.usage.input_tokens, cached), said.usage.output_tokens, cached)
    said.api_retries = None  # it does not tell
    error = _API_ERROR.match((said.text or "").strip())
    if error:
        said.trouble, said.text = trouble(error[1], QWEN_LOGIN), None
    elif mapping(stream.end).get("is_error"):
        told = mapping(mapping(stream.end).get("error")).get("message") or said.text
        said.trouble = trouble(str(told or mapping(stream.end).get("subtype")), QWEN_LOGIN)
    else:
        said.trouble = stream.trouble()
    return said


def _heard(out: Path) -> Stream:
    stream = Stream()
    for line in lines(out):
        with contextlib.suppress(*_UNREADABLE):
            stream.hear(line)
    return stream


def _said(stream: Stream) -> Said:
    columns = stream.columns()
    used = stream.usage
    return Said(
        text=stream.text if stream.end is not None or stream.said else None,
        usage=Usage(
            *map(count, (used.input_tokens, used.output_tokens, used.cache_read_tokens, used.cache_write_tokens))
        ),
        cost_usd=dollars(stream.cost_usd),
        model=stream.model,
        turns=count(columns["turns"]),
        tools=stream.tools,
        mcp=stream.mcp_columns(),
        api_retries=stream.retries,
        retry_wait_s=stream.retry_wait_s,
        unanswered=stream.unanswered(),
    )
