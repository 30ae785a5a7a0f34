"""Reading of answers: the option named, reasoning removed, and whether the image or the text was followed.

Needs no model and no torch; the judge that asks a language model imports its client on first use.
"""

from vfkit.judge.answers import OUTCOMES, match, parse_choice, strip_reasoning

__all__ = ["OUTCOMES", "Case", "JudgeError", "LLMJudge", "match", "parse_choice", "strip_reasoning"]


def __getattr__(name: str):
    if name in ("Case", "JudgeError", "LLMJudge"):
        from vfkit.judge import llm

        return getattr(llm, name)
    raise AttributeError(f"module 'vfkit.judge' has no attribute {name!r}")
