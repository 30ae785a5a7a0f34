"""Chat completions from any OpenAI-compatible endpoint: every reply is stored as it arrives and paid for once."""

import hashlib
import json
import os
import threading
import time
import warnings
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from filelock import FileLock

from vfkit.hub import ModelUnavailable

GIVE_UP = 8
"""So many requests in a row without an answer end the run: the endpoint is down, not the requests at fault."""

MALFORMED = 2  # times that a request is repeated after a reply that is no chat completion
IMAGE_TOKENS = 1000  # of one image, roughly: providers count between 250 and 1,600
Messages = list[dict[str, Any]]


class ChatError(RuntimeError):
    """A request without a usable reply; the message says why and holds no key."""


@dataclass(frozen=True)
class Endpoint:
    """Address and request settings of a hosted model.

    Args:
        model: the provider's id of the model.
        base_url: up to and including the version, as in `https://api.openai.com/v1`.
        key_env: the environment variable that holds the key; empty for a server without keys.
        request: fields of every request besides model and messages. A thinking model needs a high limit of tokens.
        timeout: seconds for one reply.
        retries: how often a request is repeated after a time-out, a lost connection, a 408, 409, 429 or 5xx: after the
            time the server asks for, else 0.5 s, doubled each time up to 8 s. After a malformed reply, which may have
            been paid for, twice at most.
        concurrency: requests under way at once.
        per_minute: most requests started in a minute; None does not limit them.
        prices: US dollars for a million tokens read, and written; only for the estimate.
    """

    model: str
    base_url: str
    key_env: str = ""
    request: dict[str, Any] = field(default_factory=lambda: {"temperature": 0, "max_tokens": 256})
    timeout: float = 60.0
    retries: int = 5
    concurrency: int = 4
    per_minute: float | None = None
    prices: tuple[float, float] | None = None


@dataclass(frozen=True)
class Reply:
    """A reply: its text, the `reasoning` that the provider returns apart from it, and `usage` in tokens."""

    text: str
    reasoning: str = ""
    finish: str = ""
    usage: dict[str, Any] = field(default_factory=dict)


class Chat:
    """Client of one endpoint that stores every reply, one JSON line each, by the content of its request.

    The key of a request covers the endpoint's URL, the model, the request's fields and the messages with their images:
    an equal request of any study is answered from the file. Only replies under way are lost when the process is
    killed. `counters` counts `calls` (replies paid for) and `stored` (replies found in the file).

    Args:
        store: the file.
        asks: False for one that only makes estimates: it needs neither key nor client.

    Raises:
        ModelUnavailable: the client is not installed, or the environment holds no key.
    """

    def __init__(self, endpoint: Endpoint, store: str | Path, asks: bool = True):
        self.endpoint = endpoint
        self.counters: Counter = Counter()
        self._store = _Store(Path(store))
        self._pace, self._next = threading.Lock(), 0.0
        self._in_a_row = 0
        if not asks:
            return
        self._key = os.environ.get(endpoint.key_env, "").strip() if endpoint.key_env else "none"
        if not self._key:
            raise ModelUnavailable(
                f"{endpoint.model} is hosted and wants a key: put it into the environment variable {endpoint.key_env}"
            )
        try:
            from openai import OpenAI
        except ModuleNotFoundError:
            raise ModelUnavailable(f"{endpoint.model} is hosted: pip install 'vfkit[api]' brings its client") from None
        self._client = OpenAI(
            api_key=self._key, base_url=endpoint.base_url, timeout=endpoint.timeout, max_retries=endpoint.retries
        )

    def ask(self, messages: Messages) -> Reply:
        """Ask once; returns the reply or raises the error."""
        (reply,) = self.ask_many([messages])
        if isinstance(reply, Exception):
            raise reply
        return reply

    def ask_many(self, requests: Sequence[Messages]) -> list[Reply | ChatError]:
        """Return replies in the order of the requests; equal requests are made once. A failed request gives its error.

        Raises:
            ModelUnavailable: the endpoint refuses the key or does not know the model, or `GIVE_UP` requests in a row
                got no answer. Replies that arrived or were under way are kept.
        """
        keys = [self.request_key(messages) for messages in requests]
        fresh = {key: messages for key, messages in zip(keys, requests, strict=True) if key not in self._store}
        self.counters["stored"] += len(set(keys)) - len(fresh)
        failed: dict[str, ChatError] = {}
        with ThreadPoolExecutor(self.endpoint.concurrency) as pool:
            asked = {pool.submit(self._ask, key, messages): key for key, messages in fresh.items()}
            try:
                for future in as_completed(asked):
                    error = future.exception()
                    self._count(error)
                    self.counters["calls"] += error is None
                    if isinstance(error, ChatError):
                        failed[asked[future]] = error
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
        return [self._store[key] if key in self._store else failed[key] for key in keys]

    def estimate(self, requests: Sequence[Messages]) -> dict[str, float]:
        """Estimate the cost of `ask_many`: requests, those `stored` already, `calls` to be paid for, and of these about
        the tokens read (a token per four characters, 1,000 an image), the most tokens written, and the price in US
        dollars, NaN if the endpoint states no prices."""
        fresh = {self.request_key(messages): messages for messages in requests}
        stored = sum(key in self._store for key in fresh)
        texts = [messages for key, messages in fresh.items() if key not in self._store]
        read, written = sum(map(tokens_of, texts)), written_at_most(self.endpoint) * len(texts)
        counts = {"requests": len(requests), "stored": stored, "calls": len(texts)}
        cost = price(self.endpoint, read, written)
        return counts | {"tokens_read": read, "tokens_written": written, "dollars": round(cost, 4)}

    def request_key(self, messages: Messages) -> str:
        """Digest of everything that a reply depends on, without the account's key."""
        url = urlsplit(self.endpoint.base_url)
        where = f"{url.scheme}://{url.hostname}:{url.port}{url.path.rstrip('/')}"
        what = [where, self.endpoint.model, self.endpoint.request, messages]
        return hashlib.sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()

    def _ask(self, key: str, messages: Messages) -> None:
        """Ask and store the reply at once; runs in a thread."""
        for attempt in range(min(self.endpoint.retries, MALFORMED) + 1):
            if attempt:
                time.sleep(2.0 ** (attempt - 2))
            self._wait()
            reply, error = self._complete(messages)
            if not isinstance(error, _Malformed):
                break
        if reply is None:
            raise error or ChatError("no reply")
        self._store.add(key, reply)

    def _complete(self, messages: Messages) -> tuple[Reply | None, Exception | None]:
        """Return the reply or an error: not raised, so that it is not chained to one that holds the request's
        headers."""
        import openai

        kind: type[Exception]
        what: Exception
        asked: dict[str, Any] = {"model": self.endpoint.model, "messages": messages}
        asked["extra_body"] = self.endpoint.request
        try:
            return _reply(self._client.chat.completions.create(**asked), self.redact), None
        except (openai.AuthenticationError, openai.PermissionDeniedError, openai.NotFoundError) as error:
            kind, what = ModelUnavailable, error
        except (openai.APIConnectionError, openai.RateLimitError, openai.InternalServerError) as error:
            kind, what = _NoAnswer, error
        except openai.APIStatusError as error:
            kind, what = ChatError, error
        except Exception as error:  # what a broken reply sets off may come from anywhere in the client
            kind, what = _Malformed, error
        said = " ".join(self.redact(f"{type(what).__name__}: {what}").split())[:500]
        return None, kind(f"{self.endpoint.model} at {urlsplit(self.endpoint.base_url).hostname}: {said}")

    def _count(self, error: BaseException | None) -> None:
        """Count errors in a row; raise those that must end the run."""
        self._in_a_row = self._in_a_row + 1 if isinstance(error, _NoAnswer) else 0
        if self._in_a_row >= GIVE_UP:
            raise ModelUnavailable(f"{GIVE_UP} requests in a row got no answer; run again to go on. The last: {error}")
        if error is not None and not isinstance(error, ChatError):
            raise error

    def _wait(self) -> None:
        """Wait until the next request may start."""
        if not self.endpoint.per_minute:
            return
        with self._pace:
            start = max(self._next, time.monotonic())
            self._next = start + 60 / self.endpoint.per_minute
        time.sleep(max(0.0, start - time.monotonic()))

    def redact(self, text: str) -> str:
        """Remove the key from a text, should a server have repeated it. A placeholder such as `EMPTY` stays."""
        return text.replace(self._key, "***") if len(self._key) >= 8 else text


