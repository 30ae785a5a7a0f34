"""What an answer says: the option it names, its reasoning taken off, and whether it saw the image or followed the text.

Needs no model and no torch; the judge that asks a language model imports its client on first use.
"""

from vfkit.judge.answers import OUTCOMES, match, parse_choice, strip_reasoning

__all__ = ["OUTCOMES", "Case", "JudgeError", "LLMJudge", "match", "parse_choice", "strip_reasoning"]


def __getattr__(name: str):
    if name in ("Case", "JudgeError", "LLMJudge"):
        from vfkit.judge import llm

        return getattr(llm, name)
    raise AttributeError(f"module 'vfkit.judge' has no attribute {name!r}")
