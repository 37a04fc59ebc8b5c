"""`sandbox:` of an agent: its program sees a read-only system, an empty home, its own folder, and what is named."""

from __future__ import annotations

from abreast.targets.sandbox.config import Sandbox, read_sandbox
from abreast.targets.sandbox.tool import bubblewrap, find_problem
from abreast.targets.sandbox.view import Exposed, Needs, exit_code, wrap

__all__ = ["Exposed", "Needs", "Sandbox", "bubblewrap", "exit_code", "find_problem", "read_sandbox", "wrap"]
