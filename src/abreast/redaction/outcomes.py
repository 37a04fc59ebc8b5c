"""Redact outcomes: answers with their artifacts, failures with their tracebacks."""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from abreast.model import STATE, Answer, Case, Failure, Outcome
from abreast.redaction.known_secrets import KNOWN_SECRETS
from abreast.redaction.patterns import redact_patterns
from abreast.redaction.redactor import Redactor, redact_texts

MAX_CONTENT = 64_000_000  # bytes; larger files are left out without a search
_PATCH_HEADER = "GIT binary patch\n"
_PATCH = re.compile(r"^GIT binary patch\n((?:(?:literal|delta) \d+\n(?:[A-Za-z][^\n]+\n)*\n?)+)", re.MULTILINE)
_PART = re.compile(r"(?:literal|delta) (\d+)\n((?:[A-Za-z][^\n]+\n)*)")


def redact_binary_patches(diff: str, find: Callable[[bytes], str | None]) -> str:
    """Leave out the content of binary files in which `find` finds a secret."""
    return _PATCH.sub(lambda patch: _redact_patch(patch, find), diff) if _PATCH_HEADER in diff else diff


def _redact_patch(patch: re.Match[str], find: Callable[[bytes], str | None]) -> str:
    for part in _PART.finditer(patch[1]):
        content = _decode_part(int(part[1]), part[2])
        name = "unreadable" if content is None else find(content)
        if name is not None:
            return f"Binary content left out: [{name}]\n"
    return patch[0]


def _decode_part(size: int, lines: str) -> bytes | None:
    """Decode the lines of one part; None if they are damaged, truncated or too large."""
    if size > MAX_CONTENT:
        return None
    try:
        packed = b"".join(_decode_line(line) for line in lines.splitlines())
        content = zlib.decompressobj().decompress(packed, MAX_CONTENT)
    except (ValueError, zlib.error):
        return None
    return content if len(content) >= size else None


def _decode_line(line: str) -> bytes:
    """Decode a line: a letter for the number of bytes, then base 85."""
    length = ord(line[0]) - (ord("A") - 1 if line[0] <= "Z" else ord("a") - 27)
    return base64.b85decode(line[1:])[:length]


_REDACTED_FIELDS = ("text", "value", "data", "model", "raw_response")


def redact_outcome(outcome: Outcome) -> Outcome:
    """Redact everything in an outcome that is stored or shown; return the same object if nothing changes."""
    redactor = KNOWN_SECRETS.redactor
    answer, failure = outcome.answer, outcome.failure
    clean_answer = answer if answer is None else redact_answer(answer, redactor)
    clean_failure = failure if failure is None else _redact_failure(failure, redactor)
    if clean_answer is answer and clean_failure is failure:
        return outcome
    return replace(outcome, answer=clean_answer, failure=clean_failure)


def redact_answer(answer: Answer, redactor: Redactor) -> Answer:
    changed: dict[str, Any] = {}
    for name in _REDACTED_FIELDS:
        value = getattr(answer, name)
        redacted = redactor.redact_value(value)
        if redacted is not value:
            changed[name] = redacted
    if answer.artifacts:
        changed["artifacts"] = _redact_artifacts(answer, redactor)
    if changed.keys() & {"text", "value", "data"} and "raw_response" not in changed:
        changed["raw_response"] = _redact_parsed(answer.raw_response, redactor)
    return replace(answer, **changed) if changed else answer


def _redact_parsed(text: str | None, redactor: Redactor) -> str | None:
    """Redact a response whose JSON escapes characters so unusually that its text matches no form of a secret."""
    try:
        content = json.loads(text or "")
        redacted = redactor.redact_value(content)
        return text if redacted is content else json.dumps(redacted, ensure_ascii=False)
    except (ValueError, RecursionError):
        return text


def redact_case(case: Case) -> Case:
    """Redact the input and the expected value of a case, as the store does."""
    redactor = KNOWN_SECRETS.redactor
    value, expected = redactor.redact_value(case.input), redactor.redact_value(case.expected)
    unchanged = value is case.input and expected is case.expected
    return case if unchanged else replace(case, input=value, expected=expected)


def _redact_artifacts(answer: Answer, redactor: Redactor) -> dict[str, str]:
    artifacts = {}
    for name, content in answer.artifacts.items():
        if name != STATE:  # the state of a workspace is searched file by file before it is packed
            content = redact_binary_patches(content, redactor.find_in_bytes)
            content = redact_patterns(redactor.redact_cut(content))
        artifacts[redactor.redact(name)] = content
    return artifacts


def _redact_failure(failure: Failure, redactor: Redactor) -> Failure:
    texts = (failure.message, failure.detail, failure.fix)
    redacted = redact_texts(texts, lambda text: redact_patterns(redactor.redact_cut(text)))
    if redacted is texts:
        return failure
    message, detail, fix = redacted
    return replace(failure, message=message, detail=detail, fix=fix)
