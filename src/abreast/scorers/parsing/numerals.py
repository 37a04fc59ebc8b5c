"""Read the numbers in a text, but not ordinals, names, versions, dates and list markers."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from abreast.scorers.parsing.answer_text import fold

_LONGEST_NUMERAL = 400
_SPACES = "\u00a0\u2007\u2008\u2009\u202f"
_MONTHS = (
    r"(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?"
    r"|Aug(?:ust)?|Sept?(?:ember)?|Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?)"
)

_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺", "0123456789-+")
_FULL_WIDTH = str.maketrans("０１２３４５６７８９．％，＝：＄", "0123456789.%,=:$")
_LATEX = {r"{,}": ",", r"\,": "\u2009", r"\;": "\u2009", r"\%": "%", r"\$": "$", r"\pm": "±", r"\times": "×",
          r"\cdot": "×", r"\approx": "≈", r"\sim": "~", r"\neq": "≠", r"\leq": "≤", r"\geq": "≥"}  # fmt: skip
_LATEX_PATTERN = re.compile("|".join(re.escape(key) for key in sorted(_LATEX, key=len, reverse=True)))

_LIST_MARKER = re.compile(
    r"^[ \t>]*(?:[-*+•][ \t]+|\#{1,6}[ \t]+)?[*_]{0,3}\(?(\d{1,3})[.)][*_]{0,3}(?=[ \t]+\S)", re.MULTILINE
)
_TOKEN = re.compile(
    rf"""
      (?P<name>
        {_MONTHS}\.?\s\d{{1,2}}(?:st|nd|rd|th)?(?:,?\s\d{{4}})?\b | {_MONTHS}\.?\s\d{{4}}\b
      | \d{{1,2}}(?:st|nd|rd|th)?\s{_MONTHS}\b(?:,?\s\d{{4}}\b)?
      | (?i:steps?|figures?|fig\.?|tables?|sections?|parts?|questions?|equations?|eq\.?|chapters?|examples?|problems?)
        \s{{0,2}}\#?\d+(?:\.\d+)*\b
      | [^\W\d_]\w*(?:(?:[.-]|(?<=\d),)?\d(?:\w|[.,](?=\d))*)*       # p95, GPT-4, v1.2, and every plain word
      | \d[\d,]*-?(?:st|nd|rd|th)\b | \d+\s?\^\{{?(?:\\(?:text|mathrm)\{{)?(?:st|nd|rd|th)\b
      | \d{{4}}-\d{{1,2}}-\d{{1,2}}(?:[T\s]\d{{1,2}}:\d\d(?::\d\d(?:\.\d+)?)?Z?)?(?!\d)
      | \d{{4}}/\d{{1,2}}/\d{{1,2}}(?!\d) | \d{{1,2}}[/.]\d{{1,2}}[/.](?:\d{{4}}|\d\d)(?!\d)
      | (?:19|20)\d\d-(?:0[1-9]|1[0-2])(?![\d-])
      | (?!\d{{1,3}}(?:\.\d{{3}})+,\d)\d+(?:\.\d+){{2,}}[\w-]*                # 1.2.3, but not 1.234.567,8
      | (?:[01]?\d|2[0-3]):[0-5]\d(?::[0-5]\d)?(?![\d:])
      | (?!\d+(?:[eE][+-]?\d|x10\s?\^))\d+[^\W\d_]+\d\w*                   # 0x1F, 3f8a, 2x4
      | \d[\d.,]*-[^\W\d_]\w*                                              # 5-fold
      )
    | (?P<odd>
        \\[dt]?frac\s?\{{[^{{}}]{{0,40}}\}}\s?\{{[^{{}}]{{0,40}}\}}
      | \d[\d.,]*\s?[/⁄]\s?\d[\d.,]* | \d+(?:\.\d+)?:\d+
      )
    | (?P<run> (?:(?<![.\w])\.)?\d(?:\d|[.,_'{_SPACES}](?=\d))* )
      (?P<exponent> [eE][+-]?\d{{1,5}}(?!\d) )?
      (?: \s{{0,2}}[×x*·]\s{{0,2}}10\s?(?:\^|\*\*)\s?[{{(]?(?P<power>[+-]?\d{{1,4}})[}})]? )?
      (?P<scale> \s{{0,2}}(?i:thousand|million|billion|trillion)s?\b | \s?(?:bn|mn)\b | [kKMB](?![^\W_]) )?
      (?P<percent> \s?% | \s{{1,2}}(?i:percent|per\scent)\b )?
    """,
    re.VERBOSE,
)
_SCALES = {"k": 3, "thousand": 3, "m": 6, "mn": 6, "million": 6, "b": 9, "bn": 9, "billion": 9, "trillion": 12}
_AFTER_ODD = re.compile(r"\s?(?:π|√|\\pi\b|\\sqrt\b)|\^|\*\*[\d(]|[¼½¾⅐-⅞]|[/⁄]\d")
_AFTER_NAME = re.compile(r"_+[^\W_]")
_BOUND = re.compile(r"(?:[<≤≥]|>=|(?<=\S\ )>)=?\s?$")
_UNEQUAL = re.compile(r"(?:≠|!=|\\ne\s?)\s{0,2}$")
_PLUS_MINUS = re.compile(r"(?:±|\+/-|\+-)\s{0,2}$")
_ERROR_BAR = re.compile(r"\d[\s%*_a-zA-Zµ°$]{0,10}(?:±|\+/-|\+-)\s{0,2}$")
_CURRENCY = "$€£¥₹"

_PLAIN = re.compile(r"\d+(?:\.\d+)?|\.\d+")
_GROUPED = re.compile(rf"[1-9]\d{{0,2}}(?:(?:,\d{{3}})+|(?:_\d{{3}})+|(?:'\d{{3}})+|(?:[{_SPACES}]\d{{3}})+)(?:\.\d+)?")
_EUROPEAN = re.compile(rf"[1-9]\d{{0,2}}(?:(?:\.\d{{3}})+|(?:[{_SPACES}]\d{{3}})+),\d+")


@dataclass(frozen=True, slots=True)
class Numeral:
    """A number in a text. `values` is empty if it is ambiguous ("3,5", "1/3", "< 5"); 12 % has two: 12 and 0.12."""

    text: str
    start: int
    end: int
    values: tuple[float, ...]

    def agrees_with(self, other: Numeral) -> bool:
        return any(math.isclose(a, b, rel_tol=1e-12) for a in self.values for b in other.values)


def prepare(text: str) -> str:
    """Unify minus signs, digits and LaTeX around numbers, and blank out list markers.

    >>> prepare("1. It is −3×10⁻⁴")
    '   It is -3×10^{-4}'
    """
    text = fold(text).translate(_FULL_WIDTH)
    text = re.sub(r"(?<![^\s(=:$*])–(?=\d)", "-", text)  # a dash glued to a number, after a space, is a minus
    text = re.sub("[⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺]+", lambda match: f"^{{{match.group().translate(_SUPERSCRIPTS)}}}", text)
    text = _LATEX_PATTERN.sub(lambda match: _LATEX[match.group()], text)
    return _without_list_markers(text)


def numerals(text: str) -> list[Numeral]:
    """Return the numbers in the result of `prepare`.

    >>> [numeral.values for numeral in numerals("The 95th percentile of v1.2 is $1,234.5 or 12 %")]
    [(1234.5,), (12.0, 0.12)]
    """
    numbers = (_numeral(text, match) for match in _TOKEN.finditer(text) if match.lastgroup != "name")
    return [numeral for numeral in numbers if numeral is not None]


def _without_list_markers(text: str) -> str:
    numbers = {int(match.group(1)) for match in _LIST_MARKER.finditer(text)}

    def blanked(match: re.Match[str]) -> str:
        number = int(match.group(1))
        is_list = number <= 1 or number - 1 in numbers  # a lone "42. Because ..." is an answer
        return " " * len(match.group()) if is_list else match.group()

    return _LIST_MARKER.sub(blanked, text)


def _numeral(text: str, match: re.Match[str]) -> Numeral | None:
    if match["odd"] is not None:
        return Numeral(match.group(), match.start(), match.end(), ())
    if _AFTER_NAME.match(text, match.end()):
        return None
    sign, start = _sign(text, match.start())
    before = text[max(0, start - 24) : start]
    if _UNEQUAL.search(before) or _ERROR_BAR.search(before):
        return None
    unsure = _PLUS_MINUS.search(before) or _BOUND.search(before) or _AFTER_ODD.match(text, match.end())
    values = () if unsure else _values(text, match, sign)
    return Numeral(text[start : match.end()].strip(), start, match.end(), values)


def _sign(text: str, start: int) -> tuple[str, int]:
    """Return the sign before a number and its start with sign and currency: "-5", "-$5", "$-5"."""
    at = start - (text[start - 1 : start] in _CURRENCY and start > 0)
    before = text[max(0, at - 2) : at]
    if before[-1:] not in ("+", "-") or not before:
        return "", at
    if before[:-1].isalnum() or before[:-1] in (")", "]", "}", "%", "+", "-"):
        return "", at  # "10-12" is a range, "a--5" a dash
    signed = at - 1
    return before[-1], signed - (signed > 0 and text[signed - 1] in _CURRENCY)


def _values(text: str, match: re.Match[str], sign: str) -> tuple[float, ...]:
    neighbours = text[max(0, match.start() - 1) : match.start()] + text[match.end() : match.end() + 1]
    digits = _digits(match["run"], bracketed="[" in neighbours or "]" in neighbours)
    if digits is None:
        return ()
    power = int((match["exponent"] or "e0")[1:]) + int(match["power"] or 0)
    power += _SCALES.get((match["scale"] or "").strip().lower().removesuffix("s"), 0)
    powers = (power, power - 2) if match["percent"] else (power,)
    values = tuple(float(f"{sign}{digits}e{exponent}") for exponent in powers)
    return values if all(math.isfinite(value) for value in values) else ()


def _digits(run: str, bracketed: bool) -> str | None:
    """Return the digits with at most one decimal point, or None if they are ambiguous."""
    if len(run) > _LONGEST_NUMERAL:
        return None
    if _PLAIN.fullmatch(run):
        return run
    if _GROUPED.fullmatch(run) and not (bracketed and "," in run):  # [100,200] is a list
        return re.sub(rf"[,_'{_SPACES}]", "", run)
    if _EUROPEAN.fullmatch(run):
        return re.sub(rf"[.{_SPACES}]", "", run).replace(",", ".")
    return None
