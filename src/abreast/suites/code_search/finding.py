"""Find and read the case files of a repository."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from pathlib import Path

from abreast.errors import BadInput, suggestion
from abreast.model import Case
from abreast.scorers.retrieval.truth import check_truth
from abreast.spec.read_cases import CaseLocation, as_case, records

OWN = ".abreast"
# Folders of codetect-eval and repo-search-eval, with cases, results and logs.
FOREIGN_FOLDERS = (".codetect/evals", ".repo_search/evals")

# Folders to search for cases; the first with a case file, at any depth, is used.
CASE_FOLDERS = (f"{OWN}/cases", "evals/cases", "cases", *(f"{folder}/cases" for folder in FOREIGN_FOLDERS))

SUFFIX = ".jsonl"


def case_files(paths: list[str], repo: Path) -> list[Path]:
    """Return the case files in these folders and files, else in the first of CASE_FOLDERS that has any."""
    if paths:
        return list(dict.fromkeys(file for text in paths for file in _files_at(text)))
    if files := _in_folder(case_folder(repo)):
        return files
    raise BadInput(
        f"{repo}: no cases in {', '.join(CASE_FOLDERS)}",
        f"run `abreast cases new --repo {shlex.quote(str(repo))}` to propose some, or use --cases DIR",
    )


def repository_folder(repo: Path) -> Path:
    folder = repo.expanduser()
    if not folder.is_dir():
        problem = "not a folder" if folder.exists() else "no such folder"
        raise BadInput(f"--repo {repo}: {problem}", "use the folder of a repository")
    return folder


def case_folder(repo: Path) -> Path:
    """Return the existing or future folder of its cases."""
    return next((repo / folder for folder in CASE_FOLDERS if _in_folder(repo / folder)), repo / CASE_FOLDERS[0])


def _files_at(text: str) -> list[Path]:
    path = Path(text).expanduser().absolute()
    if path.is_file():
        return [path]
    fix = f"use a folder with {SUFFIX} files, or a single file"
    if not path.is_dir():
        raise BadInput(f"--cases {text}: no such file or folder", fix)
    files = _in_folder(path)
    if not files:
        raise BadInput(f"--cases {text}: no {SUFFIX} file in it", fix)
    return files


def hidden_paths(files: list[Path], repo: Path) -> list[Path]:
    """Return the paths to hide from agents: folders that contain only cases, now or later, and other case files."""
    folders = {repo / folder for folder in CASE_FOLDERS} | {
        file.parent for file in files if _in_folder(file.parent) == files
    }
    foreign = {repo / folder for folder in FOREIGN_FOLDERS if (repo / folder).is_dir()}
    case_folders = foreign | {folder for folder in folders if folder.is_dir() and _has_only_cases(folder)}
    case_files = {*files, *(file for folder in CASE_FOLDERS for file in _in_folder(repo / folder))}
    return [path for path in (*case_folders, *case_files) if case_folders.isdisjoint(path.parents)]


def _has_only_cases(folder: Path) -> bool:
    return all(
        path.is_dir() or (path.is_file() and (path.suffix == SUFFIX or path.name == "README.md"))
        for path in folder.rglob("*")
    )


def _in_folder(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob(f"*{SUFFIX}") if path.is_file())


def cases(files: list[str], categories: list[str] | None = None) -> Iterator[Case]:
    """Yield the cases of these files, of all categories or only these."""
    return (case for _, case in cases_with_positions(files, categories))


def cases_with_positions(
    files: Iterable[str | Path], categories: list[str] | None = None
) -> Iterator[tuple[CaseLocation, Case]]:
    existing: set[str] = set()
    positions: dict[str, CaseLocation] = {}
    for position, item in records([str(file) for file in files], Path()):
        case = as_case(position, item)
        problem = check_truth(case.expected)
        if problem is not None:
            raise BadInput(f"{position}: ground_truth{problem[0]}", problem[1])
        if case.id in positions:
            raise BadInput(f'{position}: duplicate case id "{case.id}" (first at {positions[case.id]})')
        if case.id:
            positions[case.id] = position
        category = case.tags.get("category", "")
        existing.add(category)
        if not categories or category in categories:
            yield position, case
    for name in categories or ():
        if name not in existing:
            raise BadInput(f"--category {name}: no such category{suggestion(name, sorted(existing - {''}))}")
