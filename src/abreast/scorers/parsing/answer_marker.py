"""Where a text announces its answer: "Answer: ...", "the final answer is ...", "\\boxed{...}"."""

from __future__ import annotations

import re

MARKER = re.compile(
    r"""
      \\boxed\s{0,3}\{
    | <(?:final[_\s-]?)?answer>
    | ^\#{4}[ \t]
    | \b(?: (?:answer|verdict|prediction)
          | final\s{1,3}(?:result|value|estimate|label|decision|classification|choice) )\b
      [\s*_`"')]{0,6} (?: [:=≈→—–] | ->? | (?:is|was)\b | (?:would|should|must|will)\s{1,3}be\b )
    | \b(?:label|classification)\b[\s*_`"')]{0,6}[:=]
    """,
    re.IGNORECASE | re.MULTILINE | re.VERBOSE,
)


def marker_ends(text: str) -> list[int]:
    """The positions right after each marker.

    >>> [text[end:] for text in ["**Answer:** 5", "So the answer is 5"] for end in marker_ends(text)]
    ['** 5', ' 5']
    """
    return [match.end() for match in MARKER.finditer(text)]


def spoken_words(text: str) -> list[str]:
    """The words between two places, in lower case, without signs, markup and digits.

    >>> spoken_words(" **approximately** $")
    ['approximately']
    """
    return re.findall(r"[^\W\d_]+", text.casefold())