class _NoAnswer(ChatError):
    """The endpoint is not reachable or does not answer now."""


class _Malformed(_NoAnswer):
    """A reply that is not a chat completion."""


def _reply(completion: Any, redact) -> Reply:
    choice = completion.choices[0]
    text, reasoning = choice.message.content, getattr(choice.message, "reasoning_content", None)
    if not isinstance(text, str | None):
        raise TypeError(f"the reply's content is {type(text).__name__}, not text")
    usage = completion.usage.model_dump(exclude_none=True) if completion.usage else {}
    return Reply(redact(text or ""), redact(reasoning or ""), choice.finish_reason or "", usage)


def written_at_most(endpoint: Endpoint) -> int:
    """Most tokens of one reply; 0 where the request states no limit."""
    limits = ("max_tokens", "max_completion_tokens")
    return next((value for name, value in endpoint.request.items() if name in limits), 0)


def price(endpoint: Endpoint, read: int, written: int) -> float:
    """US dollars for tokens read and written; NaN where the endpoint states no prices."""
    prices = endpoint.prices or (float("nan"), float("nan"))
    return (read * prices[0] + written * prices[1]) / 1e6


def tokens_of(messages: Messages) -> int:
    """Estimate the tokens that are read of messages: one for four characters, 1,000 an image."""
    total = 0
    for message in messages:
        content = message["content"]
        for part in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            total += len(part["text"]) // 4 + 4 if part["type"] == "text" else IMAGE_TOKENS
    return total


class _Store:
    """Replies by key, in a file that is only appended to. A line cut off by a kill was never used and is skipped."""

    def __init__(self, path: Path):
        self.path, self._lock = path, threading.Lock()
        self._replies: dict[str, Reply] = {}
        broken = 0
        for line in path.read_bytes().splitlines() if path.exists() else ():
            try:
                row = json.loads(line)
                self._replies[row["key"]] = Reply(**row["reply"])
            except (ValueError, TypeError, KeyError):
                broken += bool(line.strip())
        if broken:
            warnings.warn(f"{broken} broken lines of {path} are passed over", stacklevel=3)

    def __contains__(self, key: str) -> bool:
        return key in self._replies

    def __getitem__(self, key: str) -> Reply:
        return self._replies[key]

    def add(self, key: str, reply: Reply) -> None:
        line = json.dumps({"key": key, "reply": asdict(reply)}, ensure_ascii=False)
        with self._lock:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(f"{self.path}.lock"), open(self.path, "ab+") as file:  # another process may share the file
                end = file.seek(0, os.SEEK_END)
                file.seek(max(0, end - 1))
                torn = end and file.read(1) != b"\n"
                file.write(b"\n" * bool(torn) + line.encode() + b"\n")
                file.flush()
                os.fsync(file.fileno())
            self._replies[key] = reply
