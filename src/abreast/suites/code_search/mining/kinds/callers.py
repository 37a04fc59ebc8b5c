"""Questions about the callers of a function."""

from __future__ import annotations

import builtins
import io
import re
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from abreast.languages import Outline, SymbolDefinition, SymbolReference
from abreast.languages.syntax import OWNER_KINDS
from abreast.suites.code_search.mining.name_index import Calls, NameIndex
from abreast.suites.code_search.mining.proposal import Proposal, make_proposal, words_of
from abreast.suites.code_search.mining.repository import RepositoryFile

MOST_CALLS = 8

# Names that library methods share, so that a call cannot be attributed.
_OF_LIBRARIES = {
    *(name for kind in (str, bytes, dict, list, set, int, float, Path, io.TextIOWrapper) for name in dir(kind)),
    *dir(builtins),
    *("toString", "hashCode", "equals", "getClass", "compareTo", "isEmpty", "indexOf", "lastIndexOf", "forEach"),
    *("containsKey", "containsValue", "putIfAbsent", "computeIfAbsent", "computeIfPresent", "getOrDefault"),
    *("entrySet", "keySet", "addAll", "removeAll", "toArray", "subList", "charAt", "startsWith", "endsWith"),
    *("replaceAll", "toLowerCase", "toUpperCase", "getName", "getMessage", "printStackTrace", "intValue"),
    *("addEventListener", "removeEventListener", "getElementById", "querySelector", "querySelectorAll"),
    *("hasOwnProperty", "isArray", "toFixed", "getTime", "toISOString", "setTimeout", "setInterval", "flatMap"),
    *("findIndex", "setState", "getItem", "setItem", "appendChild", "createElement", "preventDefault"),
    *("as_str", "as_ref", "as_mut", "as_bytes", "to_string", "to_owned", "into_iter", "iter_mut", "is_empty"),
    *("is_some", "is_none", "is_ok", "is_err", "unwrap_or", "unwrap_or_else", "unwrap_or_default", "map_err"),
    *("and_then", "or_else", "ok_or", "ok_or_else", "push_str", "from_str", "try_from", "try_into", "with_capacity"),
    *("contains_key", "starts_with", "ends_with", "read_to_string", "write_all", "to_vec", "get_mut"),
    *("ServeHTTP", "WriteString", "ReadAll", "MarshalJSON", "UnmarshalJSON", "WithTimeout", "WithCancel"),
}
_COMMENT = (b"#", b"//", b"/*", b"<!--")
_STAR = re.compile(
    rb"^[ \t]*(?:from[ \t]+([\w.]+)[ \t]+import[ \t]*\*|(?:pub[ \t]+)?use[ \t]+([^\n;]*)::\*)", re.MULTILINE
)
# The module of an import, before or after the name.
_FROM = {
    "python": re.compile(rb"[\s\S]*(?:^|[\n;])[ \t]*from[ \t]+([\w.]+)[ \t]+import\b"),
    "rust": re.compile(rb"[\s\S]*\buse[ \t]+([^;]*)"),
    "java": re.compile(rb"[\s\S]*\bimport[ \t]+([^;]*)"),
}
_FROM_BEHIND = re.compile(rb"[^;'\"]*\b(?:from|require\(|import\()\s*['\"]([^'\"\n]*)")
_TYPE_PARAMETER = re.compile(r"[A-Z]\.")  # `impl<T> Trait for T`: a name for many types
_SAME_OBJECT = ("self", "this", "cls", "Self")
_OF_THIS_CODE = {"crate", "self", "super"}
_MODULE_FILES = ("__init__", "mod", "lib", "index", "main")


def proposals(index: NameIndex, order: Sequence[tuple[RepositoryFile, SymbolDefinition]]) -> Iterator[Proposal]:
    """Propose a case for each function whose occurrences are all explained."""
    for file, definition in order:
        calls = calls_of(index, file, definition)
        if calls is not None and 1 <= sum(map(len, calls.lines.values())) <= MOST_CALLS:
            yield _proposal(index, definition, file, calls)


def calls_of(index: NameIndex, file: RepositoryFile, definition: SymbolDefinition) -> Calls | None:
    """Return all calls; None if the name has another definition or an unexplained occurrence."""
    if definition.kind not in ("function", "method") or index.sole_definition(definition.name) != (file, definition):
        return None
    if definition.name not in index.calls:
        index.calls[definition.name] = _find_calls(index, file, definition)
    return index.calls[definition.name]


