"""Reading of answers: the option named, reasoning removed, and whether the image or the text was followed.

Needs no model and no torch; the judge that asks a language model imports its client on first use.
"""

from collections.abc import Callable

from vfkit.judge.answers import OUTCOMES, match, parse_choice, strip_reasoning

__all__ = ["OUTCOMES", "Case", "JudgeError", "LLMJudge", "judge_by", "match", "parse_choice", "strip_reasoning"]


def judge_by(name: str, base_url: str, key_env: str) -> Callable[..., str]:
    """Return the judge of open answers by its name: `match` compares words, any other is a language model that is asked
    at `base_url` with the key in `key_env`; raises as `LLMJudge`."""
    if name == "match":
        return match
    from vfkit.judge.llm import LLMJudge

    return LLMJudge(name, base_url, key_env)


def __getattr__(name: str):
    if name in ("Case", "JudgeError", "LLMJudge"):
        from vfkit.judge import llm

        return getattr(llm, name)
    raise AttributeError(f"module 'vfkit.judge' has no attribute {name!r}")
