"""A file or folder that another tool wrote."""

from __future__ import annotations

import hashlib
import io
import json
import struct
import sys
import zipfile
import zlib
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import IO, Any, Literal, cast

from abreast.errors import BadInput
from abreast.filenames import relative_path
from abreast.importers import json_stream
from abreast.text import printable

HEAD = 1 << 16  # bytes by which formats recognise a file
LONGEST_LINE = 1 << 23  # bytes of the first row of JSON lines
MOST_FILES = 100_000  # in a folder
MOST_NAMES = 8  # listed in a message

GZIP = b"\x1f\x8b"
ZSTANDARD = 93  # the compression type
_LOCAL_HEADER = struct.Struct("<26x2H")  # of a member of an archive: sizes of its name and of extra data

Kind = Literal["folder", "zip", "json", "json lines", "xml", "text", "empty"]


class LogFile:
    """A log, with methods to recognise and read it. Errors name the file, and the member of an archive or folder.
    `columns` are those of `--map`.
    """

    def __init__(self, path: Path, columns: Mapping[str, str] | None = None) -> None:
        self.path = path
        self.columns = dict(columns or {})

    def __str__(self) -> str:
        return relative_path(self.path)

    def error(self, problem: str, fix: str = "", member: str = "") -> BadInput:
        return BadInput(f"{self}{f' ({member})' if member else ''}: {problem}", fix)

    # -- recognising -----------------------------------------------------------------------------------------------

    @cached_property
    def kind(self) -> Kind:
        """Kind of the content, whatever the file's name."""
        if self.path.is_dir():
            return "folder"
        text = self.head.lstrip(b"\xef\xbb\xbf \t\r\n")
        if self.head.startswith((b"PK\3\4", b"PK\5\6")):
            return "zip"
        if not text:
            return "empty"
        if text.startswith(b"<"):
            return "xml"
        if text[:1] not in b"{[":
            return "text"
        may_be_rows = text[:1] == b"{" and (self._has_more_lines or self.path.suffix == ".jsonl")
        return "json lines" if may_be_rows and self.first_line() is not None else "json"

    @cached_property
    def _first_line(self) -> bytes:
        """The first line, even if it is longer than the head."""
        line, newline, _ = self.head.lstrip(b"\xef\xbb\xbf \t\r\n").partition(b"\n")
        if newline or len(self.head) < HEAD:
            return line
        with self._reading(""), self.path.open("rb") as file:
            line = file.readline(LONGEST_LINE).lstrip(b"\xef\xbb\xbf \t\r\n")
        return line if line.endswith(b"\n") else b""

    @property
    def _has_more_lines(self) -> bool:
        _, newline, rest = self.head.lstrip(b"\xef\xbb\xbf \t\r\n").partition(b"\n")
        return bool(rest.strip()) if newline else self.path.stat().st_size > len(self._first_line) + 4 > 4

    @cached_property
    def head(self) -> bytes:
        """The first bytes of a file; empty for a folder."""
        if self.path.is_dir():
            return b""
        with self._reading(""), self.path.open("rb") as file:
            return file.read(HEAD)

    @cached_property
    def members(self) -> tuple[str, ...]:
        """The names in an archive, or the files in a folder relative to it."""
        if self.kind == "folder":
            return tuple(sorted(path.relative_to(self.path).as_posix() for path in self._files()))
        if self.kind == "zip":
            with self._reading(""):
                return tuple(self._archive.namelist())
        return ()

    @cached_property
    def keys(self) -> Mapping[str, Any]:
        """The top-level names of a JSON document that are in the head, with the values that fit into it."""
        return json_stream.head_members(self.head.decode("utf-8-sig", "ignore"))

    def first_line(self) -> Any:
        """The first line of a file of JSON lines, parsed; None if it is not JSON."""
        return _parsed(self._first_line)

    def description(self) -> str:
        """Describe the content, for a message about an unknown format."""
        if self.kind == "json" and self.keys:
            return f"JSON with {_listed(self.keys)}"
        if self.kind == "json lines" and isinstance(line := self.first_line(), dict):
            return f"JSON lines with {_listed(line)}"
        if self.kind in ("folder", "zip"):
            what = "an archive" if self.kind == "zip" else "a folder"
            return f"{what} with {_listed(self.members)}" if self.members else f"{what} without files"
        if self.is_utf16:
            return "text in UTF-16"
        if self.head.startswith(GZIP):
            return "compressed with gzip; unpack it first"
        if b"\0" in self.head:
            return "binary data"
        return {"empty": "the file is empty", "xml": "XML"}.get(self.kind, self.kind)

    @property
    def is_utf16(self) -> bool:
        return self.head.startswith((b"\xff\xfe", b"\xfe\xff"))

    @property
    def conversion(self) -> str:
        """How to convert text that is not UTF-8."""
        encoding = "UTF-16" if self.is_utf16 else "WINDOWS-1252"
        return f"convert it, for example with `iconv -f {encoding} -t UTF-8 FILE > NEW`"

    # -- reading ---------------------------------------------------------------------------------------------------

    @contextmanager
    def open(self, member: str = "") -> Iterator[IO[bytes]]:
        """Open the file, or a member of an archive or folder."""
        with self._reading(member):
            if self.kind == "zip":
                with open_member(self._archive, member) as file:
                    yield file
            else:
                with (self.path / member if member else self.path).open("rb") as file:
                    yield file

    @contextmanager
    def text(self, member: str = "") -> Iterator[IO[str]]:
        """Open the file or a member as text."""
        with self.open(member) as file, io.TextIOWrapper(file, "utf-8-sig", "replace", newline="") as text:
            yield text

    @contextmanager
    def lines(self) -> Iterator[Iterator[str]]:
        """Open the file as lines of text with their line ends. Refuses lines that are not UTF-8."""
        with self.open() as file, io.TextIOWrapper(file, "utf-8-sig", "surrogateescape", newline="") as text:
            yield self._utf8_lines(text)

    def _utf8_lines(self, text: IO[str]) -> Iterator[str]:
        for number, line in enumerate(text, 1):
            self._refuse_other_encoding(number, line)
            yield line

    def _refuse_other_encoding(self, number: int, line: str, member: str = "") -> None:
        """Refuse a line that was decoded with `surrogateescape` and was not UTF-8."""
        if not line.isascii() and any("\udc80" <= character <= "\udcff" for character in line):
            raise self.error(f"line {number:,}: not UTF-8", self.conversion, member)

    def json(self, member: str = "") -> Any:
        """Parse a small JSON document."""
        with self.open(member) as file:
            content = file.read()
        try:
            return json.loads(content.decode("utf-8-sig", "replace"))
        except (ValueError, RecursionError) as error:
            raise self._bad_json(error, member) from None

    def json_values(self, arrays: Collection[str], member: str = "") -> Iterator[tuple[str, Any]]:
        """Yield the members of a large JSON object as path and value; these arrays item by item. See `json_stream`."""
        with self.text(member) as file:
            try:
                yield from json_stream.values(file, arrays)
            except json_stream.BadJson as error:
                raise self._bad_json(error, member) from None

    def json_items(self, member: str = "") -> Iterator[Any]:
        """Yield the items of a large JSON array."""
        with self.text(member) as file:
            try:
                yield from json_stream.items(file)
            except json_stream.BadJson as error:
                raise self._bad_json(error, member) from None

    def json_lines(self, member: str = "") -> Iterator[tuple[int, Any]]:
        """Yield the number and value of each line that is not empty."""
        with self.open(member) as file:
            for number, line in enumerate(file, 1):
                if not line.strip():
                    continue
                text = line.decode("utf-8-sig", "surrogateescape")
                try:
                    value = json.loads(text)
                except (ValueError, RecursionError) as error:
                    cut = "" if line.endswith(b"\n") else "; the file may be truncated"
                    problem = "nested too deeply" if isinstance(error, RecursionError) else getattr(error, "msg", error)
                    raise self.error(f"line {number:,} is not JSON ({problem}){cut}", member=member) from None
                self._refuse_other_encoding(number, text, member)
                yield number, value

    def digest(self) -> str:
        """SHA-256 of the content; of a folder, of the names and contents of its files."""
        digest = hashlib.sha256()
        if self.kind != "folder":
            return self._digest_of(self.path)
        for path in sorted(self._files()):
            name = path.relative_to(self.path).as_posix()
            digest.update(f"{name}\0{self._digest_of(path)}\n".encode("utf-8", "surrogateescape"))
        return digest.hexdigest()

    def _digest_of(self, path: Path) -> str:
        with self._reading(""), path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    @cached_property
    def _archive(self) -> zipfile.ZipFile:
        return zipfile.ZipFile(self.path)

    def close(self) -> None:
        if "_archive" in self.__dict__:
            self._archive.close()

    def _files(self) -> list[Path]:
        paths = [path for path in self.path.rglob("*") if path.is_file()]
        if len(paths) > MOST_FILES:
            raise self.error(f"the folder has {len(paths):,} files", "name the folder of one run")
        return paths

    @contextmanager
    def _reading(self, member: str) -> Iterator[None]:
        """Raise errors of reading with the file's name."""
        try:
            yield
        except OSError as error:
            raise self.error(f"cannot read the file ({error.strerror or error})", member=member) from None
        except KeyError:
            raise self.error(f"has no {member}") from None
        except (zipfile.BadZipFile, zipfile.LargeZipFile, EOFError, NotImplementedError, zlib.error) as error:
            problem = f"the archive is damaged or truncated ({error})"
            raise self.error(problem, "copy it again from its source", member) from None

    def _bad_json(self, error: Exception, member: str) -> BadInput:
        if getattr(error, "is_truncated", False):
            fix = "copy it again from its source, or wait until the tool has finished"
            return self.error(f"the file is truncated: it {error}", fix, member)
        return self.error(f"not valid JSON ({error})", member=member)


