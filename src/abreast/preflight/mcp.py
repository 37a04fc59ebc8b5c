"""Do the MCP servers of the variants start, and which tools do they offer? A client goes on without them in silence."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from abreast.preflight.context import Context
from abreast.preflight.finding import Finding, listed, many
from abreast.preflight.waiting import waited_for

if TYPE_CHECKING:
    from abreast.targets.mcp import Found, Server

TOOLS = 6  # named before the rest is counted


def check(context: Context) -> Finding | None:
    """Each server is started once, whoever uses it, and ended again; of variants with something left to execute."""
    users = _users(context)
    if not users:
        return None
    found = [one for folder in _folders(users) for one in _look(users, folder)]
    broken = [(user, one) for user, one in found if one.problem]
    details = tuple(each for _, one in found if not one.problem for each in _tools(one))
    if broken:
        told = [f"{listed(names)}: {one.server}: {one.problem}" for (_, _, names), one in broken]
        return Finding("mcp", "fail", "; ".join(told[:2]), broken[0][1].fix, (*told[2:], *details))
    return Finding("mcp", "pass", "; ".join(_sentence(one) for _, one in found), "", details)


User = tuple["Server", Path, list[str]]
"""A server, the folder it is started in, and the variants that use it."""


def _users(context: Context) -> list[User]:
    left = {one.variant for one in context.estimate.variants}
    found: list[User] = []
    for variant, target in zip(context.plan.variants, context.targets, strict=True):
        if variant.name not in left:
            continue
        folder = Path(target.mcp_folder or context.surroundings.base)
        for server in target.mcp_servers:
            same = next((names for one, there, names in found if (one, there) == (server, folder)), None)
            if same is None:
                found.append((server, folder, [variant.name]))
            else:
                same.append(variant.name)
    return found


def _folders(users: Sequence[User]) -> list[Path]:
    return list(dict.fromkeys(folder for _, folder, _ in users))


def _look(users: Sequence[User], folder: Path) -> list[tuple[User, Found]]:
    from abreast.targets.mcp import look_at_all  # late: most experiments have no such server

    mine = [user for user in users if user[1] == folder]
    servers = [server for server, _, _ in mine]
    return list(zip(mine, waited_for(lambda: look_at_all(servers, folder)), strict=True))


def _sentence(one: Found) -> str:
    names = [tool.name for tool in one.tools]
    rest = len(names) - TOOLS
    told = ", ".join(names[:TOOLS]) + (f" and {many(rest, 'other')}" if rest > 0 else "")
    return f"{one.server}: {many(len(names), 'tool')} ({told}) in {one.seconds:.1f} s"


def _tools(one: Found) -> list[str]:
    from abreast.targets.mcp.text import line

    said = f" ({one.title})" if one.title else ""
    return [f"{one.server}{said}", *(f"  {tool.name}: {line(tool.description)}".rstrip(": ") for tool in one.tools)]
