"""Which cases are proposed: verified ones, spread over kinds, languages and folders, the same for the same seed."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import TypeVar

from abreast.errors import BadInput
from abreast.languages import LANGUAGES, Definition
from abreast.suites.code_search.mining import callers, configuration, definitions
from abreast.suites.code_search.mining.judging import is_understood
from abreast.suites.code_search.mining.proposal import Known, Proposal, words_of
from abreast.suites.code_search.mining.repository import File, Repository

KINDS = ("definitions", "callers", "configuration")
LIMIT = 20
FILES_A_CASE = 4  # source files that are read for each case that is wanted, before more are

Item = TypeVar("Item")


def propose(
    repo: Path,
    *,
    limit: int = LIMIT,
    seed: int = 0,
    kinds: Sequence[str] = KINDS,
    languages: Sequence[str] = (),
    known: Known | None = None,
) -> list[Proposal]:
    """So many cases of a repository at most, none of them known. Languages left out are all, with configuration."""
    if limit < 1:
        raise BadInput(f"--limit {limit}: must be a whole number of at least 1")
    if not repo.is_dir():
        what = "is a file, not a folder" if repo.exists() else "there is no such folder"
        raise BadInput(f"--repo {repo}: {what}", "name the folder of a repository")
    repository = Repository(repo)
    if not repository.files:
        raise BadInput(
            f"{repo}: there is no file to ask about", "name a repository with files that git tracks: git add"
        )
    taken = _Taken(known or Known())
    for found in _rounds(repository, limit, Random(seed), kinds, languages):
        taken.add_from(found, limit)
        if len(taken.proposals) >= limit:
            break
    return taken.proposals


class _Taken:
    """What is proposed so far, with ids of its own."""

    def __init__(self, known: Known) -> None:
        self.proposals: list[Proposal] = []
        self._known = known
        self._ids: set[str] = set()
        self._prompts = set(known.prompts)

    def add_from(self, streams: list[Iterator[Proposal]], limit: int) -> None:
        """One of each kind in turn, until there are enough or no more."""
        while streams and len(self.proposals) < limit:
            stream = streams.pop(0)
            for proposal in stream:
                if self._add(proposal):
                    streams.append(stream)
                    break

    def _add(self, proposal: Proposal) -> bool:
        prompt = proposal.case["prompt"]
        if proposal.id in self._known.ids or prompt in self._prompts:
            return False
        if _reveals(proposal) or not is_understood(proposal):
            return False
        base, number = proposal.id, 2
        while proposal.id in self._ids or proposal.id in self._known.ids:
            proposal.case["id"] = f"{base}-{number}"
            number += 1
        self._ids.add(proposal.id)
        self._prompts.add(prompt)
        self.proposals.append(proposal)
        return True


def _reveals(proposal: Proposal) -> bool:
    """Whether the question names the answer."""
    paths = proposal.case["ground_truth"]["files"]
    return any(path in proposal.case["prompt"] or path.rpartition("/")[2] in proposal.case["prompt"] for path in paths)


def _rounds(
    repository: Repository, limit: int, random: Random, kinds: Sequence[str], languages: Sequence[str]
) -> Iterator[list[Iterator[Proposal]]]:
    """Streams of verified proposals, from more and more source files: a large repository is read only in part."""
    wanted = languages or LANGUAGES
    sources = [file for file in repository.files if file.kind == "source" and file.language in wanted]
    order = spread(sources, random, lambda file: str(file.language), lambda file: file.folder)
    settings = [file for file in repository.files if file.kind == "config" and repository.may_be_asked_about(file)]
    if "configuration" not in kinds or languages:
        settings = []
    size, start = limit * FILES_A_CASE, 0
    while start < len(order) or settings:
        batch = [file for file in order[start : start + size] if repository.may_be_asked_about(file)]
        if batch or settings:
            yield _streams(repository, batch, settings, random, kinds)
        settings = []
        start, size = start + size, size * 2


def _streams(
    repository: Repository, sources: list[File], settings: list[File], random: Random, kinds: Sequence[str]
) -> list[Iterator[Proposal]]:
    """A stream for each kind that is wanted."""
    names = definitions.candidates(repository, sources) if set(kinds) & {"definitions", "callers"} else []
    entries = configuration.candidates(repository, settings)
    holding = repository.holding({one.name for _, one in names} | {entry.key for entry in entries})
    places, namesakes = definitions.Places(repository, holding), _namesakes(repository)
    streams = {
        "definitions": definitions.proposals(places, _in_turn(names, random), namesakes),
        "callers": callers.proposals(places, _in_turn(names, random), namesakes),
        "configuration": configuration.proposals(
            repository,
            spread(entries, random, lambda entry: entry.language, lambda entry: entry.file.path),
            holding,
            namesakes,
        ),
    }
    return [streams[kind] for kind in KINDS if kind in kinds]


def _in_turn(names: list[tuple[File, Definition]], random: Random) -> list[tuple[File, Definition]]:
    keys: tuple[Callable[[tuple[File, Definition]], Hashable], ...] = (
        lambda item: item[0].language,
        lambda item: item[0].folder,
        lambda item: item[0].path,
        lambda item: item[1].kind,
    )
    return spread(names, random, *keys)


def _namesakes(repository: Repository) -> Callable[[str], int]:
    """How many files have the longest word of a name in their path."""
    paths = [file.path.lower() for file in repository.files]

    @lru_cache(1_000)
    def count(name: str) -> int:
        longest = max(words_of(name), key=len, default=name.lower())
        return sum(longest in path for path in paths)

    return count


def spread(items: Sequence[Item], random: Random, *keys: Callable[[Item], Hashable]) -> list[Item]:
    """The items in an order in which neighbours differ: the groups of the first key take turns, and so on inside."""
    if not keys:
        shuffled = list(items)
        random.shuffle(shuffled)
        return shuffled
    groups: dict[Hashable, list[Item]] = {}
    for item in items:
        groups.setdefault(keys[0](item), []).append(item)
    names = list(groups)
    random.shuffle(names)
    turns = [spread(groups[name], random, *keys[1:]) for name in names]
    longest = max(map(len, turns), default=0)
    return [turn[at] for at in range(longest) for turn in turns if at < len(turn)]
