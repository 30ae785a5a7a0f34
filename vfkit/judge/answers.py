"""Read answers by strict rules: what is not clearly said counts as `other`, and nothing is guessed (VF 3.3)."""

import re
import unicodedata
from collections.abc import Iterator, Sequence

OUTCOMES = ("vision", "bias", "other")
"""What an answer can be: it equals the truth, it equals the trap, or neither (VF 3.3)."""

REASONING = r"(?:seed:)?(?:think|thinking|thought|reason|reasoning)"
"""Pattern of the names of tags between which models write their reasoning."""
_QUOTES = " \t\r\n\"'`*_${}\u201c\u201d\u2018\u2019"
_MARKS = rf"[)\]{_QUOTES}.,;:\-\u2013\u2014]*"
_BE = r"(?:is|would be|must be|should be|will be)"
_NOUN = r"(?:answer|choice|option|response|solution|selection|pick)"
_ASIDE = r"(?:here|(?:to|for|in|of) (?:this|the) (?:question|image|picture|case|problem))"
_DENIED = re.compile(  # what makes a claim that follows it none
    r"(?:n['\u2019]t|\bnot|\bnever|\bdoubt|\bunlikely|\bhardly)(?:\s+(?:think|believe|say|mean|agree|sure|certain|claim|clear|"
    r"know|convinced|true|that|if|whether|be|it|choose|pick|select))*\s*(?:the\s+)?(?:correct|right|best|final)?\s*$",
    re.I,
)
_LEAD = re.compile(
    rf"(?:the\s+)?(?:(?:correct|right|final|best)\s+)?{_NOUN}\b\s*(?:{_BE}\b)?\s*[:=\-\u2013\u2014]*\s*", re.I
)
_SAID = (  # what precedes the option that is said to be the answer
    re.compile(rf"\b{_NOUN}\b(?:\s+{_ASIDE})?\s+{_BE}\b(?!n['\u2019]t)\s*[:=]?\s*", re.I),
    re.compile(rf"\b{_NOUN}\b\s*[:=\u2013\u2014\u2192]\s*|\b{_NOUN}\b\s+-+>?\s+", re.I),
    re.compile(r"\bI(?:['\u2019]d|['\u2019]ll| would| will| must)?\s+(?:choose|pick|select|go with|opt for)\s+", re.I),
    re.compile(r"(?:^|[.!?\n]\s*)(?:so|thus|therefore|hence)?,?\s*(?:choose|select|pick)\s+", re.I),
)
_IS_RIGHT = re.compile(
    rf"(?:^|[.!?,;:\n]\s*|\b(?:that|so|thus|therefore|hence|think|believe|say)\s+)([^.!?,;:\n]+?)\s+{_BE}\s+"
    rf"(?:clearly\s+|indeed\s+)?(?:the\s+|my\s+)?(?:(?:correct|right|true|best|final)(?:\s+(?:{_NOUN}|one))?|{_NOUN})"
    r"(?=\W|$)(?!\W*(?:only )?(?:if|unless|were)\b)",
    re.I,
)
_IT_IS = re.compile(
    r"\b(?:[Ii]t|[Tt]his|[Tt]hat)(?:['\u2019]s| is| must be) (?:option |choice )?[(\[]?([A-Z])[)\]]?\s*(?=[.!\n]|$)"
)
_AFTER = re.compile(
    r"\s*(?:$|[.,;:!)\]\n]|[\u2013\u2014-]\s|(?:because|since|as|for|given|which|due to|based on|here|in this|not|"
    r"and not|rather than|instead of|over)\b)",
    re.I,
)
_JOINED = re.compile(r"[\s.,)\]]*(?:/|&|,|\bor\b|\band\b|\bor maybe\b)\s*(?:possibly\s+|maybe\s+|perhaps\s+)?", re.I)
_PIECE = re.compile(r"[.!?,;:]+\s+|\n+")
_EXPLAINS = re.compile(r"\W*(?:explanation|reason(?:ing)?|rationale|justification|because|since|note|why)\b", re.I)
_TAKEN_BACK = re.compile(
    r"\b(?:actually|wait|sorry|correction|instead(?! of)|scratch that|on second thought|changed my mind|i mean|"
    r"or rather|also (?:be )?(?:possible|plausible|correct|right|fits?))\b",
    re.I,
)
_DOUBTED = re.compile(r"\b(?:or|maybe|perhaps|possibly|might|could|alternatively|however|unless|but)\b", re.I)
_NEGATION = re.compile(r"(?<!\w)(?:not|no|never|neither|nor|without|cannot)(?!\w)|n['\u2019]t(?!\w)", re.I)
_NO_ARTICLE = r"|\s+(?!(?:is|was|are|and|or|because|since|would|could|should|cannot|can|does|has|seems|looks)\b)[a-z]"
_GOES_ON = re.compile(r"(?:it|there|this|the|that|they|i|we|he|she|you|one can)\b", re.I)
_NUMBERS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen twenty"
).split()
_SPELLINGS = {word: str(number) for number, word in enumerate(_NUMBERS)} | {
    "grey": "gray", "greyish": "grayish", "colour": "color", "colours": "colors", "coloured": "colored",
}  # fmt: skip


