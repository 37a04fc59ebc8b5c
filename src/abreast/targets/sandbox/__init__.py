"""`sandbox:` of an agent: its program sees a read-only system, an empty home, its own folder, and what is named."""

from __future__ import annotations

from abreast.targets.sandbox.bwrap import Exposed, Needs, bubblewrap, exit_code, find_problem, wrap
from abreast.targets.sandbox.config import Sandbox, read_sandbox

__all__ = ["Exposed", "Needs", "Sandbox", "bubblewrap", "exit_code", "find_problem", "read_sandbox", "wrap"]
