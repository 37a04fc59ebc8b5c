"""Confirmation before a command destroys something."""

from __future__ import annotations

from abreast import output
from abreast.errors import BadInput


def confirm(question: str, command: str) -> bool:
    """Ask on the terminal. Without a terminal, refuse and show `command`, which does it without asking."""
    if not output.is_interactive():
        name = command.split()[1]
        raise BadInput(f"{name} needs --yes: there is no terminal to confirm on; nothing was changed", command)
    return output.confirm(question)
