"""Words by which prose rejects things: English, and the most common German, French, Spanish and Chinese ones."""

from __future__ import annotations

import re
from collections.abc import Callable

from abreast.scorers.retrieval.mentions import NameMention

Within = Callable[[int, int], list[NameMention]]
"""Returns the mentions between two positions."""

_I = re.IGNORECASE
WORD = re.compile(r"\w{3,}")

_IDIOM = (
    r"only|just|merely|simply|limited|exhaustive|complete(?:ly)?|sure|certain|entirely|clear|obvious|surprising|until"
    r"|to mention|necessarily|(?:a |any )?doubt|nur|seulement|solo|fully"
)
NEGATION = re.compile(
    rf"\b(?:(?:is|are|was|were|does|do|did|has|have|had|wo|would|should)n['’]t|not|never|without|neither|nor|none"
    rf"|nothing|nowhere)\b(?! (?:{_IDIOM}|else)\b)(?! (?:forget|overlook|miss|ignore|neglect|be fooled)\b)"
    r"|\bno\b(?! (?:other|doubt|matter|surprise|wonder|need|longer than)\b)(?=[ \ue000])|\b(?:nicht|keine?[mnrs]?|nie"
    r"|weder)\b(?! nur\b)|\b(?:ne|pas|jamais|aucune?|rien|ni|ningun[ao]?|nunca)\b(?! seulement\b)|\bn['’](?=\w)"
    r"|并不|并非|不是|没有",
    _I,
)
NO_OTHER = re.compile(r"\bno other\b|\b(?:nothing|nowhere|none) else\b", _I)
EXCLUSION = re.compile(
    r"\b(?:unlike|rather than|instead of|except(?:ing)?(?: for)?|other than|apart from|aside from|as opposed to"
    r"|in contrast to"
    r"|contrary to|excluding|anstatt|anstelle|statt|außer|au lieu de|sauf|contrairement à|en lugar de|excepto)\b"
    r"(?! (?:those|these|that|them|this|it)\b)",  # a pronoun is what is left out, not the names that follow it
    _I,
)
DIMINISHER = re.compile(
    r"\b(?:only|merely|just|simply|nur|lediglich|seulement|simplement|solo|solamente)\s+(?P<verb>[^\W\d][\w-]*)"
    r"|(?:只是|仅仅|只)(?=\w)",
    _I,
)
_NOT_VERBS_TEXT = (
    "the one a an in by on for when if after once to at from with two three four through before as because "
    "those these this that few of some it its function place file method class where like below above here "
    "there under inside within ones der die das im bei le la les dans una uno en "
)
NOT_VERBS = frozenset(_NOT_VERBS_TEXT.split())
DISMISSAL = re.compile(
    r"\b(?:(?:can|may|should|could) (?:safely )?be (?:ignored|skipped|disregarded)|(?:is|are|was|were) (?:unrelated"
    r"|irrelevant|(?:a )?different\b|dead code|a (?:false positive|red herring))|turned out to be (?:dead|unrelated"
    r"|wrong|a )|left (?:it|them) aside|set (?:it|them) aside|ruled (?:it |them )?out|dismissed|discarded"
    r"|no longer exists?|(?:was|were|been) removed\b|(?:is"
    r"|are) commented out)",
    _I,
)
ASIDE = re.compile(
    r"\b(?:by comparison|by contrast|in contrast\b(?! to)|on the other hand|conversely|dagegen|hingegen|en revanche"
    r"|par contre|en cambio)\b|\bfirst (?:guess|thought|instinct|impression)\b|\b(?:looked|seemed|thought|expected"
    r"|suspected|assumed)\b.{0,40}\bat first\b|\blooked at first\b|\b(?:at first|initially|originally) (?:I"
    r"|it (?:looked|seemed))\b|\b(?:might|would|may|could) (?:also )?(?:expect|think|assume|guess|suspect|have been"
    r"|have expected|possibly)\b|\b(?:easy|tempting|natural) to (?:assume|think|expect|believe|suspect)\b|\bformerly\b"
    r"|\bpreviously\b|(?<!is )(?<!are )(?<!was )(?<!be )\bused to \w|\b(?:it|which|this|that) was (?:named|called"
    r"|known as)\b|\bif\b.{0,80}\bwere\b.{0,80}\bwould\b|\bwould\b.{0,80}\bif\b.{0,80}\bwere\b|\bsimilar(?:ly named"
    r"| name)\b|\bI (?:also |then |first |next |have |had )*(?:opened|looked|searched|checked|read|went|started|grepped"
    r"|inspected|examined|considered|traced|followed|tried|scanned|ran|reviewed)\b|\b(?:brought up|hits in|led me to"
    r"|let me know|happy to|if you (?:want|like)"
    r"|see also|for (?:context|reference))\b",
    _I,
)
DETAIL = re.compile(
    r"\b(?:calls?|calling|invok(?:es?|ing)|us(?:es|ing)|takes?|accepts?|returns?|returning|receiv(?:es?|ing)|pass(?:es"
    r"|ing)|imports?|importing|extends|extending|overrides|overriding|inherits(?: from)?|implements|implementing|wraps"
    r"|wrapping|raises?|raising|throws?|throwing|subclass(?:es|ing)|keeps|stores|delegates to|forwards to|assigns? to"
    r"|guarded by|annotated with|of type|instance of|(?:called|used|invoked|imported|re-exported|tested|mentioned"
    r"|documented|overridden|overwritten|registered|followed|required|replaced|superseded) (?:by|from|form|in)"
    r"|in favou?r of|confuse (?:it|this|them|that) with|(?:base|parent|super) ?class)\b"
    r"|\b(?:its|their)[\s(*_]*$",
    _I,
)
MEANS = re.compile(r"\b(?:via|by means of|with the help of)\b", _I)  # a detail if what it serves was named before
CALLER = re.compile(r"\b(?:calls?|uses?|invokes?|imports?|wraps?|relies on|goes through) (?:this|it|that|them)\b", _I)
PREMISE_END = re.compile(r",\s*(?:so|thus|hence|therefore|which means(?: that)?|donc)\s+(?!that\b)", _I)
ELLIPSIS = re.compile(r"\b(?:but|and|yet)\s*$", _I)  # what follows has the subject of the clause before
OVERRULED = re.compile(
    r"\b(?:but|and|however)\b[^,;]{0,40}\b(?:wins?|takes? precedence|prevails?|overrides? (?:it|that))\b", _I
)
OPPOSITE = re.compile(
    r"^[\s*_#>-]*(?:in|im|un|non-?|not )(?P<word>[^\W\d_]{3,}(?: [\w-]{1,30}){0,3})[*_]*\s*[:：]", _I | re.MULTILINE
)
_THING = r"(?:one|file|script|function|class|method|module|place|answer|definition|implementation)"
ORDINAL = re.compile(
    r"\bthe (?P<which>first|second|third|last|latter|former)\b"
    rf"(?: (?:{_THING}|candidate|match|line|hit|entry|item|of (?:them|these|those)))?(?P<predicate>[^.!?)\n]{{0,80}})",
    _I,
)
CHOICE = re.compile(r"(?:\b(?:it|that|this|answer|one)(?:['’]s| is)|\b(?:means?|want|pick))\W*$", _I)
BACK_REFERENCE = re.compile(  # to the name before: `so that's the one`, `that script does it`
    r"[\s*_>]*(?:(?:so|thus|hence|therefore),? )?(?:that|this)"
    rf"(?:(?P<is>(?:['’]s| is) the (?:right |actual |correct |real )?{_THING})|(?! is) {_THING})\b",
    _I,
)
DETAIL_REACH = 45  # characters between such a verb and its object
DETAIL_END = re.compile(r"[.;:\ue000]|(?<!class),")
ANSWER = re.compile(
    r"^\W*(?:\w+ ){0,3}?(?:the (?:right |actual |correct |real )?(?:one|answer|place|function|file|class|method"
    r"|definition|implementation)\b|it\b[\s.!]*$|what (?:you|was)|(?:one|part) of|relevant|involved|responsible"
    r"|concerned|affected|related|such|there\b|here\b|zuständig"
    r"|答案)|\byou(?:['’]re| are)? (?:after|asked|looking|want)",
    _I,
)
CLAUSE = re.compile(
    r"[;:。，]|[.!?](?=\s|$)|,\s*(?:but|so|and|although|while|whereas|since|because)\b|\b(?:but|although|whereas"
    r"|sondern|aber|mais)\b",
    _I,
)
BOUNDARY = re.compile(r"[;:,]|\b(?:but|and|although|aber|mais)\b|[—–]", _I)
SCOPE = re.compile(
    r"[;:),.!?，。](?!\w)|[),]|\b(?:but|however|although|though|whereas|while|only|instead|because|since|so|sondern"
    r"|aber|mais|sino|even though)\b|[—–](?= )",
    _I,
)
PRONOUN = re.compile(
    r"\s*(?:it|that|this|they|these|those|he|she|neither|none|both|all|the (?:former|latter|others?|other (?:one|two"
    r"|three))|(?:that|this) (?:one|class|function|file|method|module|name)|es|das|diese[rs]?|elle|il|cela|它"
    r"|这)(?: of (?:them|these|those))?(?: (?:itself|really|actually|also|in fact))?\s*"
    r"(?:is|are|was|were|do|does|did|has|have|contains?|knows?|calls?|looks?)?\s*",
    _I,
)
ADDITIVE = re.compile(
    r"^[\s*_]*plus\b|\bapart from (?:those|these|that|them|this|it)\b"
    r"|\b(?:also|too|as well|either|another|additional(?:ly)?|besides|likewise|further(?:more)?|second(?:ly)?|finally"
    r"|other (?:one|place|file|function)|more|answers?|auch|außerdem|aussi|également|también)\b|也",
    _I,
)
EXPLANATION = re.compile(
    r"[\s*_#>-]*(?:(?:the )?(?:long(?:er)?|detailed|full(?:er)?) (?:answer|version|story|explanation)|why|reason"
    r"|reasoning|rationale|notes?|explanation|details|context|evidence|background|how (?:i|it) \w+(?: \w+)?)"
    r"[*_]*\s*[:：]",
    _I,
)
CONCESSION = re.compile(r"\b(?:although|even though|though|whereas|while)\b", _I)
CONSIDERED = re.compile(
    r"\b(?:other|also|alternative|further|false|rejected|excluded|ruled|dismissed)\b.{0,40}\b(?:candidates?|considered"
    r"|places?|files|matches|positives|out|hits)\b|\b(?:considered|looked at|for (?:context|reference)|see also|related"
    r"|unrelated|excluded|rejected|dismissed|ruled out|context|background|search log|analysis|investigation|steps taken"
    r"|(?:what|how) i (?:checked|searched|did|got|found|arrived|came))\b",
    _I,
)
CONCLUSION = re.compile(
    r"(?:^|[.!?,;:\n])[\s*_#>]*(?:(?:so|thus|hence|therefore|and|in short)\b,? )?(?:(?:the|my|here is the|die|la) )?"
    r"(?:(?:final|short|correct|actual) )?(?:answer|conclusion|verdict|summary|antwort|fazit|réponse"
    r"|respuesta)\b(?= is| ist| est|[\s*_]*[:：]|[*_ \t]*$)"
    r"|(?:^|[.!?\n])[\s*_#>]*(?:in (?:short|summary|conclusion)|to (?:sum up|summari[sz]e|conclude)|tl;?dr"
    r"|overall)\b[*_]*[,:]",
    _I | re.MULTILINE,
)
CORRECTION = re.compile(
    r"(?:^|[.!?~\n])[\s*_>]*(?:actually|correction\b.{0,60}?:|wait|hmm|on second thought|on closer inspection"
    r"|scratch that|i was wrong|my mistake)\b[,:—– ]"
    r"(?!.{0,300}\b(?:too|also|as well)\b)",
    _I,
)
NOTHING_FOUND = re.compile(
    r"[\s*_#>]*(?:(?:short )?answer:\s*)?(?:no(?:where|ne|thing)?[*_]*\s*[.:;!—–]|(?:there (?:is|are"
    r"|seems? to be) (?:no|none|nothing)\b)|(?:unfortunately,? |sorry,? (?:but )?)?i(?:['’]m| am| was| have)? ?(?:could"
    r"|can|did|was|have|am)?(?:n['’]t|not| not| unable) ?(?:been )?(?:able )?(?:to )?(?:find|found|locate|identify"
    r"|determine)\b|not found\b|no (?:such )?(?:file"
    r"|function|code|class|method|place|module)s?\b)",
    _I,
)
GUESS = re.compile(
    r"\b(?:may be|might be|could be|probably|likely|best guess|my guess|closest|perhaps|most likely)\b[^.;]{0,60}$", _I
)


