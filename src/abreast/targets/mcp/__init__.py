"""MCP servers of a variant: what is declared, what they are made of, and what they offer when they are started."""

from __future__ import annotations

from abreast.targets.mcp.declaration import Server, servers
from abreast.targets.mcp.digest import version
from abreast.targets.mcp.expanding import config, expanded
from abreast.targets.mcp.look import Found, Tool, look, look_at_all

__all__ = ["Found", "Server", "Tool", "config", "expanded", "look", "look_at_all", "servers", "version"]