def _find_calls(index: NameIndex, file: RepositoryFile, definition: SymbolDefinition) -> Calls | None:
    if definition.kind == "method" and (len(words_of(definition.name)) < 2 or definition.name in _OF_LIBRARIES):
        return None
    if _is_default_export(index, file, definition):
        return None
    calls = Calls()
    for path in index.files_with[definition.name]:
        other = index.repository.file(path)
        if other.kind == "other" or not path.isprintable():  # unsupported, or not printable
            return None
        if other.kind == "source" and not _add_calls(calls, index, other, file, definition):
            return None
    return calls


def _is_default_export(index: NameIndex, file: RepositoryFile, definition: SymbolDefinition) -> bool:
    """Whether other files can import it under any name."""
    pattern = rb"export\s+default\s+(?:async\s+)?(?:function\b\s*\*?\s*)?" + definition.name.encode() + rb"\b"
    return file.language == "typescript" and re.search(pattern, index.repository.read(file.path)) is not None


def _add_calls(
    calls: Calls, index: NameIndex, file: RepositoryFile, home: RepositoryFile, definition: SymbolDefinition
) -> bool:
    """Add the calls in a file; False if an occurrence cannot be explained."""
    source, outline = index.repository.read(file.path), index.repository.outline(file.path)
    if outline is None or outline.broken:
        return False
    references = {reference.at: reference for reference in outline.references if reference.name == definition.name}
    name = definition.name.encode()
    for match in re.finditer(rb"(?<![A-Za-z0-9_])" + re.escape(name) + rb"(?![A-Za-z0-9_])", source):
        at = match.start()
        reference = references.get(at)
        if reference is None:
            is_definition = file == home and at == definition.at
            if not is_definition and not _is_only_text(source, outline, at):
                return False
        elif reference.kind == "import":
            if _is_renamed(source, match.end()):
                return False
            if file != home and not _is_module_of(_origin(file, source, at, match.end()), home):
                return False
        elif reference.kind == "name" or not _is_call_of(definition, home, file, source, at, outline):
            return False
        else:
            caller = _caller(outline, reference)
            if caller is None or (file == home and caller == definition):
                return False
            calls.callers.add((file, caller))
            calls.lines.setdefault(file.path, set()).add(reference.line)
    return True


def _is_only_text(source: bytes, outline: Outline, at: int) -> bool:
    """Whether a position is in a comment, or in a string with spaces; a string of one name may be used for lookup."""
    for start, end in outline.quoted:
        if start <= at < end:
            text = source[start:end]
            return text.startswith(_COMMENT) or len(text.split()) > 1
    return False


def _is_renamed(source: bytes, end: int) -> bool:
    return re.match(rb"\s+as\b|\s*:", source[end : end + 20]) is not None


def _caller(outline: Outline, call: SymbolReference) -> SymbolDefinition | None:
    enclosing = [
        item
        for item in outline.definitions
        if item.kind in ("function", "method") and item.line <= call.line <= item.end_line
    ]
    if len(enclosing) != 1 or _TYPE_PARAMETER.match(enclosing[0].qualified):
        return None
    same_name = [item for item in outline.definitions if item.qualified == call.inside]
    return enclosing[0] if same_name == enclosing else None


# -- attribution of calls ---------------------------------------------------------------------------------------------


def _is_call_of(
    definition: SymbolDefinition, home: RepositoryFile, file: RepositoryFile, source: bytes, at: int, outline: Outline
) -> bool:
    """Whether a call must be of this function, by what precedes the name."""
    before = re.search(rb"(?:([\w$)\]>?!]*)\s*(\.|::|->))?\s*\Z", source[max(0, at - 200) : at])
    owner, mark = (before[1], before[2]) if before is not None else (None, None)
    if file.language != home.language:
        return False
    if mark is None:
        return is_in_reach(definition, home, file, source, outline)
    qualifier = (owner or b"").rstrip(b"?!").decode("utf-8", "replace")
    if definition.kind == "function":
        return qualifier in modules_of(home) and _is_module(qualifier, mark, (file, home), source, outline)
    container = (definition.container or "").rpartition(".")[2]
    if mark == b"::":
        return qualifier in ("Self", container)
    if file == home and qualifier in _SAME_OBJECT:
        return True
    return bool(container) and _is_instance(qualifier, container, source, at)


