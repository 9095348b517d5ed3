"""HTTP requests to a model server, retried after faults for a bounded time.

Typical faults are statuses 429 and 5xx, time-outs, reset connections, truncated JSON, an empty list of choices, and
`content: null`. None of them counts as an answer. The client is httpx2, Pydantic's continuation of httpx, which is no
longer maintained; openai and huggingface_hub depend on it already. The openai package retries by its own rules, which
consider status codes but not answers without content. So we send plain JSON and retry ourselves.
"""

from __future__ import annotations

import asyncio
import email.utils
import logging
import random
import threading
import time
import zlib
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from hopscope.core.settings import BadInput, Settings, setting
from hopscope.core.strangers import TooMuch, json_of, visible
from hopscope.core.wording import duration
from hopscope.language.backends.base import Unreachable
from hopscope.language.keys import Key

if TYPE_CHECKING:
    import httpx2

T = TypeVar("T")

log = logging.getLogger("hopscope")

#: The longest answer in bytes, compressed or not.
LONGEST = 8 << 20

#: The most JSON values in an answer: Python needs sixty bytes for the three bytes `[],`.
MOST = 1_000_000

#: The answer of a server that has no such path, as opposed to the answer `null`.
MISSING = object()

#: Seconds without any answer after which the user is told about the wait.
TELL = 3.0

#: Statuses for which a retry is pointless, and what the user can do.
FINAL = {
    401: "set HOPSCOPE_API_KEY to a valid key",
    403: "set HOPSCOPE_API_KEY to a key that may use this model",
    404: "check the address, which often ends in /v1, and the model's name",
}

#: Complete responses of status 200 other than JSON, by media type.
OTHERS = {"text/event-stream": "a stream, though none was asked for", "text/html": "a page of HTML"}

#: Statuses below 500 after which the same request may succeed.
PASSING = (408, 409, 425, 429)


class NoContent(Unreachable):
    """The server answers without text, as reasoning models do if the token limit is reached before the answer."""


class Refused(BadInput):
    """The server refuses the request in its present form.

    Attributes:
        answer: the text of its response, which may name the field that it refuses.
    """

    def __init__(self, sentence: str, answer: str):
        super().__init__(sentence)
        self.answer = answer


class Fault(Exception):
    """One request failed in a way that may pass.

    Attributes:
        after: seconds that the server asks us to wait before the next request.
        empty: whether the response was well-formed but had `content: null`.
    """

    def __init__(self, reason: str, after: float = 0.0, empty: bool = False):
        super().__init__(reason)
        self.after = after
        self.empty = empty


class WrongForm(Exception):
    """A complete response of status 200 in an unknown format, for which a retry would not help."""


@dataclass(frozen=True)
class Patience(Settings):
    """How long requests to a server are retried.

    An endpoint that answers nothing at all is given up after at most `silence + timeout` seconds, which is five minutes
    by default. A single request that fails while others succeed is given up after `tries` failures.
    """

    timeout: float = setting(60.0, "seconds that one request may take", low=0.01)
    silence: float = setting(240.0, "seconds without any answer after which the endpoint is given up", low=0)
    tries: int = setting(50, "failures after which one request is given up", low=1)
    empty: int = setting(8, "answers without content after which one request is given up", low=1)
    pause: float = setting(0.5, "seconds before the second try; doubled for each further one", low=0)
    longest: float = setting(8.0, "the longest pause that we choose ourselves, in seconds", low=0)


