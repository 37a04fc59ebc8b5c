"""Prompt files, one case each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from abreast.errors import BadInput
from abreast.model import Case
from abreast.spec.syntax import near_files

SUFFIXES = (".md", ".txt", ".prompt")
FOLDER = "prompts"  # the default folder
LARGEST = 4_000_000  # bytes of a prompt


def prompt_files(where: str, names: Sequence[str], base: Path) -> list[Path]:
    """These files, and the prompts in these folders sorted by name."""
    files: list[Path] = []
    for name in names:
        path = (base / Path(name).expanduser()).absolute()
        if path.is_dir():
            prompts = prompts_in(path)
            if not prompts:
                fix = f"add files that end in {', '.join(SUFFIXES)}"
                raise BadInput(f"{where}: {name}: no prompts in that folder", fix)
            files += prompts
        elif path.is_file():
            files.append(path)
        else:
            problem = "not a file" if path.exists() else f"no such file{near_files(path)}"
            raise BadInput(f"{where}: {name}: {problem}", "create the file, or fix its name")
    duplicates = [path for path, number in Counter(files).items() if number > 1]
    if duplicates:
        fix = "list each prompt once; use `runs_per_prompt` for repeats"
        raise BadInput(f"{where}: {duplicates[0].name} is listed twice", fix)
    return files


def prompts_in(folder: Path) -> list[Path]:
    files = folder.iterdir() if folder.is_dir() else ()
    return sorted(file for file in files if file.suffix in SUFFIXES and file.is_file())


def cases(files: list[str], topics: Sequence[str] = ()) -> Iterator[Case]:
    """Yield a case for each topic and each prompt file; a file is named by the shortest unique end of its path."""
    for number, topic in enumerate(topics, 1):
        yield Case(f"topic-{number}", topic)
    names = _names([Path(file) for file in files])
    for file, name in zip(files, names, strict=True):
        yield Case(name, _text(Path(file)))


def _names(files: list[Path]) -> list[str]:
    """Return the shortest unique ends of paths.

    >>> _names([Path("/a/x/one.md"), Path("/a/y/one.md"), Path("/a/two.md")])
    ['x/one.md', 'y/one.md', 'two.md']
    """
    lengths = dict.fromkeys(files, 1)
    while True:
        names = {file: "/".join(file.parts[-length:]) for file, length in lengths.items()}
        counts = Counter(names.values())
        alike = [file for file in files if counts[names[file]] > 1 and lengths[file] < len(file.parts)]
        if not alike:
            return [names[file] for file in files]
        for file in alike:
            lengths[file] += 1


def _text(file: Path) -> str:
    try:
        if file.stat().st_size > LARGEST:
            raise BadInput(
                f"{file}: larger than {LARGEST // 1_000_000} MB", "move data into a file that the prompt refers to"
            )
        text = file.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInput(f"{file}: not valid UTF-8 (byte {error.start})", "save the file as UTF-8") from None
    except OSError as error:
        raise BadInput(f"{file}: cannot be read ({error.strerror or error})") from None
    if not text.strip():
        raise BadInput(f"{file}: empty file", "write the task for the agents")
    return text.replace("\r\n", "\n")
