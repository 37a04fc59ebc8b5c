"""MCP servers of a variant: what is declared, what they are made of, and what they offer when they are started."""

from __future__ import annotations

from abreast.targets.mcp.declaration import Server, servers
from abreast.targets.mcp.digest import version
from abreast.targets.mcp.expanding import config, expand
from abreast.targets.mcp.look import Inspection, Tool, inspect_server, inspect_servers

__all__ = ["Inspection", "Server", "Tool", "config", "expand", "inspect_server", "inspect_servers", "servers", "version"]
