"""A loopback server that answers every equation rightly, with one habit of public servers at a time.

What it says, refuses or wraps its answers in is that of servers that people reported (docs/reported_problems.md).
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.fault_server import oracle

#: How an answer is said.
WORDS = {
    "plain": "{}",
    "think": "<think>\nLet me see. It could be 0 or 1, but I find {}. Not 2, not 3.\n</think>\n\n{}",
    "think in brackets": "[THINK]It is 3 or 1.[/THINK]{}",
    "think from the prompt on": "It is 3, or 1.\n</think>\n\n{}",
    "bold": "**{}**",
    "invisible": "\u00a0{}\u200b",
    "explained": "{}\n\nExplanation: there are 4 lines, and 1 of them names it.",
    "the": "The answer is {}.",
    "crlf": "{}\r\n",
    "eq": "x = {}",
    "quote": '"{}"',
    "turn end": "{}<|im_end|>\n<|im_start|>user\nAnd 3?",
    "end token": "{}</s>",
    "unclosed": "<think>\nIt could be {}, or 1",
    "cut": "The value could be {} or 1",
    "cut in thoughts": "<think>\nIt could be {}, or 1",
}
#: Fields that are refused, by what a server says of them.
REFUSED = {
    "no seed": ("seed", 400, [{"error": {"code": 400, "message": 'Invalid payload. Unknown name "seed".'}}]),
    "no seed, 422": ("seed", 422, {"detail": [{"type": "extra_forbidden", "loc": ["body", "seed"], "msg": "Extra"}]}),
    "no temperature": ("temperature", 400, {"error": {"message": "'temperature' does not support 0.0"}}),
    "no stop": ("stop", 400, {"error": {"message": "Unsupported parameter: 'stop' is not supported with this model."}}),
    "no max_tokens": ("max_tokens", 400, {"error": {"message": "No 'max_tokens'. Use 'max_completion_tokens'."}}),
    "no temperature, in a 200": ("temperature", 200, {"error": {"message": "no temperature", "code": 400}}),
}  # fmt: skip
#: One that is refused, but not named.
UNNAMED = {"no seed, in its own words": ("seed", 400, {"error": {"message": "Unsupported parameter."}})}
FORMS = ("parts", "stream", "page", "number", "thoughts alone")
#: Every habit.
HABITS = (*WORDS, *REFUSED, *UNNAMED, *FORMS)


def tokens(text: str) -> list[str]:
    """Words, digits and blanks."""
    return re.findall(r"[A-Za-z]+|\d|\s|[^\w\s]|_", text)


class HabitsServer(ThreadingHTTPServer):
    """`with HabitsServer("think") as server: server.url`; it answers equations, or by `answer`, from text to text."""

    daemon_threads = True

    def __init__(self, habit: str, answer: Callable[[str], str] = oracle):
        super().__init__(("127.0.0.1", 0), Handler)
        self.habit, self.answer, self.requests = habit, answer, 0
        self.url = f"http://127.0.0.1:{self.server_address[1]}/v1"
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        """Silence."""

    def do_GET(self):
        self.send(200, {"object": "list", "data": [{"id": "habits"}]})

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        habit, refused = self.server.habit, REFUSED | UNNAMED
        self.server.requests += 1
        text = body["messages"][-1]["content"] if "messages" in body else body["prompt"]
        if habit in refused and refused[habit][0] in body:
            self.send(*refused[habit][1:])
        elif body.get("echo"):
            choice = {"index": 0, "text": text + "\n", "logprobs": echoed(text), "finish_reason": "length"}
            self.send(200, {"choices": [choice]})
        elif habit == "stream":
            self.send(200, b'data: {"choices": [{"delta": {"content": "1"}}]}\n\n', "text/event-stream")
        elif habit == "page":
            self.send(200, b"<html>Welcome</html>", "text/html; charset=utf-8")
        else:
            self.send(
                200, self.reply(WORDS.get(habit, "{}").replace("{}", self.server.answer(text)), "messages" in body)
            )

    def reply(self, said, chat):
        """The answer in the form of the path."""
        habit, content = self.server.habit, said
        if habit == "parts":
            content = [{"type": "thinking", "thinking": "hm 3"}, {"type": "text", "text": said}]
        if habit == "number":
            content = 7
        more = {}
        if habit == "thoughts alone":  # the limit was reached in them
            content, more = "", {"reasoning_content": said}
        cut = habit == "thoughts alone" or habit.startswith("cut")
        choice = {"index": 0, "finish_reason": "length" if cut else "stop"}
        choice |= {"message": {"role": "assistant", "content": content, **more}} if chat else {"text": content, **more}
        return {"id": "x", "object": "completion", "created": 1, "model": "habits", "choices": [choice]}

    def send(self, status, value, kind="application/json"):
        data = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def echoed(text: str) -> dict:
    """The text's own log-probabilities, and those of one token more, which most servers make of a limit of one.

    The right answer is sure, and all else follows from the tokens.
    """
    found = tokens(text)
    head, mark, _ = text.rpartition("# output:")
    start, good = (len(tokens(head + mark)), tokens(" " + oracle(head))) if mark else (len(found), [])
    values = [-9.0 if token == "xylophone" else -1 - len(token) % 7 / 10 for token in found]
    for at in range(start, len(found)):
        values[at] = -0.001 if found[start : at + 1] == good[: at + 1 - start] else -9.0
    values = [None, *values[1:], -0.5]
    top = [None, *({"": value} for value in values[1:])]
    return {"tokens": [*found, "\n"], "token_logprobs": values, "top_logprobs": top}
