"""Workspaces: each agent trial works in its own folder, created for it and removed afterwards.

A variant's `workspace:` says what a trial starts from: `empty`, `{copy: FOLDER}`, or `{git: FOLDER_OR_URL, commit:
REVISION}`, optionally with `after: CASE`, the state that the trial of another case left. The start is prepared once per
run and copied for each trial; file systems that share blocks (btrfs, XFS, APFS) make the copies nearly free. A checkout
contains the commit and its ancestors only: no other branches or tags, remotes, reflog or later objects, so the solution
cannot be found in it. It has one branch, `main`, and the agent can commit. `commit:` may be a template over the case's
input (`"{{ commit }}"`). Submodules stay empty folders, Git LFS files stay pointers. Copies of folders omit abreast
stores, sockets, and `.git` files that point to a repository elsewhere.

Changes are measured from outside, against a record that the agent cannot reach: it may commit, reset, rewrite history
or delete `.git` without affecting the diff. The diff is a unified diff for `git apply`; it omits files ignored at the
start or at the end, and lists files above 16 MB by name and size only.

Workspaces live under `$ABREAST_WORKSPACES`, by default `abreast-UID` in the folder for temporary files. The parent of a
workspace contains nothing else, and folders of other trials cannot be listed. This separates honest agents; it is not a
sandbox (see `sandbox:`): an agent runs as the user who started it and can find the original repository.
"""

from __future__ import annotations

from abreast.targets.workspace.files.directories import NoWorkspace
from abreast.targets.workspace.git.diff import Diff, NotCarried, PreviousState, WorkspaceState
from abreast.targets.workspace.workspaces import Workspace, Workspaces

__all__ = ["Diff", "NoWorkspace", "NotCarried", "PreviousState", "Workspace", "WorkspaceState", "Workspaces"]
