"""MCP servers of a variant: their declarations, digests, and the tools they offer."""

from __future__ import annotations

from abreast.targets.mcp.declaration import Server, parse_servers
from abreast.targets.mcp.digest import version
from abreast.targets.mcp.expansion import client_config, expand
from abreast.targets.mcp.inspection import Inspection, Tool, inspect_server, inspect_servers

__all__ = [
    "Inspection",
    "Server",
    "Tool",
    "client_config",
    "expand",
    "inspect_server",
    "inspect_servers",
    "parse_servers",
    "version",
]