def open_member(archive: zipfile.ZipFile, name: str) -> IO[bytes]:
    """Open a member of an archive, including Zstandard, which the standard library reads only since Python 3.14."""
    info = archive.getinfo(name)
    if info.compress_type != ZSTANDARD or sys.version_info >= (3, 14):
        return archive.open(info)
    source = Path(str(archive.filename)).open("rb")  # noqa: SIM115 - closed with the member
    source.seek(info.header_offset)
    head = source.read(_LOCAL_HEADER.size)
    if len(head) < _LOCAL_HEADER.size:
        source.close()
        raise zipfile.BadZipFile(f"ends before {name}")
    source.seek(sum(_LOCAL_HEADER.unpack(head)), io.SEEK_CUR)
    return io.BufferedReader(_ZstandardMember(_Part(source, info.compress_size)))


class _Part(io.RawIOBase):
    """The next bytes of a file."""

    def __init__(self, file: IO[bytes], size: int) -> None:
        self._file, self._left = file, size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        content = self._file.read(min(self._left, len(buffer)))
        self._left -= len(content)
        buffer[: len(content)] = content
        return len(content)

    def close(self) -> None:
        self._file.close()
        super().close()


class _ZstandardMember(io.RawIOBase):
    def __init__(self, compressed: _Part) -> None:
        import zstandard  # late: few files need it

        self._compressed, self._error = compressed, zstandard.ZstdError
        self._reader = zstandard.ZstdDecompressor().stream_reader(cast(IO[bytes], compressed), read_across_frames=True)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            return int(self._reader.readinto(buffer))
        except self._error as error:
            raise zipfile.BadZipFile(str(error)) from None

    def close(self) -> None:
        self._compressed.close()
        super().close()


def _listed(names: Collection[str]) -> str:
    """The first names, quoted and safe to print."""
    listed = ", ".join(printable(name)[:60] for name in list(names)[:MOST_NAMES])
    return f"{listed}{', …' if len(names) > MOST_NAMES else ''}"


def _parsed(line: bytes) -> Any:
    try:
        return json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