class Server:
    """A server that takes and returns JSON. Requests run concurrently; results are in the order of requests."""

    def __init__(self, url: str, key: str | None, *, in_flight: int, patience: Patience):
        self.url = checked(url)
        self.patience = patience
        self.in_flight = in_flight
        self._key = Key(key)
        self._jitter = random.Random(0)
        self._answered = 0.0
        self._dead = False
        self._told = False
        self._client = client(in_flight)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="hopscope-server", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Close the connections."""
        if not self._loop.is_closed():
            self._run(self._client.aclose())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def get(self, path: str) -> Any:
        """The JSON at a path, with retries; None if the server has no such path. Raises Unreachable or BadInput."""
        return self._ask([("GET", path, None)], lambda _, answer: answer, missing=True)[0]

    def post(self, posts: Sequence[tuple[str, Mapping[str, Any]]], read: Callable[[Any, Any], T]) -> list[T]:
        """Send each (path, body), and return `read(body, answer)` for each, in order.

        A Fault raised by `read` is retried like any other.

        Raises:
            Unreachable: the server did not answer within the allowed retries.
            BadInput: the server refuses a request.
        """
        return self._ask([("POST", path, body) for path, body in posts], read)

    def _ask(
        self, requests: Sequence[tuple[str, str, Any]], read: Callable[[Any, Any], T], missing: bool = False
    ) -> list[T]:
        self._answered, self._told = time.monotonic(), False
        return self._run(self._all([(*request, read, missing) for request in requests]))

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on our own thread, so that it works in a notebook and can be interrupted at once."""
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    async def _all(self, requests: Sequence[tuple[Any, ...]]) -> list[Any]:
        slots = asyncio.Semaphore(self.in_flight)

        async def one(request: tuple[Any, ...]) -> Any:
            async with slots:
                return await self._patiently(*request)

        try:
            async with asyncio.TaskGroup() as group:  # the first request that is given up stops the others
                tasks = [group.create_task(one(request)) for request in requests]
        except BaseExceptionGroup as failed:
            raise failed.exceptions[0] from None
        return [task.result() for task in tasks]

    async def _patiently(
        self, method: str, path: str, body: Any, read: Callable[[Any, Any], T], missing: bool
    ) -> T | None:
        """One request, until it is answered or given up."""
        failures = empty = 0
        while True:
            try:
                answer = await self._once(method, path, body, missing)
                result = None if answer is MISSING else read(body, answer)
                self._answered, self._dead = time.monotonic(), False
                return result
            except WrongForm as form:
                raise Unreachable(
                    f"{self.url} answers in another form than an OpenAI-compatible endpoint does: {form}; check the "
                    "address, which often ends in /v1"
                ) from form
            except Fault as fault:
                failures, empty = failures + 1, empty + fault.empty
                await asyncio.sleep(self._delay(fault, failures, empty))

    def _delay(self, fault: Fault, failures: int, empty: int) -> float:
        """Seconds to wait before the next try. Raises Unreachable if the request is given up."""
        rules = self.patience
        chosen = min(rules.longest, rules.pause * 2.0 ** min(failures - 1, 30)) * self._jitter.uniform(0.5, 1.0)
        delay = max(chosen, fault.after)
        silent = time.monotonic() - self._answered
        if empty >= rules.empty:
            raise NoContent(
                f"{self.url} answered {empty} times without content ({fault}); a model that reasons first needs more "
                f"tokens: raise --max-tokens"
            )
        if failures >= rules.tries:
            raise Unreachable(f"{self.url} failed {failures} times on one request, last with: {fault}")
        if self._dead or silent + delay > rules.silence:
            self._dead = True  # until it answers, further requests are tried only once
            wait = f" and wants to be left alone for {duration(fault.after)}" if fault.after > chosen else ""
            raise Unreachable(f"{self.url} has answered nothing for {duration(silent)}{wait} (last: {fault})")
        if silent > TELL and not self._told:
            self._told = True
            log.warning("%s: %s; asking again for up to %.0f s", self.url, fault, rules.silence - silent)
        return delay

    async def _once(self, method: str, path: str, body: Any, missing: bool) -> Any:
        """One try. Raises Fault if a retry may succeed, otherwise Unreachable or BadInput."""
        import httpx2

        headers = {"Accept-Encoding": "identity"} | self._key.headers
        try:
            async with (
                asyncio.timeout(self.patience.timeout),  # for the whole answer, even if it arrives in small pieces
                self._client.stream(method, self.url + path, json=body, headers=headers) as answer,
            ):
                text = await self._text(answer)
        except TimeoutError as error:
            raise Fault(f"no answer within {self.patience.timeout:g} s") from error
        except httpx2.HTTPError as error:
            raise Fault(f"{type(error).__name__} {self._shown(str(error))}".strip()) from error
        if missing and answer.status_code in (404, 405, 501):
            return MISSING
        if answer.status_code != 200:
            raise self._refusal(answer.status_code, answer.headers, text)
        try:
            value = self._key.hidden(json_of(text, infinities=True, most=MOST))
        except TooMuch as error:
            raise Unreachable(f"{self.url} sent an answer of more than {MOST:,} values; no model sends that") from error
        except ValueError as error:
            if kind := OTHERS.get(answer.headers.get("content-type", "").partition(";")[0].strip().lower()):
                raise WrongForm(kind) from error
            raise Fault("an answer that is no JSON, or is cut short") from error
        if (status := status_within(value)) is not None:
            raise self._refusal(status, answer.headers, text)
        return value

    async def _text(self, answer: httpx2.Response) -> str:
        """The decompressed body as text. Raises Unreachable if it is too long, or neither gzip nor deflate."""
        packed = bytearray()
        async for piece in answer.aiter_raw():
            packed += piece
            if len(packed) > LONGEST:
                raise self._too_long()
        encoding = answer.headers.get("content-encoding", "identity").strip().lower()
        if encoding not in ("identity", "", "gzip", "deflate"):
            raise Unreachable(
                f"{self.url} sent an answer encoded as {visible(encoding[:40])}, though no encoding was requested"
            )
        try:
            data = packed if encoding in ("identity", "") else zlib.decompressobj(47).decompress(packed, LONGEST + 1)
        except zlib.error as error:
            raise Fault("an answer that cannot be unpacked") from error
        if len(data) > LONGEST:
            raise self._too_long()
        return data.decode("utf-8", "replace")

    def _too_long(self) -> Unreachable:
        return Unreachable(f"{self.url} sent an answer longer than {LONGEST >> 20} MiB; no model sends that")

    def _refusal(self, status: int, headers: Mapping[str, str], text: str) -> Exception:
        """The exception for a status other than 200."""
        said = self._shown(complaint(text))
        sentence = f"{self.url} answered {status}{f' ({said})' if said else ''}"
        if status in FINAL:
            return Unreachable(f"{sentence}; {FINAL[status]}")
        if status == 429 and "insufficient_quota" in text:
            return Unreachable(f"{sentence}; the account's quota is used up: extend it")
        if status in PASSING or (status >= 500 and status != 501):
            return Fault(f"{status} {said}".strip(), after=wanted_pause(headers.get("retry-after")))
        if 300 <= status < 400:
            return Unreachable(f"{sentence}, a redirect, which is not followed with a key; give the final address")
        return Refused(f"{sentence}; if it refuses a field, --omit leaves that out", self._key.hidden(text))

    def _shown(self, text: str) -> str:
        """A server's message for one of our sentences: without the key, on one line, at most 200 characters."""
        return visible(" ".join(self._key.hidden_in_words(text).split()))[:200]


