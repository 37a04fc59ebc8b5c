"""Pull requests of a repository as cases: a task at the commit before it, and the human change.

Git does not record pull requests. They are recognized in the first-parent history of a branch by one of three marks:

- **merge**: a commit with two parents, by GitHub, GitLab, Bitbucket or plain git; the change is first parent..merge.
- **squash**: a commit with one parent whose subject ends in `(#12)` or `(!12)`.
- **rebase**: several consecutive commits of one author without a mark, each committed at most 5 seconds after the
  previous one, as a rebase does. Commits that a program made in quick succession look the same.

A single commit without a mark is not a pull request. Also excluded, because they cannot measure an agent: merges of a
main branch, a release branch or a branch that collects pull requests; merges with more than two parents; empty changes;
updates of dependencies, CI configuration and version numbers; reverts, and the changes that they reverted (unless the
revert was reverted). `left_out` lists all of them with the reason.

With `commits`, each one a commit or a range A..B, these rules do not apply.
"""

from __future__ import annotations

from abreast.suites.coding_agents.history.discovery import Exclusion, PullRequest, pull_requests
from abreast.suites.coding_agents.history.pull_request_cases import cases, left_out, newest_first
from abreast.suites.coding_agents.history.task_writer import TaskWriter

__all__ = ["Exclusion", "PullRequest", "TaskWriter", "cases", "left_out", "newest_first", "pull_requests"]
