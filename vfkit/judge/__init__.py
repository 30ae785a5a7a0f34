"""What an answer says: the option it names, its reasoning taken off, and whether it saw the image or followed the text.

Needs no model and no torch; the judge that asks a language model imports its client on first use.
"""

from vfkit.judge.answers import OUTCOMES, match, parse_choice, strip_reasoning

__all__ = ["OUTCOMES", "match", "parse_choice", "strip_reasoning"]
