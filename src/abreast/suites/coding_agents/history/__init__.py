"""Pull requests of a repository as cases: each is a task at the commit before it, with the change that people made.

Git does not know pull requests. What is read is the first-parent history of a branch, and one of three marks counts:

- **merge**: a commit with two parents, by GitHub, GitLab, Bitbucket or plain git; the change is first parent..merge.
- **squash**: a commit with one parent whose subject ends in `(#12)` or `(!12)`.
- **rebase**: several commits in a row without a mark, of one author, each committed at most 5 seconds after the one
  before, as a rebase writes them. Commits that a program made in a row look the same.

A lone commit without a mark is not taken for a pull request. Left out besides, because no agent could be measured by
them: merges of a main branch into the branch, or of the same branch from elsewhere (`git pull`), which are the work of
others; merges of more than two parents, which are several at once; what changes nothing; releases and version bumps,
which nothing in the repository asks for; reverts, and what they took back, for people themselves did not want it. A
revert that was reverted takes nothing back. `left_out` tells of each of them, and why.

With `commits` they are named, each a commit or a range A..B, and nothing is guessed nor left out by these rules.
"""

from __future__ import annotations

from abreast.suites.coding_agents.history.drafting import Draft
from abreast.suites.coding_agents.history.finding import LeftOut, PullRequest, pull_requests
from abreast.suites.coding_agents.history.making import cases, left_out

__all__ = ["Draft", "LeftOut", "PullRequest", "cases", "left_out", "pull_requests"]
