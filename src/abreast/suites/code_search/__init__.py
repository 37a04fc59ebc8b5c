"""Suite `code-search`: does an MCP server help an agent to find code?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from abreast.suites.code_search.suite import SUITE

__all__ = ["SUITE"]


def __getattr__(name: str) -> Any:
    """Import the suite on access, so that the demo server, a subpackage, starts without the rest of the product."""
    if name == "SUITE":
        from abreast.suites.code_search.suite import SUITE

        return SUITE
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
