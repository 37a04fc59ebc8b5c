"""Workspaces: each trial of an agent works in a folder of its own, made for it and removed after it.

`workspace:` of a variant says what a trial begins with: `empty` (or nothing), `{copy: FOLDER}`, or `{git:
FOLDER_OR_URL, commit: REVISION}`; with `after: CASE` what the trial of that case left. What trials begin with is
prepared once a run and copied for each of them; on file systems that share blocks between copies (btrfs, XFS, APFS) the
copy costs next to no disk. A checkout has the commit and its ancestors and nothing else: no other branch or tag, no
remote, no reflog, no later object, so the solution cannot be found in it. It has one branch `main`, and the agent can
commit. `commit:` may be a template over the input of the case (`"{{ commit }}"`), so every case can have its own start.
Submodules stay empty folders and files of Git LFS stay pointers. Of a copied folder a store of abreast, sockets, and a
`.git` that is only a pointer to a repository elsewhere are left out.

What the agent changed is measured from outside with a record that the agent does not have, so it may commit, reset,
rewrite history or delete `.git`: the difference against the start is the same. It is a unified diff that `git apply`
takes; files that are ignored, at the start or at the end, are left out; files above 16 MB are only named, with their
size.

All of it lies under `$ABREAST_WORKSPACES`, or `abreast-UID` in the folder for temporary files; the folder above a
workspace has nothing else in it, and folders of other trials cannot be listed. This keeps honest agents apart. It is
no sandbox, which `sandbox:` is: an agent runs as the user who started it and can find the original repository.
"""

from __future__ import annotations

from abreast.targets.workspace.files.directories import NoWorkspace
from abreast.targets.workspace.git.diff import Carried, Diff, NotCarried, State
from abreast.targets.workspace.workspaces import Workspace, Workspaces

__all__ = ["Carried", "Diff", "NoWorkspace", "NotCarried", "State", "Workspace", "Workspaces"]