def client(in_flight: int) -> httpx2.AsyncClient:
    """An HTTP client with so many connections, which follows no redirects. Raises BadInput if httpx2 is missing."""
    try:
        import httpx2
    except ImportError as error:
        raise BadInput("endpoints need httpx2; install it with: pip install 'hopscope[language]'") from error
    limits = httpx2.Limits(max_connections=in_flight, max_keepalive_connections=in_flight)
    return httpx2.AsyncClient(timeout=None, limits=limits, follow_redirects=False)


def checked(url: str) -> str:
    """An endpoint's address without a final slash. Raises BadInput if it is no address, or holds secrets."""
    try:
        parts = urlsplit(url)
        known = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number, or an unmatched bracket
        known = False
    if not known:
        raise BadInput(f"an endpoint's address looks like http://127.0.0.1:8080/v1; got {url!r}")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise BadInput("an endpoint's address must hold no key, user, query or fragment; put keys in HOPSCOPE_API_KEY")
    return url.rstrip("/")


def wanted_pause(header: str | None) -> float:
    """Seconds that a Retry-After header asks for; it has seconds or a date (RFC 9110, 10.2.3)."""
    if not header:
        return 0.0
    try:
        return max(0.0, float(header))
    except ValueError:
        try:
            return max(0.0, email.utils.parsedate_to_datetime(header).timestamp() - time.time())
        except ValueError:
            return 0.0


def status_within(answer: Any) -> int | None:
    """The error status inside an answer of status 200, which gateways send if the server behind them fails.

    None if there is no error; 400 for an error without a status.
    """
    error = answer.get("error") if isinstance(answer, Mapping) and not answer.get("choices") else None
    if not error:
        return None
    code = error.get("code") if isinstance(error, Mapping) else None
    return code if isinstance(code, int) and 400 <= code < 600 else 400


def complaint(text: str) -> str:
    """The message in a server's error; empty for a page of HTML."""
    try:
        error = json_of(text, most=MOST)["error"]
        said = error["message"] if isinstance(error, dict) else error
    except (ValueError, KeyError, TypeError):
        said = "" if text.lstrip().startswith("<") else text
    return str(said)