def strip_reasoning(text: str) -> tuple[str, int]:
    """Remove the reasoning that a thinking model writes before its answer.

    Removed are `<think> ... </think>` (also `<thinking>`, `<thought>`, `<reason>`, `<reasoning>`, `<seed:think>`),
    everything up to a closing tag whose opening one stood in the prompt, and everything from an opening tag that is
    never closed: the model was stopped before it answered, and the answer is empty.

    Returns:
        The answer, and how many characters were removed, tags included.
    """
    kept = re.sub(rf"<({REASONING})>.*?</\1>", "", text, flags=re.S | re.I)
    kept = re.sub(rf"^.*</{REASONING}>", "", kept, flags=re.S | re.I)
    kept = re.sub(rf"<{REASONING}>.*$", "", kept, flags=re.S | re.I)
    return kept.strip(), len(text) - len(kept)


def parse_choice(text: str, labels: Sequence[str], options: Sequence[str]) -> int | None:
    """Parse the option that a free answer names; None where it names none, or more than one.

    An option is named by its label, its text (letter case, quotes, emphasis, outer punctuation, `gray` or `grey`, `2`
    or `two` aside), or both: `B`, `(B)`, `**B**`, `Option B`, `B. a cat`, `a cat (B)`, `a cat`. Read in this order:

    1. the whole answer;
    2. what is said to be the answer: `Answer: B`, `The correct option is (B) a cat.`, `B is correct`, `I choose B`,
       `It is B.`, `\\boxed{B}`, `<answer>B</answer>`, with or without a reason after it; two that differ, one that
       names no option (`the answer is not B`, `the answer is A or B`), or one taken back (`wait, A`) give None;
    3. the first line, if it names an option by label and text, or an explanation follows it;
    4. the first sentence, then the last one, if no other option is mentioned anywhere else.

    A sentence about an option (`The cat is grey` for `grey`) does not name it.

    Args:
        text: the answer, its reasoning removed.
        labels: what names each option; the texts themselves where no letters are listed.
        options: the texts, in the order shown. Where two are equal their text names neither.
    """
    text = re.sub(r"<\|[^|<>]*\|>", " ", text)
    text = re.sub(r"\\boxed\{\s*(?:\\text\{)?([^{}]*)\}+", r"Answer: \1.", text)
    text = re.sub(r"<answer>(.*?)(?:</answer>|$)", r"\nAnswer: \1.\n", text, flags=re.S | re.I)
    text = re.sub(r"\*\*|__|`", "", text).strip()
    if whole := _named(text, labels, options):
        return _only(whole)
    said = list(_said(text, labels, options))
    if said:
        named = set.union(*said) if all(said) else set()
        more = _mentioned(text, labels, options) - named
        return None if more and _TAKEN_BACK.search(text) else _only(named)
    first, _, rest = text.partition("\n")
    if len(named := _named(first, labels, options)) == 1 and rest.strip():
        index = next(iter(named))
        explained = len(_plain(first)) > len(labels[index]) + 1 and len(labels[index]) == 1 or _EXPLAINS.match(rest)
        lines = [_named(line, labels, options) for line in rest.splitlines()]
        others = _mentioned(rest, labels, options) - named
        if explained and not any(line - named for line in lines) and not (others and _doubtful(rest)):
            return index
    asked = {piece.strip() for piece in re.findall(r"[^.!?\n]+(?=\?)", text)}
    pieces = [piece for piece in _PIECE.split(text) if piece.strip(_QUOTES)]
    for here, rest_pieces in ((pieces[:1], pieces[1:]), (pieces[-1:], pieces[:-1])):
        named = _named(here[0], labels, options) if here and here[0].strip() not in asked else set()
        if named:
            return _only(named | _mentioned("\n".join(rest_pieces), labels, options))
    word = next((i for i, label in enumerate(labels) if len(label) > 1 and _begins_with(text, label)), None)
    return word if word is not None and not _mentioned(text, labels, options) - {word} else None


