"""Pull requests of a repository as cases: each is a task at the commit before it, with the change that people made.

Git does not know pull requests. What is read is the first-parent history of a branch, and one of three marks counts:

- **merge**: a commit with two parents, by GitHub, GitLab, Bitbucket or plain git; the change is first parent..merge.
- **squash**: a commit with one parent whose subject ends in `(#12)` or `(!12)`.
- **rebase**: several commits in a row without a mark, of one author, each committed at most 5 seconds after the one
  before, as a rebase writes them. Commits that a program made in a row look the same.

A lone commit without a mark is not taken for a pull request. Left out besides, because no agent could be measured by
them: merges that bring in the work of others, which are those of a main branch, of a release branch or of a branch that
collects pull requests (`branches`); merges of more than two parents; what changes nothing; updates of dependencies, CI
configuration and version numbers, which nothing in the repository asks for (`maintenance`); reverts, and what they took
back, for people themselves did not want it. A revert that was reverted takes nothing back. `left_out` lists each of
them with the reason.

With `commits` they are named, each a commit or a range A..B, and nothing is guessed nor left out by these rules.
"""

from __future__ import annotations

from abreast.suites.coding_agents.history.discovery import LeftOut, PullRequest, pull_requests
from abreast.suites.coding_agents.history.draft import Draft
from abreast.suites.coding_agents.history.pull_request_cases import cases, left_out, newest_first

__all__ = ["Draft", "LeftOut", "PullRequest", "cases", "left_out", "newest_first", "pull_requests"]
