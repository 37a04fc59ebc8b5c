"""Suite `coding-agents`: which coding agent is better on our repository?

Prompts, or the pull requests of a repository, are given to several agents, each run in a checkout of its own; what they
changed is tested, measured, compared with what people did, and judged.
"""

from abreast.suites.coding_agents.suite import SUITE

__all__ = ["SUITE"]