def match(answer: str, truth: str, trap: str, aliases: Sequence[str] = (), trap_aliases: Sequence[str] = ()) -> str:
    """Judge an open answer by its words only: `vision`, `bias` or `other` (VF 3.3).

    Compared are words: letter case, punctuation, articles, `gray` or `grey`, `2` or `two` aside. An answer that equals
    the truth or one of its aliases is `vision`, the trap or one of its aliases `bias`. So is one that contains, word
    for word, phrases of one of the two only; a phrase within a longer one of either side does not count. An answer with
    phrases of both or of neither, or one that says `not` outside the phrase, is `other`.

    Args:
        answer: the answer, its reasoning removed.
        aliases, trap_aliases: further phrases that mean the truth, or the trap.
    """
    sides = [
        {_words(phrase) for phrase in (main, *more)} - {""} for main, more in ((truth, aliases), (trap, trap_aliases))
    ]
    said = _words(answer)
    exact = [said in side for side in sides]
    if any(exact):
        return "other" if all(exact) else OUTCOMES[exact.index(True)]
    phrases, left = _find(said, [*sides[0], *sides[1]])
    hit = [any(phrase in side for phrase in phrases) for side in sides]
    return "other" if all(hit) or not any(hit) or _NEGATION.search(left) else OUTCOMES[hit.index(True)]


# --- words ------------------------------------------------------------------------------------------------------------


def _plain(text: str) -> str:
    """Normalise letter case, Unicode forms, spellings and spaces, and strip outer punctuation."""
    text = re.sub(r"\s+", " ", unicodedata.normalize("NFKC", text).casefold()).strip(_QUOTES + ".,;:!?()[]")
    return _spelled(text)


def _words(text: str) -> str:
    """Reduce a text to its words, separated by single spaces: no articles, no punctuation outside numbers."""
    text = unicodedata.normalize("NFKC", text).casefold().replace("\u2019", "'")
    text = re.sub(r"n't\b", " not", text.replace("can't", "cannot"))
    words = re.findall(r"\d+(?:[.,:]\d+)+|\w+", text.replace("'", ""))
    return _spelled(" ".join(word for word in words if word not in ("a", "an", "the")) or " ".join(words))


def _spelled(text: str) -> str:
    """Unify spellings: one of each pair, digits for numbers up to twenty."""
    return re.sub(r"[a-z]+", lambda word: _SPELLINGS.get(word[0], word[0]), text)


def _find(text: str, phrases: Sequence[str]) -> tuple[set[str], str]:
    """Find the phrases that occur as whole words, longest first; return them and the text without them."""
    named = set()
    for phrase in sorted(set(phrases) - {""}, key=len, reverse=True):
        text, n = re.subn(rf"(?<!\w){re.escape(phrase)}(?!\w)", " | ", text)
        if n:
            named.add(phrase)
    return named, text


# --- options ----------------------------------------------------------------------------------------------------------


def _only(named: set[int]) -> int | None:
    return next(iter(named)) if len(named) == 1 else None


