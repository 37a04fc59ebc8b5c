"""Suite `coding-agents`: which coding agent is better on our repository?

Each agent works on prompts, or on the pull requests of a repository, in a checkout of its own. Its changes are tested,
measured, compared with the human change, and judged.
"""

from abreast.suites.coding_agents.suite import SUITE

__all__ = ["SUITE"]
