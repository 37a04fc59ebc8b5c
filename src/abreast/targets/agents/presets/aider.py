"""Output of aider: text with its own lines before and after the answer. The exit code is always 0."""

from __future__ import annotations

import re
from pathlib import Path

from abreast import errors
from abreast.model import Usage
from abreast.targets.agents.presets.agent_output import (
    LONGEST_LOG,
    AgentOutput,
    error_from_message,
    one_line,
    unanswered_error,
    uncached,
)
from abreast.targets.processes import process
from abreast.targets.untrusted_json import count, dollars

LOGIN = "set the key of the model's provider in the environment, such as OPENAI_API_KEY"
_HEAD = re.compile(r"^Repo-map: .*\n", re.M)
_TOKENS = re.compile(r"^Tokens: (.*)$", re.M)
_COUNT = re.compile(r"([\d.,]+)([kM]?) (sent|cache write|cache hit|received)")
_COST = re.compile(r"\$([\d.,]+) session")
_MODEL = re.compile(r"^(?:Main model|Model): (\S+)", re.M)
_ERROR = re.compile(r"^litellm\.(\w*(?:Error|Exceeded|Timeout)): .*", re.M | re.S)
_LIMIT = re.compile(r"^Model .* has hit a token limit!$", re.M)
_AGAIN = re.compile(r"^Retrying in [\d.]+ seconds\.\.\.\n", re.M)
_DELAY = re.compile(r"^Retrying in ([\d.]+) seconds", re.M)
_NOTES = re.compile(r"^(?:https://aider\.chat/\S*|Added .* to the chat\.?)\n", re.M)
_BY_NAME = {"AuthenticationError": 401, "RateLimitError": 429, "NotFoundError": 404, "BadRequestError": 400}


def read(out: Path, err: Path) -> AgentOutput:
    printed = process.content(out, LONGEST_LOG)
    head, model = _HEAD.search(printed), _MODEL.search(printed)
    body = printed[head.end() :] if head else printed
    counted = list(_TOKENS.finditer(body))
    output = AgentOutput(model=model[1] if model else None)
    if counted:
        output.usage = _usage(counted)
        costs = [cost[1] for counts in counted if (cost := _COST.search(counts[1]))]
        output.cost_usd = _number(costs[-1]) if costs else None
        output.turns = len(counted)
    answer = body[: counted[-1].start()] if counted else body
    delays = [_number(text) or 0.0 for text in _DELAY.findall(body)]
    output.api_retries = len(delays)
    *earlier, last = _AGAIN.split(body)
    if earlier and not last.strip():  # ended while it waited
        error = _ERROR.search(earlier[-1])
        reason = one_line(error[0])[:200] if error else ""
        output.unanswered = unanswered_error(len(delays), _BY_NAME.get(error[1], 503) if error else 503, reason, LOGIN)
        delays.pop()
    output.retry_wait_s = sum(delays)
    output.text = _NOTES.sub("", _AGAIN.split(answer)[-1]).strip() or None
    rest = _AGAIN.split(body[counted[-1].end() :] if counted else body)[-1]
    if _LIMIT.search(rest):
        output.error = errors.TooLong("the model has hit a token limit")
    elif error := _ERROR.search(rest):
        output.error = error_from_message(error[0], LOGIN, _BY_NAME.get(error[1]))
    return output


def _usage(counted: list[re.Match[str]]) -> Usage:
    """Parse the token counts, which are printed rounded. Tokens sent include cache reads and writes."""
    sums: dict[str, float] = {}
    for line in counted:
        for number, unit, kind in _COUNT.findall(line[1]):
            factor = {"": 1, "k": 1_000, "M": 1_000_000}[unit]
            sums[kind] = sums.get(kind, 0) + (_number(number) or 0) * factor
    tokens = {kind: count(round(number)) for kind, number in sums.items()}
    read, written = tokens.get("cache hit"), tokens.get("cache write")
    return Usage(uncached(tokens.get("sent"), (read or 0) + (written or 0)), tokens.get("received"), read, written)


def _number(text: str) -> float | None:
    try:
        return dollars(float(text.replace(",", "")))
    except ValueError:
        return None