class QuestionWords:
    """The words of a question."""

    def __init__(self, text: str) -> None:
        self._words = frozenset(word.lower() for word in re.findall(r"[^\W\d]\w+", text[:20_000]))
        self._stems = frozenset(stem for word in self._words if word not in _COMMON and len(stem := _stem(word)) >= 3)

    def asks(self, clause: str) -> bool:
        """Whether a clause has a word of the question, in any inflection."""
        return any(
            _stem(word.lower()) in self._stems
            for word in re.findall(r"[^\W\d_]{3,40}", clause[:500])
            if word.lower() not in _COMMON
        )

    def has_word(self, name: str) -> bool:
        return name.rpartition(".")[2].lower() in self._words


_COMMON_TEXT = (
    "the and for are was were which what where who whom whose when how that this these those with from into "
    "does did done has have had its their there here file files function functions class classes method "
    "methods module modules code name named line lines all any each every one two three four both only not "
    "before after than then them they you your end json object keys symbols content welche welcher wird "
    "werden die der das wo quelle quelles est sont les des place places "
)
_COMMON = frozenset(_COMMON_TEXT.split())
_ENDINGS = ["ations", "ation", "ings", "ing", "ions", "ion", "ent", "ten", "ed", "es", "er", "en", "s", "e", "t"]


def _stem(word: str) -> str:
    """Return a word without its ending.

    >>> _stem("writes") == _stem("writing") == _stem("write"), _stem("valident") == _stem("valide")
    (True, True)
    """
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            stem = word.removesuffix(ending)
            return stem[:-1] if len(stem) > 4 and stem[-1] == stem[-2] else stem
    return word
