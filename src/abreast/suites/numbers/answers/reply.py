"""Read the answer from a reply: a number, a class or positions.

The last line labelled as the answer counts; without one, the conclusion of the reply. Refusals, stated confidence and
asides in brackets are ignored, and two different answers count as none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from abreast.model import Answer
from abreast.scorers.base import LONGEST_PROSE, clipped, returned_value
from abreast.scorers.label import Label
from abreast.scorers.number import MARKED, read, read_value
from abreast.scorers.parsing.answer_text import fold, marker_ends
from abreast.scorers.parsing.json_text import answers_in, find_objects
from abreast.scorers.parsing.numerals import prepare
from abreast.suites.numbers.answers.number_words import in_digits
from abreast.suites.numbers.dataset.queries import Query, scorer_of


class FinalAnswer(NamedTuple):
    """The number, class or positions in a reply, or None and the reason."""

    value: float | str | list[int] | None
    reason: str = ""


def read_answer(query: Query, answer: Answer) -> FinalAnswer:
    """Read the answer to a query from a reply.

    >>> from abreast.suites.numbers.dataset.queries import QUERIES
    >>> read_answer(QUERIES["mean"], Answer("Answer: 4983 / 100 = 49.83 (n = 100)\\nConfidence: 90 %")).value
    49.83
    >>> read_answer(QUERIES["mean"], Answer("Answer: cannot be determined (mean 49.83)"))
    FinalAnswer(value=None, reason='declines to answer')
    """
    value = returned_value(answer)
    if value is None:
        reply = fold(clipped(answer.text, LONGEST_PROSE)[0])
        values = [value for item in find_objects(reply) for value in answers_in(item)]
        if not values:
            return _read_text(query, *_find_answer(reply))
        value = values[-1]
    if isinstance(value, str):
        return _read_text(query, value, True)
    if query.kind == "positions":
        positions = _whole_numbers(value) if isinstance(value, list | tuple) else _read_positions(str(value))
        return FinalAnswer(positions, "gives no positions")
    if query.kind == "class":
        return _read_class(query, str(value))
    return _convert_unit(query, *read_value(value))


def _read_text(query: Query, text: str, is_labelled: bool) -> FinalAnswer:
    if not text:
        return FinalAnswer(None, "no answer")
    text = _drop_refusal(text)
    if not text:
        return FinalAnswer(None, "declines to answer")
    if query.kind == "positions":
        return FinalAnswer(_read_positions(text), "gives no positions")
    return _read_class(query, text) if query.kind == "class" else _read_number(query, text, is_labelled)


_MARKUP = " \t\n*_`#"
_OPENING = r"^[ \t>#*_|-]{0,8}(?:\d[.)][ \t*_]{0,4})?"
_ANSWER = r"(?:answer|antwort|r[ée]ponse|respuesta)"
_REVISED = r"(?:final|corrected|revised|updated|new)"
_LABEL = re.compile(  # "Answer: 5", "**Final answer:** 5", "1. Answer: 5", and "# Answer" above it
    rf"{_OPENING}(?:[\w']{{1,12}}[ ]){{0,2}}{_ANSWER}[ \t*_`]{{0,6}}(?:[:=]|$)"
    rf"|\b{_REVISED}\s{_ANSWER}[ *_`]{{0,6}}[:=]",
    re.IGNORECASE | re.MULTILINE,
)
_OTHER_LABEL = re.compile(  # the start of another part of the form, on a line of its own or not
    r"""(?:\n[\s>#*_-]{0,8}(?:\d[.)][ \t*_]{0,4})?|[\s,;|.*_#(-]{1,8})
        (?:confidence|reasoning|reason|explanation|konfidenz|begründung|confiance|raisonnement|confianza|razonamiento)
        \b (?:[\s*_]{0,6}[:=]|[ \t*_]{0,6}$)""",
    re.IGNORECASE | re.MULTILINE | re.VERBOSE,
)
_CONFIDENCE = re.compile(
    r"""(?:confidence|konfidenz|confiance|confianza)[\s*_]{0,6}(?:[:=]|\bis\b|\bof\b)[^\n,;)]{0,60}
      | \d[\d.]{0,6}\s?(?:%|percent)?\s(?:confiden(?:t|ce)|sure|certain(?:ty)?)\b""",
    re.IGNORECASE | re.VERBOSE,
)
_UNDERLINE = re.compile(r"\A\s*[=-]{3,}\s*\n")
_WITHDRAWAL = re.compile(
    r"\b(?:correct|revise|withdraw|change|retract)s?\s(?:my|the|that|this)\sanswer\b[^\n:]{0,40}:"
    r"|\bcorrection\s?:|\bscratch\sthat\b",
    re.IGNORECASE,
)


def _find_answer(reply: str) -> tuple[str, bool]:
    """Return the part of a reply that is the answer, and whether it is labelled.

    >>> _find_answer("**Reasoning:** 5 > 3\\n**Answer:** B\\n**Confidence:** 90 %")
    ('B', True)
    """
    ends = [match.end() for match in _LABEL.finditer(reply)] or marker_ends(reply)
    withdrawals = [match.end() for match in _WITHDRAWAL.finditer(reply, ends[-1] if ends else 0)]
    if not ends and not withdrawals:
        return _CONFIDENCE.sub(" ", reply).strip(), False
    rest = _UNDERLINE.sub("", reply[(withdrawals or ends)[-1] :])
    other = _OTHER_LABEL.search(rest)
    rest = (rest[: other.start()] if other else rest).strip(_MARKUP)
    line = rest.partition("\n")[0]
    part = rest if line.rstrip(_MARKUP).endswith(":") or re.match(r"(?:[-*+•]|\d+[.)])\s", line) else line
    if part.startswith("<") and part.endswith(">"):
        part = part[1:-1]  # as in the prompt
    return _CONFIDENCE.sub(" ", part).strip(_MARKUP), not withdrawals


_BRACKETS = re.compile(r"\([^()]{0,300}\)|(?<!\w)\[[^\[\]]{0,300}\]")
_REFUSAL = re.compile(
    r"""\b(?: (?:can(?:no|\s?no|')?t|could(?:n't|\snot)|unable\sto|not\s(?:able|possible)\sto|impossible\sto)\s
              (?:\w+\s){0,2}?(?:determine|comput|calculat|say|tell|answer|evaluat|assess|compare|predict|know|work\sout|
              estimat|decide|establish|infer|derive|provide|give|judge)\w{0,3}
          | (?:not\senough|insufficient|too\slittle)\s(?:information|data|detail)
          | (?:do\snot|don't)\sknow | no\sanswer | rather\snot | out\sof\sreach | n/a | not\savailable | unknown
          | undetermined | indeterminate )\b""",
    re.IGNORECASE | re.VERBOSE,
)
_NEVERTHELESS = re.compile(r"\b(?:but|however|though|nevertheless|nonetheless|still|best\s(?:guess|estimate))\b", re.I)


def _drop_refusal(text: str) -> str:
    """Return the text, or what follows a refusal that is withdrawn: empty if it is not.

    >>> _drop_refusal("I cannot say for sure, but about 50"), _drop_refusal("Unknown (the median is 50)")
    (' about 50', '')
    """
    refusals = list(_REFUSAL.finditer(_BRACKETS.sub(lambda match: " " * len(match.group()), text)))
    if not refusals:
        return text
    nevertheless = _NEVERTHELESS.search(text, refusals[-1].end())
    return text[nevertheless.end() :] if nevertheless else ""


_CONCLUSION = re.compile(
    r"""(?: (?:^|[.,;:!?\n—–-]\s{0,2})(?:and\s)?
            (?:so(?!\s(?:do|does|did|far|that|many|much|called)\b)|that\sis|overall|in\s(?:total|short|sum|conclusion))
          | \b(?:thus|hence|therefore|i\.e\.|in\sother\swords|more\sprecisely|(?:which|this|that)\s(?:makes|leaves)
            |best\s(?:estimate|guess)) )
        (?!\w)""",
    re.IGNORECASE | re.VERBOSE | re.MULTILINE,
)
_MOST_CONCLUSIONS = 5
_LONGEST_SENTENCE = 500
_SENTENCE_END = re.compile(r"[.!?](?=\s|$)|\n")


def _find_conclusions(text: str) -> Iterator[str]:
    """Yield the rest of sentences after "so", "i.e." and the like; the last one first."""
    for match in reversed(list(_CONCLUSION.finditer(text))[-_MOST_CONCLUSIONS:]):
        sentence = text[match.end() : match.end() + _LONGEST_SENTENCE]
        end = _SENTENCE_END.search(sentence)
        yield sentence[: end.start()] if end else sentence


_NUMBER = r"(?<![\d.,])[-+]?[$€£]?\d[\d.,]*+(?:[eE][-+]?\d{1,3})?(?:\s?%)?"
_OPERAND = rf"[(\[]{{0,3}}{_NUMBER}[)\]]{{0,3}}(?:\s[a-z]{{2,15}}(?!\w))?"
_OPERATOR = r"(?:\s?[-+*/×·÷–]\s?|\s(?:over|divided\sby|times|plus|minus|less)\s)"
_EXPRESSION = rf"{_OPERAND}(?:{_OPERATOR}{_OPERAND}){{1,40}}"
_EQUALS = r"\s{0,2}(?:=|≈|≃|≅|\bequals\b)\s{0,2}"
_CALCULATION = re.compile(rf"(?<![\w.]){_EXPRESSION}{_EQUALS}(?=\S)", re.IGNORECASE)
_CALCULATED = re.compile(rf"({_NUMBER}){_EQUALS}{_EXPRESSION}", re.IGNORECASE)
_FRACTION = re.compile(r"\\[dt]?frac\s?\{(-?[\d.]{1,20})\}\s?\{([\d.]{1,20})\}")
_QUOTIENT = re.compile(r"(?<![\w.,/])(\d[\d.]{0,20})\s?/\s?(\d[\d.]{0,20})(?![\w/])(?!\.\d)")
_NEGATIVE_WORD = re.compile(r"\b(?:minus|negative)\s(?=\d)", re.IGNORECASE)
_BELOW_ZERO = re.compile(rf"({_NUMBER})\sbelow\s(?:zero|0)\b", re.IGNORECASE)
_SPACED = re.compile(r"(?<![\d.,])[1-9]\d{0,2}(?:\s\d{3})++(?![\d,])")
_DECIMAL_COMMA = re.compile(r"(?<![\d.,])(\d++),(\d{1,2}|\d{4,20})(?![\d,])")
_POSITION_WORD = r"(?:index|indices|indexes|positions?|steps?|days?)"
_AT_POSITIONS = re.compile(rf",?\s(?:at\s|on\s)?{_POSITION_WORD}\s\d[\d,\s]*+(?:and\s\d+)?", re.IGNORECASE)
_BOUND = re.compile(
    r"\b(?:below|above|under|less\sthan|more\sthan|fewer\sthan|greater\sthan|at\s(?:least|most)|within|give\sor\stake|"
    rf"plus\sor\sminus)\s{_NUMBER}",
    re.IGNORECASE,
)
_NONE = re.compile(r"\W{0,4}(?:(?:there\s(?:is|are)|i\s(?:see|find)|it\shas)\s)?(?:no|none|nothing|not\sany)\b", re.I)

_OF_ALL = re.compile(
    rf"({_NUMBER})\s(?:out\s)?of\s(?:the\s|all\s)?{_NUMBER}(?:\s(?:values|points|observations))?", re.I
)
_LISTED = re.compile(r"(\d\D{0,40}):\s?\d+(?:\s?,\s?(?:and\s)?\d+|\sand\s\d+)+", re.IGNORECASE)
_NOUNS = {
    "values": r"values|points|observations|readings|entries|samples|numbers",
    "anomalies": r"anomal\w+|outliers?",
}


def _read_number(query: Query, text: str, is_labelled: bool) -> FinalAnswer:
    text = _simplify(text)
    if query.unit == "count":
        if _NONE.match(text):
            return FinalAnswer(0.0)
        text = _LISTED.sub(r"\1", _OF_ALL.sub(r"\1", in_digits(text)))
        nouns = next((nouns for word, nouns in _NOUNS.items() if f"How many {word}" in query.question), "values")
        counts = {match[1] for match in re.finditer(rf"({_NUMBER})\s(?:\w+\s)?(?:{nouns})\b", text, re.IGNORECASE)}
        text = counts.pop() if len(counts) == 1 else text
    elif not re.search(r"\d", text):
        text = in_digits(text)
    stripped = _BRACKETS.sub(" ", text)
    text = stripped if re.search(r"\d", stripped) else text
    text = _BOUND.sub(" ", _AT_POSITIONS.sub(" ", text))
    reading = read(f"Answer: {text}" if is_labelled else text)
    if is_labelled and reading.values and reading.why == MARKED:  # the number comes first
        return _convert_unit(query, *reading)
    concluded = (read(conclusion) for conclusion in _find_conclusions(text))
    return _convert_unit(query, *next((conclusion for conclusion in concluded if conclusion.values), reading))


def _simplify(text: str) -> str:
    """Replace calculations by results, and normalise signs, fractions and separators.

    >>> _simplify("IQR = 56.3 - 43.1 = 13.2"), _simplify("minus 3/4"), _simplify("61,4")
    ('IQR = 13.2', '-0.75', '61.4')
    """
    text = _FRACTION.sub(r"\1/\2", prepare(text))
    text = _SPACED.sub(lambda match: re.sub(r"\s", "", match.group()), _DECIMAL_COMMA.sub(r"\1.\2", text))
    text = _CALCULATED.sub(r"\1", _CALCULATION.sub("", text))
    text = _QUOTIENT.sub(_divide, text)
    return _BELOW_ZERO.sub(r"-\1", _NEGATIVE_WORD.sub("-", text))


def _divide(match: re.Match[str]) -> str:
    try:
        return f"{float(match[1]) / float(match[2]):.12g}"
    except (ValueError, ZeroDivisionError):
        return match.group()


def _convert_unit(query: Query, values: tuple[float, ...], reason: str) -> FinalAnswer:
    """Convert percentages: 80 % is 80 if the query asks for percent, 0.8 for a share, and otherwise not an answer."""
    if not values:
        return FinalAnswer(None, reason)
    if len(values) == 1:
        return FinalAnswer(values[0], reason)
    if query.unit == "percent":
        return FinalAnswer(values[0], reason)
    if query.unit == "share":
        return FinalAnswer(values[1], reason)
    return FinalAnswer(None, f"gives a percentage ({values[0]:g} %), which is not what is asked for")


_DENIED = re.compile(
    r"\bopposite\sof\s[\w-]+"
    r"|\b(?:(?:wrong|incorrect|mistaken|a\smistake)\sto\s\w+|not\s(?:true|correct))\sthat\b[^.:;\n]{0,200}",
    re.IGNORECASE,
)
_NOT_ANY = re.compile(
    r"\b(?:is|are|do|does|can|could)(?:n't|\snot)\s(?:(?:see|find|show|have|detect)\s)?(?:any|an?)\b", re.IGNORECASE
)
_NO_CLEAR = re.compile(
    r"\bno\s(?:(?:clear|significant|obvious|real|discernible|notable|meaningful|linear|overall|apparent|visible)\s)+",
    re.I,
)


def _read_class(query: Query, text: str) -> FinalAnswer:
    scorer = scorer_of(query.name)
    assert isinstance(scorer, Label)
    text = _NO_CLEAR.sub("no ", _NOT_ANY.sub("no", _DENIED.sub(" ", text)))
    for attempt in (*_find_conclusions(text), f"Answer: {text}"):
        classes = _choose_series(attempt) if set(query.classes) == {"A", "B"} else scorer.classes_in(attempt)
        if len(classes) == 1:
            return FinalAnswer(classes[0])
    return FinalAnswer(None, f"names {'several classes: ' + ', '.join(classes) if classes else 'no class'}")


_SERIES = r"(?:series|reihe|série|serie|dataset|column)"
_FIRST = re.compile(rf"\b(?:the\s)?(?:former|first\s(?:one|{_SERIES}))\b", re.IGNORECASE)
_SECOND = re.compile(rf"\b(?:the\s)?(?:latter|second\s(?:one|{_SERIES}))\b", re.IGNORECASE)
_NAME = (  # "A" before a word in lower case is an article unless that word is a verb or a conjunction
    rf"(?<![\w'-])(?:(?i:{_SERIES})\s[ABab]|B|A(?!\s(?!(?!series\b|less\b)[a-z]+s\b|and\b|or\b|but\b|by\b|hat\b)[a-z]))"
    r"(?:'s)?(?![\w'-])"
)
_NAME_PATTERN = re.compile(_NAME)
_REFERENCE = re.compile(
    rf"\b(?i:(?:rather\s|other\s)?than|compared\s(?:with|to)|unlike|versus|vs\.?|over|instead\sof|opposed\sto)\s(?:{_NAME})"
)
_CLAUSE_END = re.compile(
    rf"[.;:,!?\n]\s|[.;:,!?\n]$|\b(?i:but|whereas|while|because|since|although|though)\b|\band\s(?={_NAME})(?!{_NAME}\W*$)"
)
_LESS = re.compile(
    r"\b(?:lower|lowest|smaller|smallest|less|least|fewer|weaker|weakest|calmer|flatter|steadier|tight\w*|narrow\w*|below|"
    r"smooth\w*|quiet\w*|stable|steady|no\strend)\b",
    re.IGNORECASE,
)
_MORE = re.compile(
    r"\b(?:higher|highest|larger|largest|greater|greatest|bigger|biggest|more|most|stronger|strongest|steeper|wider|"
    r"widely|broader|exceeds?|wins|above)\b",
    re.IGNORECASE,
)
_ARGUMENT = re.compile(r"(?<=\w)\(([AB])\)")  # mean(A)
_INEQUALITY = re.compile(r"\b([AB])\b[^<>\n]{0,40}([<>])[^<>\n]{0,40}\b((?!\1)[AB])\b")
_NOT = re.compile(r"\bnot\b|n't\b|\bneither\b", re.IGNORECASE)
_FILLER = re.compile(r"\b(?:answer|it|is|the|one|would|be|has|does|clearly|not|probably)\b|n't|\W", re.IGNORECASE)


def _choose_series(text: str) -> list[str]:
    """Return the series, A or B, that is said to have more: a single one if that is clear.

    >>> _choose_series("A is less volatile"), _choose_series("not B"), _choose_series("A and B")
    (['B'], ['A'], ['A', 'B'])
    """
    text = _BRACKETS.sub(" ", _ARGUMENT.sub(r" \1", text))
    text = _SECOND.sub("B", _FIRST.sub("A", text))
    if inequality := _INEQUALITY.search(text):
        return [inequality[1] if inequality[2] == ">" else inequality[3]]
    bare = text.removeprefix("Answer:").strip(_MARKUP + ".")
    if bare in ("a", "b"):
        return [bare.upper()]
    sure: set[str] = set()
    vague: set[str] = set()
    for clause in _CLAUSE_END.split(_REFERENCE.sub(" ", text)):
        names = [match.group().removesuffix("'s")[-1].upper() for match in _NAME_PATTERN.finditer(clause)]
        is_less, is_more = _LESS.search(clause) is not None, _MORE.search(clause) is not None
        is_ranked = is_less or is_more
        subjects = set(names[:1] if is_ranked else names)
        if is_less != (_NOT.search(clause) is not None):
            subjects = {"A": {"B"}, "B": {"A"}}.get(next(iter(subjects)), set()) if len(subjects) == 1 else set()
        is_bare = not _FILLER.sub("", _NAME_PATTERN.sub("", clause))
        (sure if is_ranked or is_bare else vague).update(subjects)
    return sorted(sure or vague)


_LIST = re.compile(r"\[[\d\s,]*\]|\A\W{0,4}\([\d\s,]+\)")
_ELEMENT = re.compile(r"\b[a-z]\w{0,10}(?:\[(\d{1,9})\]|_\{?(\d{1,9})\}?)", re.IGNORECASE)
_ASIDE = re.compile(  # values after positions, in brackets or after a sign, and list numbers
    r"\([^()]{0,200}\)|(?<=[\d*])\s?(?:[:=→]|[—–-]\s)\s?(?:values?\s)?-?\d+(?:\.\d+)?"
    r"|^[ \t]*\d{1,2}[.)][ \t]+(?=\W{0,3}\d)",
    re.MULTILINE,
)
_POSITION = r"(?<![\w.])(\d{1,9})(?:\.0{1,9}|st|nd|rd|th)?(?!\w|\.\d)"
_POSITIONS = re.compile(_POSITION)
_FIRST_LIST = re.compile(
    rf"\W{{0,9}}(?:{_POSITION_WORD}\s)?{_POSITION}(?:(?:[\s,;&#*`_-]|\band\b|\b{_POSITION_WORD}\b){{1,12}}{_POSITION})*",
    re.IGNORECASE,
)
_COUNTED = re.compile(
    r"\s{1,3}(?:(?!is\b|are\b)\w+\s)?(?:anomal|outlier|spike|drop|dip|level|shift|point|event|position)", re.IGNORECASE
)
_AT = re.compile(rf"\b(?:at|locations?|{_POSITION_WORD})\b", re.IGNORECASE)


def _read_positions(text: str) -> list[int] | None:
    """Return the positions in a text, in any order and form.

    >>> _read_positions("3 anomalies, at 80, **12** (value 99.5) and x[45] = 7")
    [12, 45, 80]
    """
    text = _ELEMENT.sub(r"\1\2", text)
    if numbers := _LIST.search(text):
        return _whole_numbers(re.findall(r"\d{1,9}", numbers.group()))
    text = _ASIDE.sub(" ", text)
    first = _FIRST_LIST.match(text)
    if first and (len(_POSITIONS.findall(first.group())) > 1 or not _COUNTED.match(text, first.end())):
        text = first.group()  # what follows comments on them
    elif at := _AT.search(text):
        text = text[at.end() :]
    positions = _whole_numbers(_POSITIONS.findall(text))
    return positions if positions or re.search(r"\b(?:no|none|nothing)\b", text, re.IGNORECASE) else None


def _whole_numbers(values: Iterable[Any]) -> list[int]:
    """Return the sorted unique integers among the values; of windows, the start.

    >>> _whole_numbers([17, "3", 42.0, 3.5, "n/a", True, [50, 60]])
    [3, 17, 42, 50]
    """
    firsts = (value[0] if isinstance(value, list | tuple) and value else value for value in values)
    texts = {str(value).removesuffix(".0") for value in firsts}
    return sorted({int(text) for text in texts if re.fullmatch(r"[0-9]{1,9}", text)})
