"""Answers read by rule: strict, so that what is not clearly said counts as `other` and nothing is guessed (VF 3.3)."""

import re
import unicodedata
from collections.abc import Sequence

OUTCOMES = ("vision", "bias", "other")
"""What an answer can be: it equals the truth, it equals the trap, or neither (VF 3.3)."""

_TAG = r"(?:seed:)?(?:think|thinking|thought|reason|reasoning)"
_LEAD = re.compile(r"\b(?:answer|choice|option)\b(?:\s+(?:is|would be|must be))?\s*[:=]?\s*", re.I)
_EXPLICIT = re.compile(r"\b(?:answer|choice)\b(?:\s+(?:is|would be|must be)\b\s*[:=]?|\s*[:=])\s*(.*)", re.I)
_PIECE = re.compile(r"[.!?,;:]+\s+|\n+")
_NEGATION = re.compile(r"(?<!\w)(?:not|no|never|neither|nor|without|cannot)(?!\w)|n['\u2019]t(?!\w)", re.I)
_QUOTES = " \t\r\n\"'`*_\u201c\u201d\u2018\u2019"


def strip_reasoning(text: str) -> tuple[str, int]:
    """An answer without the reasoning that a thinking model writes before it.

    Removed are `<think> ... </think>` (also `<thinking>`, `<thought>`, `<reason>`, `<reasoning>`, `<seed:think>`),
    everything up to a closing tag whose opening one stood in the prompt, and everything from an opening tag that is
    never closed: the model was stopped before it answered, and the answer is empty.

    Returns:
        The answer, and how many characters were removed, tags included.
    """
    kept = re.sub(rf"<({_TAG})>.*?</\1>", "", text, flags=re.S | re.I)
    kept = re.sub(rf"^.*</{_TAG}>", "", kept, flags=re.S | re.I)
    kept = re.sub(rf"<{_TAG}>.*$", "", kept, flags=re.S | re.I)
    return kept.strip(), len(text) - len(kept)


def parse_choice(text: str, labels: Sequence[str], options: Sequence[str]) -> int | None:
    """The option that a free answer names, or None where it names none, or more than one.

    An option is named by its label, its text (letter case, quotes, emphasis and outer punctuation aside), or its label
    and its text together: `B`, `b.`, `(B)`, `**B**`, `Option B`, `B. a cat`, `a cat`. Read are, in this order:

    1. the whole answer;
    2. what is said to be the answer: `Answer: B`, `The correct answer is (B) a cat.`, `\\boxed{B}`; two that differ, or
       one that names no option (`the answer is not B`), give None;
    3. the first sentence, then the last one, if no other option is mentioned anywhere else.

    A sentence about an option (`The cat is grey` for `grey`) does not name it.

    Args:
        text: the answer, its reasoning removed.
        labels: what names each option; the texts themselves where no letters are listed.
        options: the texts, in the order shown. Where two are equal their text names neither.
    """
    text = re.sub(r"\\boxed\{([^{}]*)\}", r"Answer: \1", re.sub(r"<\|[^|<>]*\|>", " ", text)).strip()
    whole = _named(text, labels, options)
    if whole:
        return _only(whole)
    said = [match[1] for match in map(_EXPLICIT.search, text.splitlines()) if match]
    if said:
        named = [_named(tail, labels, options) or _named(_PIECE.split(tail)[0], labels, options) for tail in said]
        return _only(set.union(*named)) if all(named) else None
    pieces = [piece for piece in _PIECE.split(text) if piece.strip(_QUOTES)]
    for here, rest in ((pieces[:1], pieces[1:]), (pieces[-1:], pieces[:-1])):
        named = _named(here[0], labels, options) if here else set()
        if named:
            return _only(named | _mentioned("\n".join(rest), labels, options))
    return None


def match(answer: str, truth: str, trap: str, aliases: Sequence[str] = (), trap_aliases: Sequence[str] = ()) -> str:
    """The outcome of an open answer by its words alone: `vision`, `bias` or `other` (VF 3.3).

    Compared are words: letter case, punctuation and articles aside. An answer that equals the truth or one of its
    aliases is `vision`, the trap or one of its aliases `bias`. So is one that contains, word for word, phrases of one
    of the two alone; a phrase within a longer one of either side does not count. An answer with phrases of both or of
    neither, or one that says `not` outside the phrase, is `other`.

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
    found, left = _find(said, [*sides[0], *sides[1]])
    hit = [any(phrase in side for phrase in found) for side in sides]
    return "other" if all(hit) or not any(hit) or _NEGATION.search(left) else OUTCOMES[hit.index(True)]


# --- words ------------------------------------------------------------------------------------------------------------


def _plain(text: str) -> str:
    """Letter case, Unicode forms, spaces and outer punctuation taken off."""
    return re.sub(r"\s+", " ", unicodedata.normalize("NFKC", text).casefold()).strip(_QUOTES + ".,;:!?()[]")


def _words(text: str) -> str:
    """Words alone, separated by single spaces: no punctuation but within numbers, no articles."""
    text = unicodedata.normalize("NFKC", text).casefold().replace("\u2019", "'")
    text = re.sub(r"n't\b", " not", text.replace("can't", "cannot"))
    words = re.findall(r"\d+(?:[.,:]\d+)+|\w+", text.replace("'", ""))
    return " ".join(word for word in words if word not in ("a", "an", "the")) or " ".join(words)


def _find(text: str, phrases: Sequence[str]) -> tuple[set[str], str]:
    """Which phrases occur as whole words, longest first, and the text with them taken out."""
    found = set()
    for phrase in sorted(set(phrases) - {""}, key=len, reverse=True):
        text, n = re.subn(rf"(?<!\w){re.escape(phrase)}(?!\w)", " | ", text)
        if n:
            found.add(phrase)
    return found, text


# --- options ----------------------------------------------------------------------------------------------------------


def _only(named: set[int]) -> int | None:
    return next(iter(named)) if len(named) == 1 else None


def _named(text: str, labels: Sequence[str], options: Sequence[str]) -> set[int]:
    """The options that a text is the name of: of several where the text of one is the label of another."""
    text = text.strip(_QUOTES)
    plain = _plain(text)
    named = {index for index, option in enumerate(options) if plain and plain == _plain(option)}
    lead = _LEAD.match(text)
    body = text[lead.end() :] if lead else text
    for index, label in enumerate(labels):
        form = rf"[(\[{_QUOTES}]*{re.escape(label)}(?P<mark>[)\]{_QUOTES}.,;:\-\u2013\u2014]*)(?P<rest>.*)"
        if found := re.fullmatch(form, body, flags=re.S | re.I):
            rest = _plain(found["rest"])
            if not rest or found["mark"] and rest == _plain(options[index]):
                named.add(index)
    return named


def _mentioned(text: str, labels: Sequence[str], options: Sequence[str]) -> set[int]:
    """The options whose text or label occurs somewhere. An `A` before a word in small letters is an article."""
    texts = [_plain(option) for option in options]
    found, _ = _find(_plain(text), texts)
    said = {index for index, option in enumerate(texts) if option in found}
    letters = {
        i for i, label in enumerate(labels) if re.search(rf"(?<!\w){re.escape(label)}(?!\w|['\u2019]|\s+[a-z])", text)
    }
    return said | letters
