"""Suite `code-search`: does an MCP server help an agent to find code?"""

from abreast.suites.code_search.suite import SUITE

__all__ = ["SUITE"]