def _named(text: str, labels: Sequence[str], options: Sequence[str]) -> set[int]:
    """Find the options that a text names: several where the text of one is the label of another."""
    text = text.strip(_QUOTES)
    plain = _plain(text)
    named = {index for index, option in enumerate(options) if plain and plain == _plain(option)}
    lead = _LEAD.match(text)
    for body in {text, text[lead.end() :] if lead else text}:
        if lead and body != text and _plain(body):
            named |= {index for index, option in enumerate(options) if _plain(body) == _plain(option)}
        for index, label in enumerate(labels):
            form = rf"[(\[{_QUOTES}]*{re.escape(label)}(?!\w)(?P<mark>{_MARKS})(?P<rest>.*)"
            if parts := re.fullmatch(form, body, flags=re.S | re.I):
                rest = _plain(parts["rest"])
                if not rest or rest == _plain(options[index]):
                    named.add(index)
            text_first = rf"(?P<text>.+?)[\s,]*(?:option\s+|choice\s+)?[(\[]{re.escape(label)}[)\]]\W*"
            if len(label) == 1 and (parts := re.fullmatch(text_first, body, flags=re.S | re.I)):
                if _plain(parts["text"]) == _plain(options[index]):
                    named.add(index)
    return named


def _said(text: str, labels: Sequence[str], options: Sequence[str]) -> Iterator[set[int]]:
    """Yield, for each claim of an answer, the options it names: none where it claims something else."""
    for pattern in _SAID:
        for before in pattern.finditer(text):
            sentence = re.split(r"[.!?\n]", text[: before.start()])[-1]
            unreal = "would" in before[0].casefold() and re.search(r"\bif\b", sentence, re.I)
            denied = unreal or _DENIED.search(sentence)
            yield set() if denied else _leading(text[before.end() :], labels, options)
    for said in _IS_RIGHT.finditer(text):
        if named := _named(said[1], labels, options):
            yield named
    for said in _IT_IS.finditer(text):
        if said[1] in labels:
            yield {list(labels).index(said[1])}


def _leading(text: str, labels: Sequence[str], options: Sequence[str]) -> set[int]:
    """Find the options that a text begins with, and those joined to them by `or`, `and` or a comma."""
    best: tuple[int, set[int]] = (0, set())
    for index, (label, option) in enumerate(zip(labels, options, strict=True)):
        name = rf"(?:{_NOUN}\b\s*[:=]?\s*)?[(\[{_QUOTES}]*{re.escape(label)}(?!\w)[)\]\"'`*_$}}\u201d\u2019]*"
        words = r"\W+".join(_spelling(word) for word in re.findall(r"\w+", option))
        forms = (
            [name, rf"{name}[.,;:\-\u2013\u2014\s]*[(\[{_QUOTES}]*{words}", rf"(?:the\s+)?[({_QUOTES}]*{words}"]
            if words
            else [name]
        )
        for form in forms:
            parts = re.match(form, text, re.I)
            if parts and (_AFTER.match(text, parts.end()) or _JOINED.match(text, parts.end())):
                if parts.end() > best[0]:
                    best = parts.end(), {index}
                elif parts.end() == best[0]:
                    best[1].add(index)
    end, named = best
    joined = _JOINED.match(text, end) if named else None
    if joined:
        rest = text[joined.end() :]
        if not _NEGATION.match(rest):
            named = named | _leading(rest, labels, options)
    return named


def _spelling(word: str) -> str:
    """Make a pattern of a word in any of its spellings."""
    one = _spelled(word.casefold())
    return (
        "(?:"
        + "|".join({re.escape(word), *(re.escape(other) for other, same in _SPELLINGS.items() if same == one), one})
        + ")"
    )


def _doubtful(text: str) -> bool:
    return bool(_TAKEN_BACK.search(text) or _DOUBTED.search(text))


def _begins_with(text: str, word: str) -> bool:
    """Whether an answer goes on from the word as sentences do: `Yes there is`, but not `No idea`."""
    parts = re.match(rf"[{_QUOTES}]*{re.escape(word)}\b[{_QUOTES}]*(.*)", text, re.S | re.I)
    return bool(parts and _GOES_ON.match(parts[1]))


def _mentioned(text: str, labels: Sequence[str], options: Sequence[str]) -> set[int]:
    """Find the options whose text or label occurs anywhere. An `A` before a lower-case noun is an article."""
    texts = [_plain(option) for option in options]
    phrases, _ = _find(_plain(text), texts)
    said = {index for index, option in enumerate(texts) if option in phrases}
    letters = {
        i
        for i, label in enumerate(labels)
        if re.search(rf"(?<!\w){re.escape(label)}(?!\w|['\u2019]{_NO_ARTICLE if label == 'A' else ''})", text)
    }
    return said | letters
