"""Where the cases of a repository are, and what is read there."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path

from abreast.errors import BadInput, suggestion
from abreast.model import Case
from abreast.scorers.retrieval.truth import check_truth
from abreast.spec.read_cases import Place, as_case, records

OWN = ".abreast"
# Folders in which codetect-eval and repo-search-eval keep cases, results and logs.
THEIRS = (".codetect/evals", ".repo_search/evals")

# Folders of a repository in which cases are looked for; the first that has a case file, at any depth, counts.
PLACES = (f"{OWN}/cases", "evals/cases", "cases", *(f"{folder}/cases" for folder in THEIRS))

SUFFIX = ".jsonl"


def case_files(given: list[str], repo: Path) -> list[Path]:
    """The case files: of the folders and files that are given, whatever else there is; else of the first of PLACES."""
    if given:
        return list(dict.fromkeys(file for text in given for file in _given(text)))
    if found := _in_folder(folder_of(repo)):
        return found
    raise BadInput(
        f"{repo}: no cases in {', '.join(PLACES)}",
        f"propose some: abreast cases new --repo {shlex.quote(str(repo))}; or name a folder: --cases DIR",
    )


def repository_folder(repo: Path) -> Path:
    """The folder that `--repo` names."""
    folder = repo.expanduser()
    if not folder.is_dir():
        what = "is a file, not a folder" if folder.exists() else "there is no such folder"
        raise BadInput(f"--repo {repo}: {what}", "name the folder of a repository")
    return folder


def folder_of(repo: Path) -> Path:
    """The folder of its cases; where it has none, where they would be."""
    return next((repo / place for place in PLACES if _in_folder(repo / place)), repo / PLACES[0])


def _given(text: str) -> list[Path]:
    path = Path(text).expanduser().absolute()
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise BadInput(f"--cases {text}: no such file or folder", f"name a folder with {SUFFIX} files, or one file")
    found = _in_folder(path)
    if not found:
        raise BadInput(f"--cases {text}: no {SUFFIX} file in it", f"name a folder with {SUFFIX} files, or one file")
    return found


def hidden(files: list[Path], repo: Path) -> list[Path]:
    """What says what is right: folders of nothing but cases, also of later ones, and case files beside other things."""
    folders = {repo / place for place in PLACES} | {file.parent for file in files if _in_folder(file.parent) == files}
    theirs = {repo / folder for folder in THEIRS if (repo / folder).is_dir()}
    alone = theirs | {folder for folder in folders if folder.is_dir() and _has_only_cases(folder)}
    found = {*files, *(file for place in PLACES for file in _in_folder(repo / place))}
    return [path for path in (*alone, *found) if alone.isdisjoint(path.parents)]


def _has_only_cases(folder: Path) -> bool:
    return all(
        path.is_dir() or (path.is_file() and (path.suffix == SUFFIX or path.name == "README.md"))
        for path in folder.rglob("*")
    )


def _in_folder(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob(f"*{SUFFIX}") if path.is_file())


def cases(files: list[str], categories: list[str] | None = None) -> Iterator[Case]:
    """The cases of these files, those of some categories if they are named. A bad line is refused with its number."""
    return (case for _, case in placed_cases(files, categories))


def placed_cases(files: Iterable[str | Path], categories: list[str] | None = None) -> Iterator[tuple[Place, Case]]:
    seen: set[str] = set()
    places: dict[str, Place] = {}
    for place, item in records([str(file) for file in files], Path()):
        case = as_case(place, item)
        problem = check_truth(case.expected)
        if problem is not None:
            raise BadInput(f"{place}: ground_truth{problem[0]}", problem[1])
        if case.id in places:
            raise BadInput(f'{place}: the case id "{case.id}" is there twice (first at {places[case.id]})')
        if case.id:
            places[case.id] = place
        category = case.tags.get("category", "")
        seen.add(category)
        if not categories or category in categories:
            yield place, case
    for name in categories or ():
        if name not in seen:
            raise BadInput(f"--category {name}: no case has it{suggestion(name, sorted(seen - {''}))}")
