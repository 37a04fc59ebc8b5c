"""Prompts in files, a case each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from abreast.errors import BadInput
from abreast.model import Case
from abreast.spec.syntax import near_files

SUFFIXES = (".md", ".txt", ".prompt")
FOLDER = "prompts"  # where prompts are looked for if nothing is said

LARGEST = 4_000_000  # bytes of a prompt


def prompt_files(where: str, given: Sequence[str], base: Path) -> list[Path]:
    """The files of these names, and of folders all prompts in the order of their names."""
    found: list[Path] = []
    for text in given:
        path = (base / Path(text).expanduser()).absolute()
        if path.is_dir():
            inside = prompts_in(path)
            if not inside:
                raise BadInput(f"{where}: {text}: no prompt in that folder", f"files of prompts end in {_SUFFIXES}")
            found += inside
        elif path.is_file():
            found.append(path)
        else:
            what = "is no file" if path.exists() else f"no such file{near_files(path)}"
            raise BadInput(f"{where}: {text}: {what}", "write the prompt, or mend its name")
    twice = [path for path, number in Counter(found).items() if number > 1]
    if twice:
        raise BadInput(f"{where}: {twice[0].name} is there twice", "name each prompt once; runs are for repeats")
    return found


_SUFFIXES = ", ".join(SUFFIXES)


def prompts_in(folder: Path) -> list[Path]:
    listed = folder.iterdir() if folder.is_dir() else ()
    return sorted(file for file in listed if file.suffix in SUFFIXES and file.is_file())


def cases(files: list[str], topics: Sequence[str] = ()) -> Iterator[Case]:
    """A case for each topic, by number, and for each prompt, by the shortest end of its path that is unique."""
    for number, topic in enumerate(topics, 1):
        yield Case(f"topic-{number}", topic)
    names = _names([Path(file) for file in files])
    for file, name in zip(files, names, strict=True):
        yield Case(name, _text(Path(file)))


def _names(files: list[Path]) -> list[str]:
    """The shortest ends of paths that differ.

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
            raise BadInput(f"{file}: larger than {LARGEST // 1_000_000} MB", "a prompt is words; let it name a file")
        text = file.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInput(f"{file}: not valid UTF-8 (byte {error.start})", "save the file as UTF-8") from None
    except OSError as error:
        raise BadInput(f"{file}: cannot be read ({error.strerror or error})") from None
    if not text.strip():
        raise BadInput(f"{file}: is empty", "write what the agents shall do")
    return text.replace("\r\n", "\n")