def _is_instance(qualifier: str, container: str, source: bytes, at: int) -> bool:
    """Whether the object before a dot is constructed in place, or a name declared only with this class in the file."""
    name, kind = re.escape(qualifier.encode()), rb"(?:[\w$]+(?:\.|::))*" + re.escape(container.encode()) + rb"(?![\w$])"
    if not re.fullmatch(r"[\w$]+", qualifier):
        return (
            re.search(kind + rb"(?:<[^<>\n]*>)?(?:\([^()\n]*\)|\{[^{}\n]*\})\)?\s*[?!]?\.\s*\Z", source[:at][-300:])
            is not None
        )
    if qualifier == container:
        return True
    declared = rb"(?<![\w$.])" + name + rb"(?:\s*:?=\s*|\s*:\s*|[ \t]+)(?:await\s+|new\s+|mut\s+|[&*\"'])*"
    of_class = re.findall(declared + kind, source) + re.findall(
        rb"(?<![\w$.])" + kind + rb"(?:<[^\n]*?>)?[ \t]+" + name + rb"\s*[=;,):]", source
    )
    assigned = re.findall(
        rb"(?<![\w$.])" + name + rb"(?:\s*:\s*[\w$.]+)?\s*:?=(?![=>])\s*(?:await\s+|new\s+|[&*])*([^\n]*)", source
    )
    return bool(of_class) and all(re.match(kind, value) for value in assigned)


def _is_module(
    name: str, mark: bytes, files: tuple[RepositoryFile, RepositoryFile], source: bytes, outline: Outline
) -> bool:
    """Whether a name before a dot is a module; `files` are those of the call and of the definition."""
    file, home = files
    if file.language == "rust":
        return mark == b"::"
    if file.language == "go":
        return re.search(rb"\"(?:[^\"\n]*/)?" + re.escape(name.encode()) + rb"\"", source) is not None
    imports = [reference for reference in outline.references if reference.kind == "import" and reference.name == name]
    origins = [_origin(file, source, reference.at, reference.at + len(name.encode())) for reference in imports]
    return any(not origin or _is_module_of(origin, home) for origin in origins)


def is_in_reach(
    definition: SymbolDefinition, home: RepositoryFile, file: RepositoryFile, source: bytes, outline: Outline
) -> bool:
    """Whether an unqualified name is this function: in the same file, imported, or in Go in the same folder."""
    imported = any(reference.kind == "import" and reference.name == definition.name for reference in outline.references)
    if definition.kind == "method":
        return file.language == "java" and (file == home or imported)
    if file == home or imported:
        return True
    if file.language == "go" or (file.language == "java" and definition.kind in OWNER_KINDS):
        return file.folder == home.folder
    stars = _STAR.finditer(source) if file.language in ("python", "rust") else ()
    return any(_is_module_of(star[1] or star[2], home) for star in stars)


def _origin(file: RepositoryFile, source: bytes, start: int, end: int) -> bytes:
    if file.language == "typescript":
        match = _FROM_BEHIND.match(source, end)
    else:
        pattern = _FROM.get(file.language or "")
        match = pattern.match(source[max(0, start - 5_000) : start]) if pattern else None
    return match[1] if match else b""


def _is_module_of(origin: bytes, home: RepositoryFile) -> bool:
    """Whether the module of an import can be this file, or re-export it."""
    text = origin.decode("utf-8", "replace")
    pure = PurePosixPath(home.path)
    return text.startswith((".", "@/", "~/", "#")) or bool(
        set(re.findall(r"[\w-]+", text)) & {pure.stem, *pure.parts[:-1], *_OF_THIS_CODE}
    )


def modules_of(home: RepositoryFile) -> set[str]:
    pure = PurePosixPath(home.path)
    names = {pure.stem} if home.language != "go" else {pure.parent.name}
    if pure.stem in _MODULE_FILES:
        names.add(pure.parent.name)
    return names | ({"self", "super", "crate"} if home.language == "rust" else set())


def _proposal(index: NameIndex, definition: SymbolDefinition, file: RepositoryFile, calls: Calls) -> Proposal:
    lines = {path: sorted(calls.lines[path]) for path in sorted(calls.lines)}
    noun = f"the {definition.kind} `{definition.name}`"
    return make_proposal(
        index.repository,
        kind="callers",
        language=file.language,
        name=("callers", definition.qualified),
        category="navigate",
        description=f"Find the functions that call {noun}.",
        prompt=f"Which functions and methods call {noun}? Give the name of each of them, its file, "
        "and the lines of the calls.",
        lines=lines,
        symbols=sorted({caller.qualified for _, caller in calls.callers}),
        why="every other occurrence of the name is an import, a comment or a text",
        locations=[(file.path, definition.line), *((path, line) for path in lines for line in lines[path])],
    )
