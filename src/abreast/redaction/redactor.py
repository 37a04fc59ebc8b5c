"""Replace known secrets in texts, values and bytes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from abreast.redaction.forms import LINE_BREAK, base64_forms, byte_forms, decode_escapes, text_forms, unwrap

SHORTEST_FRAGMENT = 6  # characters; shorter fragments at the ends of a cut text are kept
MAX_DEPTH = 60
_WITHOUT_TEXT = (type(None), bool, int, float)
_BASE64 = "[A-Za-z0-9+/_-]"


class Redactor:
    """Replaces each known value, in any of its forms, by the name of its variable in brackets.

    >>> redactor = Redactor({"sk-12345678": "MY_API_KEY"})
    >>> redactor.redact("it is sk-12345678"), redactor.redact("Basic c2stMTIzNDU2Nzg=")
    ('it is [MY_API_KEY]', 'Basic [MY_API_KEY]')
    """

    def __init__(self, names: Mapping[str, str]) -> None:
        """`names` maps the value of each secret to the name of its variable."""
        forms: dict[str, str] = {}
        self._encoded: dict[str, re.Pattern[str]] = {}  # by Base64 form; also match the characters around it
        self._bytes: dict[bytes, str] = {}
        for value, name in names.items():
            for form in base64_forms(value):
                forms.setdefault(form, name)
                self._encoded[form] = re.compile(f"{_BASE64}?{re.escape(form)}{_BASE64}?={{0,2}}")
            for content in byte_forms(value):
                self._bytes.setdefault(content, name)
        for value, name in names.items():
            for form in text_forms(value):
                forms[form] = name
                self._encoded.pop(form, None)
        # Longest first, because one form may contain another.
        self._names = dict(sorted(forms.items(), key=lambda item: -len(item[0])))
        self._forms = tuple(self._names)
        self._shortest = min(map(len, self._forms), default=0)
        self.longest = max(map(len, self._forms), default=0)
        self._starts = [(form[:SHORTEST_FRAGMENT], form) for form in self._forms]
        self._ends = [(form[-SHORTEST_FRAGMENT:], form) for form in self._forms]
        # UTF-16 that was decoded as another encoding.
        self._spaced = {char.join(value): name for value, name in names.items() for char in "\0\ufffd"}

    def redact(self, text: str) -> str:
        if len(text) >= self._shortest:
            for form in self._forms:
                if form in text:
                    text = self._replace(text)
                    break
            if self._forms and ("\0" in text or "\ufffd" in text):
                for form, name in self._spaced.items():
                    text = text.replace(form, f"[{name}]")
            if self._forms:
                text = self._redact_wrapped(self._redact_escaped(text))
        return text

    def _redact_escaped(self, text: str) -> str:
        """Replace secrets written with `\\u` escapes. If there are any, all other escapes are decoded as well."""
        for decoded in decode_escapes(text):
            redacted = self._replace(decoded)
            if redacted != decoded:
                return redacted
        return text

    def _redact_wrapped(self, text: str) -> str:
        """Replace secrets in Base64 that is wrapped over several lines."""
        for joined in unwrap(text):
            for form in self._encoded:
                if form in joined:
                    pattern = f"{LINE_BREAK}?".join(map(re.escape, form))
                    name = self._names[form]
                    text = f"[{name}]".join(re.split(f"{_BASE64}?{pattern}{_BASE64}?={{0,2}}", text))
        return text

    def redact_cut(self, text: str) -> str:
        """Replace secrets in a text that may begin or end in the middle of one."""
        return self._redact_end(self._redact_start(self.redact(text)))

    def redact_bytes(self, content: bytes) -> bytes:
        for form, name in self._bytes.items():
            content = content.replace(form, f"[{name}]".encode())
        return content

    def find_in_bytes(self, content: bytes) -> str | None:
        name = next((name for form, name in self._bytes.items() if form in content), None)
        if name is not None or not self._forms:
            return name
        text = content.decode("utf-8", "replace")
        texts = (*decode_escapes(text), *unwrap(text))
        return next((name for text in texts for form, name in self._names.items() if form in text), None)

    def redact_value(self, value: Any) -> Any:
        """Replace secrets in nested mappings, lists and texts; return the same object if there are none."""
        return redact_texts(value, self.redact)

    def _replace(self, text: str) -> str:
        for form, name in self._names.items():
            if form in text:
                pattern = self._encoded.get(form)
                text = text.replace(form, f"[{name}]") if pattern is None else f"[{name}]".join(pattern.split(text))
        return text

    def _redact_start(self, text: str) -> str:
        head = text[: self.longest]
        length, name = self._longest_fragment(head, self._ends, lambda form, n: form.endswith(head[:n]))
        return f"[{name}]{text[length:]}" if length else text

    def _redact_end(self, text: str) -> str:
        tail = text[-self.longest :]
        length, name = self._longest_fragment(tail, self._starts, lambda form, n: form.startswith(tail[-n:]))
        return f"{text[:-length]}[{name}]" if length else text

    def _longest_fragment(
        self, text: str, fragments: list[tuple[str, str]], matches: Callable[[str, int], bool]
    ) -> tuple[int, str]:
        """Return the length of the longest fragment for which `matches` is true, and the name of its secret."""
        longest, name = 0, ""
        for fragment, form in fragments:
            if fragment in text:
                lengths = range(min(len(form), len(text)), SHORTEST_FRAGMENT - 1, -1)
                length = next((n for n in lengths if matches(form, n)), 0)
                if length > longest:
                    longest, name = length, self._names[form]
        return longest, name


def redact_texts(value: Any, redact: Callable[[str], str], depth: int = MAX_DEPTH) -> Any:
    """Apply a function to every text in a value; return the same object if nothing changed."""
    kind = type(value)
    if kind is str:
        return redact(value)
    if depth == 0 or kind in _WITHOUT_TEXT:
        return value
    try:
        if kind is dict or isinstance(value, Mapping):
            return _redact_mapping(value, redact, depth)
        if isinstance(value, list | tuple | set | frozenset):
            return _redact_sequence(value, redact, depth)
        return redact(value) if isinstance(value, str) else value
    except Exception:  # noqa: BLE001 - a user's object; its text is redacted when it is stored
        return value


def _redact_mapping(value: Mapping[Any, Any], redact: Callable[[str], str], depth: int) -> Mapping[Any, Any]:
    pairs, changed = {}, False
    for key, item in value.items():
        new_key = redact(key) if type(key) is str else key
        new_item = redact_texts(item, redact, depth - 1)
        changed = changed or new_key is not key or new_item is not item
        pairs[new_key] = new_item
    return pairs if changed else value


def _redact_sequence(value: Any, redact: Callable[[str], str], depth: int) -> Any:
    items = [redact_texts(item, redact, depth - 1) for item in value]
    if all(old is new for old, new in zip(value, items, strict=True)):
        return value
    return type(value)(items) if type(value) in (list, tuple, set, frozenset) else items
