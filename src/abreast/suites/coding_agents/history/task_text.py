"""Extract the task from the message of a pull request, without what would reveal the change."""

from __future__ import annotations

import re
from collections.abc import Iterator

SHORTEST = 15  # minimum characters of a task
LONGEST_LINE = 4000  # longer lines were not written by hand

_TRAILER_VERBS = (
    "co-authored|co-developed|signed-off|reviewed|acked|tested|reported|suggested|approved|helped|requested"
)
_TRAILER_KEYS = "change-id|reviewed-on|cr-commit-position|git-svn-id|piperorigin-revid|pr-url|pull-request|cc"
_TRAILER = re.compile(
    rf"\s*(?:(?:{_TRAILER_VERBS})-by|{_TRAILER_KEYS}):.*"
    r"|\s*\(cherry picked from commit .*"
    r"|\s*See merge request .*"
    r"|\W*Generated with .*",
    re.I,
)
_RULE = re.compile(r"\s*(?:-{3,}|={3,}|\*{3,}|_{3,})\s*")
_FENCE = re.compile(r"\s*(?:[-*+]\s+|>\s*)*(`{3,}(?=[^`]*$)|~{3,})")
_DIFF = re.compile(
    r"\s*(?:diff --git |diff -|index [0-9a-f]{7,}\.\.|@@ .*@@|--- (?:a/|/dev/null|\S+\s*$)|\+\+\+ \S|Index: \S"
    r"|(?:new|deleted) file mode |(?:dis)?similarity index |rename (?:from|to) |Binary files )"
)
_OF_A_DIFF = re.compile(r"[-+ \t@\\]|$")
_ITEM = re.compile(r"\s*(?:[-*+]|\d+[.)])\s+\S")
_INDENTED = re.compile(r"(?: {4}| {0,3}\t)")
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)|<pre\b.*?(?:</pre>|\Z)|```[^`\n]+```", re.S | re.I)
_MARKDOWN_LINK = re.compile(r"!?\[([^\]\n]*)\]\(\s*<?(https?://[^\s)>]+)>?[^)\n]*\)")
_URL = re.compile(r"<?https?://[^\s<>()\"'\]]+>?")
_CHANGE_URL = re.compile(
    r"/(?:pull|pulls|pull-requests|pullrequest|merge_requests|commits?|compare|blob|blame|raw|tree|changeset)(?:/|$)"
    r"|\.(?:diff|patch)$|/c/.*/\+/",
    re.I,
)
_HASH = re.compile(r"\b(?:[0-9a-f]{40}(?:[0-9a-f]{24})?|(?=[a-f]*[0-9])(?=[0-9]*[a-f])[0-9a-f]{7,39})\b(?:\^|~\d*)?")
_FILE = r"(?:[\w.@~+-]*[\\/])*[\w@~+-][\w.@~+-]*"
_NO_FILE = r"(?:com|org|net|io|dev|local|localhost)"
_LINE = re.compile(
    rf"""`?(?:File\s+)?["']?(?<![\w/\\.])(?!{_NO_FILE}\b){_FILE}\.(?!{_NO_FILE}\b)[A-Za-z]\w{{0,9}}["']?"""
    r"(?::\d+(?:[:-]\d+)*|\#L\d+(?:-L?\d+)?|\(\d+(?:,\s*\d+)?\)|,?\s+(?:at\s+|on\s+)?lines?\s+\d+(?:\s*[-–]\s*\d+)?)`?"
)
_EMPTY = re.compile(r"\(\s*[,;]?\s*\)|\[\s*\]|``(?!`)|<>")


def cleaned(title: str, body: str, number: int | None) -> str:
    """Return the task in a message, without what reveals the change or its pull request."""
    title = _line(title, number)
    body = "\n".join(_line(line, number) for line in _prose(body))
    body = re.sub(r"\n{3,}", "\n\n", body).strip()
    return f"{title}\n\n{body}".strip()


def has_code(text: str) -> str:
    """Return the first line of the first code block or diff; empty if there is none."""
    lines = text.replace("\r\n", "\n").split("\n")
    return next((line.strip() for line in lines if _FENCE.match(line) or _DIFF.match(line)), "")


def _prose(body: str) -> Iterator[str]:
    """Lines of prose: no code, diffs or trailers."""
    fence, in_diff, in_list = "", False, False
    for line in _COMMENT.sub("", body.replace("\r\n", "\n")).split("\n"):
        bare = line.strip(" \t>")
        if fence:
            fence = "" if bare.startswith(fence) and not bare.strip(fence[0]) else fence
            continue
        if opening := _FENCE.match(line):
            fence, in_diff, in_list = opening[1], False, False
            continue
        in_diff = _DIFF.match(line) is not None or (in_diff and _OF_A_DIFF.match(line) is not None)
        is_indented = _INDENTED.match(line) is not None
        in_list = bool(bare) and (in_list or (_ITEM.match(line) is not None and not is_indented))
        is_code = in_diff or (is_indented and not in_list)
        if not is_code and not _TRAILER.fullmatch(line) and not _RULE.fullmatch(line):
            yield line.rstrip()
        elif not bare:
            yield ""


def _line(line: str, number: int | None) -> str:
    if len(line) > LONGEST_LINE:
        return ""
    line = _MARKDOWN_LINK.sub(lambda link: link[1] if _CHANGE_URL.search(link[2]) else link[0], line)
    line = _URL.sub(lambda link: "" if _CHANGE_URL.search(link[0].strip("<>")) else link[0], line)
    for pattern in (_LINE, _HASH):
        line = pattern.sub("", line)
    if number is not None:
        line = re.sub(rf"(?:\b[\w.-]+/[\w.-]+)?(?<!\w)[#!]{number}\b|\b[\w.-]+/[\w.-]+[#!]{number}\b", "", line)
    lead = line[: len(line) - len(line.lstrip())]
    words = re.sub(r"[ \t]+", " ", _EMPTY.sub("", line)).strip()
    return lead + re.sub(r" ([.,;:!?)])(?=\s|$)", r"\1", words)
