"""The Model Context Protocol, for our client and demo server: versions, messages and error codes.

The official SDK is used in tests only: importing it takes 0.7 s of CPU, and the demo server starts in 0.1 s.
"""

from __future__ import annotations

from typing import Any

# Versions with the handshake `initialize`, newest first. Peers with the stateless 2026-07-28 fall back to these.
VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INTERNAL_ERROR = -32700, -32600, -32601, -32603

Message = dict[str, Any]


def request(number: int, method: str, params: Message) -> Message:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def notification(method: str) -> Message:
    return {"jsonrpc": "2.0", "method": method}


def response(number: Any, result: Message) -> Message:
    return {"jsonrpc": "2.0", "id": number, "result": result}


def error_response(number: Any, code: int, message: str) -> Message:
    return {"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": message}}


def is_message(value: Any) -> bool:
    return isinstance(value, dict) and value.get("jsonrpc") == "2.0"


def initialize_params(capabilities: Message, name: str, version: str) -> Message:
    """The parameters of a client's `initialize`."""
    return {
        "protocolVersion": VERSIONS[0],
        "capabilities": capabilities,
        "clientInfo": {"name": name, "version": version},
    }


def initialize_result(params: Message, name: str, version: str, instructions: str) -> Message:
    """The answer of a server with tools: the client's protocol version if it is supported, else the newest."""
    requested = params.get("protocolVersion")
    return {
        "protocolVersion": requested if requested in VERSIONS else VERSIONS[0],
        "capabilities": {"tools": {}},
        "serverInfo": {"name": name, "version": version},
        "instructions": instructions,
    }


def tool_result(text: str, is_error: bool = False) -> Message:
    return {"content": [{"type": "text", "text": text}], **({"isError": True} if is_error else {})}
