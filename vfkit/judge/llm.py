"""A language model as the judge of open answers (VF 3.3), behind any OpenAI-compatible endpoint."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from vfkit.chat import Chat, Endpoint, Messages
from vfkit.judge.answers import strip_reasoning

JUDGE = (
    "You compare an answer about an image with two reference statements. You do not see the image, and need not.\n"
    "Reply with one word:\n"
    "FIRST if the answer says the same as the first reference, in whatever words;\n"
    "SECOND if it says the same as the second;\n"
    "NEITHER if it says something else, both, nothing definite, or refuses."
)
VERDICTS = {"FIRST": "vision", "SECOND": "bias", "NEITHER": "other"}
CACHE = "outputs/answers/judge.jsonl"


@dataclass(frozen=True)
class Case:
    """One answer to judge, its reasoning removed; aliases are further words for truth and trap."""

    question: str
    answer: str
    truth: str
    trap: str
    aliases: tuple[str, ...] = ()
    trap_aliases: tuple[str, ...] = ()


class JudgeError(RuntimeError):
    """An answer that the judge gave no verdict on, and why."""


class LLMJudge:
    """A language model that judges answers as `vision`, `bias` or `other`; verdicts are kept on disk: equal
    cases are judged once.

    Args:
        model, base_url, key_env: the judge, where it is asked, and the variable that holds its key (VF: deepseek-chat).
        cache: file of verdicts; see `vfkit.chat.Chat`.
        fields: of `vfkit.chat.Endpoint`: timeout, retries, concurrency, per_minute, prices, request.

    Raises:
        ModelUnavailable: no key, or the client is not installed.
    """

    def __init__(
        self,
        model: str = "deepseek-chat",
        base_url: str = "https://api.deepseek.com/v1",
        key_env: str = "DEEPSEEK_API_KEY",
        cache: str | Path = CACHE,
        **fields,
    ):
        self.chat = Chat(Endpoint(model, base_url, key_env, **fields), cache)

    def __call__(
        self,
        answer: str,
        truth: str,
        trap: str,
        aliases: Sequence[str] = (),
        trap_aliases: Sequence[str] = (),
        question: str = "",
    ) -> str:
        """One verdict, called like `vfkit.judge.match`.

        Raises:
            JudgeError: the judge gave none.
            ModelUnavailable: the endpoint refuses the key or the model.
        """
        (verdict,) = self.many([Case(question, answer, truth, trap, tuple(aliases), tuple(trap_aliases))])
        if isinstance(verdict, Exception):
            raise verdict
        return verdict

    def many(self, cases: Sequence[Case]) -> list[str | JudgeError]:
        """Verdicts in the order asked. Any other reply than the three words is an error, never guessed; an empty answer
        is `other` without a request.

        Raises:
            ModelUnavailable: the endpoint refuses the key or the model, or does not answer at all.
        """
        asked = [case for case in cases if case.answer.strip()]
        replies = iter(self.chat.ask_many([conversation(case) for case in asked]))
        return [_verdict(next(replies)) if case.answer.strip() else "other" for case in cases]

    def estimate(self, cases: Sequence[Case]) -> dict[str, float]:
        """What `many` would cost; see `vfkit.chat.Chat.estimate`."""
        return self.chat.estimate([conversation(case) for case in cases if case.answer.strip()])


def conversation(case: Case) -> Messages:
    """What the judge is asked."""
    first, second = ("; or: ".join(phrases) for phrases in _references(case))
    lines = [f"Question: {case.question}"] if case.question else []
    lines += [f"First reference: {first}", f"Second reference: {second}", f"Answer: {case.answer.strip()}"]
    return [{"role": "system", "content": JUDGE}, {"role": "user", "content": "\n".join(lines)}]


def _references(case: Case) -> tuple[tuple[str, ...], ...]:
    return (case.truth, *case.aliases), (case.trap, *case.trap_aliases)


def _verdict(reply) -> str | JudgeError:
    if isinstance(reply, Exception):
        return JudgeError(str(reply))
    word = strip_reasoning(reply.text)[0].strip(" .*\"'`\n").upper()
    return VERDICTS.get(word) or JudgeError(f"the judge said {reply.text[:200]!r}, which is no verdict")
