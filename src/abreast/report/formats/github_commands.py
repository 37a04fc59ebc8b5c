"""Workflow commands in the log of a GitHub workflow, and the files for outputs of its steps."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from abreast.text import printable


def command(name: str, message: str, **properties: str | None) -> str:
    """Format a workflow command.

    >>> command("error", "50 % worse\\n::warning::", title="a: b, c", file=None)
    '::error title=a%3A b%2C c::50 %25 worse%0A::warning::'
    """
    values = {key: _escape(value).replace(":", "%3A").replace(",", "%2C") for key, value in properties.items() if value}
    options = ",".join(f"{key}={value}" for key, value in values.items())
    return f"::{name}{' ' if options else ''}{options}::{_escape(message)}"


def _escape(text: str) -> str:
    return printable(text.replace("\r\n", "\n")).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def write_outputs(**values: str) -> None:
    """Set outputs of this step, if a workflow executes this process."""
    if path := os.environ.get("GITHUB_OUTPUT"):
        delimiter = f"end-{secrets.token_hex(16)}"  # cannot be guessed by the author of the value
        append(path, "".join(f"{name}<<{delimiter}\n{value}\n{delimiter}\n" for name, value in values.items()))


def append(path: str, text: str) -> None:
    with Path(path).open("a", encoding="utf-8", errors="replace") as file:
        file.write(text)
