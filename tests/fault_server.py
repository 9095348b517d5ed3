"""A loopback server that speaks the OpenAI protocol and fails on purpose, in a way that a seed decides.

On every request each fault is drawn by itself at `rate`; if several are, one of them happens. What is answered, and
which faults a request meets on its way, depend on the request alone, not on the order of arrival. Log-probabilities
are those of a character model in closed form: after the character p, c has probability (1 + (c + p) mod 128) / 8256,
where 8256 is the sum of 1 … 128.
"""

from __future__ import annotations

import collections
import contextlib
import hashlib
import json
import math
import random
import re
import socket
import struct
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

FAULTS = ("429", "500", "timeout", "reset", "truncated", "empty choices", "null")


def log_p(text: str, before: str) -> float:
    """The character model's log-probability of a text after another that is not empty."""
    pairs = zip((before + text)[len(before) - 1 :], text, strict=False)
    return sum(math.log((1 + (ord(c) + ord(p)) % 128) / 8256) for p, c in pairs)


def digest(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def oracle(prompt: str, seed: int = 0) -> str:
    """The answer to an equations question: follow the variable's definitions; `?` to all else."""
    values = dict(re.findall(r"^(\w) = (\w+)$", prompt, re.MULTILINE))
    asked = re.findall(r"value of (\w)\?|print\((\w)\)", prompt)
    found = "".join(asked[-1]) if asked else "?"
    while found in values:
        found = values[found]
    return found


def half_right(prompt: str, seed: int = 0) -> str:
    """The right digit to about half of the questions, the next one to the others; always the same to each."""
    right = oracle(prompt)
    return right if digest(prompt) % 2 or not right.isdigit() else str((int(right) + 1) % 4)


def wavering(prompt: str, seed: int) -> str:
    """Depends on the seed: one time in five a sentence, else a digit that is right two times in three."""
    draw = digest(f"{prompt}/{seed}")
    return f"It is {draw % 4}, I think." if draw % 5 == 0 else (oracle if draw // 5 % 3 else half_right)(prompt)


class FaultServer(ThreadingHTTPServer):
    """The server. `with FaultServer() as server: server.url …`

    Attributes:
        requests: how many POSTs came in.
        injected: how often each fault happened.
        answered: how often each request (its body) was answered in full.
    """

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, *, answer=oracle, rate=0.0, seed=0, mode="", tokens=1, hold=0.0, latency=0.0, port=0):
        super().__init__(("127.0.0.1", port), Handler)
        self.answer, self.rate, self.seed, self.mode = answer, rate, seed, mode
        self.width, self.hold, self.latency = tokens, hold, latency
        self.requests, self.injected, self.answered = 0, collections.Counter(), collections.Counter()
        self.met, self.headers, self.lock = collections.Counter(), [], threading.Lock()
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()

    def handle_error(self, request, client_address):
        """A client that hung up is no news."""

    def fault(self, body: str) -> str | None:
        """What befalls this request, at this of its tries."""
        with self.lock:
            self.requests += 1
            self.met[body] += 1
            draw = random.Random(f"{self.seed}/{self.met[body]}/{body}")
            drawn = [fault for fault in FAULTS if draw.random() < self.rate]
            chosen = draw.choice(drawn) if drawn else None
            self.injected[chosen] += chosen is not None
            self.answered[body] += chosen is None
            return chosen

    def tokens(self, text: str) -> list[str]:
        return [text[i : i + self.width] for i in range(0, len(text), self.width)]

    def log_probs(self, text: str) -> list[float | None]:
        starts = range(0, len(text), self.width)
        return [log_p(text[i : i + self.width], text[:i]) if i else None for i in starts]

    def top(self, text: str) -> dict[str, float]:
        """The twenty likeliest next characters."""
        values = {chr(c): log_p(chr(c), text) for c in range(128)}
        return dict(sorted(values.items(), key=lambda pair: -pair[1])[:20])


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        """Silence."""

    def send(self, value, status=200, headers=(), cut=None, promise=None):
        data = json.dumps(value).encode()[:cut]
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(promise or len(data)))
        for name, content in headers:
            self.send_header(name, content)
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        if self.path == "/v1/models" and self.server.mode != "no list":
            self.send({"object": "list", "data": [{"id": "loopback", "object": "model"}]})
        else:
            self.send({"error": {"message": "no such path"}}, 404)

    def do_POST(self):
        raw = self.rfile.read(int(self.headers["Content-Length"])).decode()
        server, body = self.server, json.loads(raw)
        server.headers.append(dict(self.headers))
        time.sleep(server.latency)
        if server.mode in ("401", "403", "404", "400"):
            told = f"refused; you sent {self.headers.get('Authorization')}"
            return self.send({"error": {"message": told}}, int(server.mode))
        if server.mode == "wants max_completion_tokens" and "max_tokens" in body:
            return self.send({"error": {"message": "Use 'max_completion_tokens' instead of 'max_tokens'."}}, 400)
        if server.mode == "hang":
            return time.sleep(server.hold)
        if server.mode == "always null":
            return self.send(self.reply(body, None))
        return self.befall(server.fault(raw), body)

    def befall(self, fault, body):
        good = self.reply(body, self.text(body))
        if fault is None:
            self.send(good)
        elif fault == "429":
            self.send({"error": {"message": "slow down"}}, 429, [("Retry-After", "0.02")])
        elif fault == "500":
            self.send({"error": {"message": "overloaded"}}, 500)
        elif fault == "timeout":
            time.sleep(self.server.hold)
            self.hang_up()
        elif fault == "reset":
            self.hang_up()
        elif fault == "truncated":  # the JSON ends early; or the connection does, before the length that was promised
            length = len(json.dumps(good))
            self.close_connection = digest(str(body)) % 2 == 0
            self.send(good, cut=length // 2, promise=length if self.close_connection else None)
        elif fault == "empty choices":
            self.send({**good, "choices": []})
        else:
            self.send(self.reply(body, None))

    def hang_up(self):
        with contextlib.suppress(OSError):  # no goodbye: the other side sees a reset
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        self.connection.close()

    def text(self, body):
        prompt = body["messages"][-1]["content"] if "messages" in body else body["prompt"]
        return self.server.answer(prompt, body.get("seed", 0))

    def reply(self, body, text):
        """The answer in the form of the path."""
        choice = {"index": 0, "finish_reason": "stop"}
        if "messages" in body:
            choice["message"] = {"role": "assistant", "content": text}
            if body.get("logprobs"):
                top = self.server.top(body["messages"][-1]["content"])
                listed = [{"token": token, "logprob": value} for token, value in top.items()]
                choice["logprobs"] = {"content": [{**listed[0], "top_logprobs": listed}]}
        else:
            choice["text"] = text
            if body.get("logprobs"):
                choice["logprobs"] = self.logprobs(body)
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        return {
            "id": "x",
            "object": "completion",
            "created": 0,
            "model": "loopback",
            "choices": [choice],
            "usage": usage,
        }

    def logprobs(self, body):
        server, prompt = self.server, body["prompt"]
        if server.mode == "logprobs null":
            return None
        if not body.get("echo") or server.mode == "ignores echo":
            return {"tokens": ["?"], "token_logprobs": [log_p("?", prompt)], "top_logprobs": [server.top(prompt)]}
        tokens, values = server.tokens(prompt), server.log_probs(prompt)
        if server.mode == "same everywhere":
            values = [-1.0] * len(tokens)
        if server.mode == "infinite":
            values[-1] = -math.inf
        if server.mode == "other tokens":
            tokens = [token.upper() for token in tokens]
        if server.mode == "begins":
            tokens, values = ["<s>", *tokens], [None, log_p(tokens[0], "\n"), *values[1:]]
        return {"tokens": [*tokens, "?"], "token_logprobs": [*values, log_p("?", prompt)]}
