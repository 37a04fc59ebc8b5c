"""Workspaces: each agent trial works in its own folder, created for it and removed afterwards.

A variant's `workspace:` sets the start of a trial: `empty`, `{copy: FOLDER}`, or `{git: FOLDER_OR_URL, commit:
REVISION}`, optionally with `after: CASE`, the state that the trial of another case left. The start is prepared once per
run and copied for each trial. A checkout contains the commit and its ancestors only: no other branches, remotes, reflog
or later objects, so the solution cannot be found in it. Copies of folders omit stores and sockets.

Changes are measured from outside, against a record that the agent cannot reach: it may commit, reset, rewrite history
or delete `.git` without affecting the diff.

Workspaces live under `$ABREAST_WORKSPACES`, by default `abreast-UID` in the folder for temporary files. This separates
honest agents; it is not a sandbox (see `sandbox:`): an agent runs as its user and can find the original repository.
"""

from __future__ import annotations

from abreast.targets.workspace.files.directories import NoWorkspace
from abreast.targets.workspace.git.diff import Diff, NotCarried, PreviousState, WorkspaceState
from abreast.targets.workspace.workspaces import Workspace, Workspaces

__all__ = ["Diff", "NoWorkspace", "NotCarried", "PreviousState", "Workspace", "WorkspaceState", "Workspaces"]
