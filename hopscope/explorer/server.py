"""The explorer's server: it is read-only, reachable from this machine alone, and needs a token.

It binds 127.0.0.1. The printed address has a random token, which becomes a cookie. Every request must have the cookie,
name this host, and come from this origin. Responses are looked up in a table by their exact path; the path of a request
is never joined to a folder.
"""

from __future__ import annotations

import hmac
import json
import secrets
import traceback
from collections.abc import Callable
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from hopscope.core.settings import BadInput
from hopscope.core.storage import Damaged
from hopscope.explorer.building import Builder
from hopscope.explorer.page import SERVED, name_of, served_page, static

HOST = "127.0.0.1"
PATIENCE = 30  # seconds after which a silent connection is closed


class Given(NamedTuple):
    """The content of a response: its media type and its bytes."""

    kind: str
    data: bytes


class Refused(Exception):
    """A request that is refused.

    Attributes:
        status: the HTTP status.
        sentence: the reason.
    """

    def __init__(self, status: HTTPStatus, sentence: str):
        super().__init__(sentence)
        self.status, self.sentence = status, sentence


class Server(ThreadingHTTPServer):
    """Serves the page and the bundle of a builder.

    Args:
        builder: of the bundle.
        port: to listen on; 0 for any free port.

    Raises:
        BadInput: the port is taken or not allowed.
    """

    daemon_threads = True

    def __init__(self, builder: Builder, port: int = 0):
        self.builder, self.token = builder, secrets.token_urlsafe(24)
        try:
            super().__init__((HOST, port), Handler)
        except OSError as error:
            raise BadInput(
                f"could not listen at port {port}: {error.strerror}; choose another, or 0 for any"
            ) from error
        self.host = f"{HOST}:{self.server_address[1]}"
        self.cookie = f"hopscope-{self.server_address[1]}"  # cookies are shared between ports
        page = Given("text/html; charset=utf-8", served_page(name_of(builder.bundle)).encode())
        script, style = (Given(f"text/{kind}; charset=utf-8", static(name).encode()) for kind, name in FILES)
        #: Responses by the exact path of the request; blocks are looked up by their names.
        self.routes: dict[str, Callable[[str], Given]] = {
            "/": lambda _: page,
            "/page.js": lambda _: script,
            "/page.css": lambda _: style,
            "/bundle.json": lambda _: Given(JSON, self.builder.text.encode()),
            "/compute": self.compute,
        }

    @property
    def address(self) -> str:
        """The address to open, with the token."""
        return f"http://{self.host}/?token={self.token}"

    def given(self, path: str, query: str) -> Given:
        """The content at a path. Raises Refused, BadInput."""
        if route := self.routes.get(path):
            return route(query)
        block = self.builder.bundle.blocks.get(path.removeprefix("/block/")) if path.startswith("/block/") else None
        if block is None:
            raise Refused(HTTPStatus.NOT_FOUND, "there is nothing here")
        return Given("application/octet-stream", block.data)

    def compute(self, query: str) -> Given:
        """The answer to a query string. Raises BadInput."""
        return as_json(self.builder.answer(query))

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore readers that close their connection."""


JSON = "application/json"
FILES = (("javascript", "page.js"), ("css", "page.css"))


def as_json(value: Any) -> Given:
    """A value as JSON. Raises ValueError for NaN."""
    return Given(JSON, json.dumps(value, separators=(",", ":"), allow_nan=False).encode())


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    server: Server
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "hopscope", ""
    timeout = PATIENCE
    disable_nagle_algorithm = True  # otherwise a body waits some 40 ms until the browser acknowledges the headers

    def do_GET(self) -> None:
        try:
            split = urlsplit(self.path)
            self.check_place()
            if split.path == "/" and (token := parse_qs(split.query).get("token")):
                return self.let_in(token[-1])
            self.check_cookie()
            given = self.server.given(split.path, split.query)
        except Refused as refused:
            return self.refuse(refused.status, refused.sentence)
        except Damaged as damage:
            return self.refuse(HTTPStatus.GONE, str(damage))
        except (BadInput, ValueError) as error:  # ValueError: an invalid address
            return self.refuse(HTTPStatus.BAD_REQUEST, str(error))
        except Exception:
            traceback.print_exc()
            return self.refuse(HTTPStatus.INTERNAL_SERVER_ERROR, "a fault of hopscope's; see its terminal")
        return self.send(HTTPStatus.OK, given)

    def check_place(self) -> None:
        """Raise Refused unless the request names this host and, if it has an origin, comes from this one."""
        if self.headers.get_all("Host") != [self.server.host]:
            raise Refused(HTTPStatus.MISDIRECTED_REQUEST, f"this server is {self.server.host} alone")
        if self.headers.get("Origin", f"http://{self.server.host}") != f"http://{self.server.host}":
            raise Refused(HTTPStatus.FORBIDDEN, "no other page may ask here")

    def check_cookie(self) -> None:
        """Raise Refused unless the request has the cookie with the token."""
        try:
            cookie = SimpleCookie(self.headers.get("Cookie", "")).get(self.server.cookie)
        except CookieError:
            cookie = None
        if cookie is None or not same(cookie.value, self.server.token):
            raise Refused(HTTPStatus.UNAUTHORIZED, "open the address that 'hopscope explore' prints")

    def let_in(self, token: str) -> None:
        """Set the token as a cookie, and redirect to the address without it."""
        if not same(token, self.server.token):
            return self.refuse(HTTPStatus.UNAUTHORIZED, "open the address that 'hopscope explore' prints")
        cookie = f"{self.server.cookie}={self.server.token}; HttpOnly; SameSite=Strict; Path=/"
        return self.send(HTTPStatus.SEE_OTHER, Given("text/plain", b""), **{"Set-Cookie": cookie, "Location": "/"})

    def refuse(self, status: HTTPStatus, sentence: str) -> None:
        """Send an error with a sentence."""
        self.close_connection = True
        self.send(status, as_json({"error": sentence}))

    def send(self, status: HTTPStatus, given: Given, **headers: str) -> None:
        """Send a response with headers against caching, sniffing and embedding."""
        self.send_response(status)
        always = {
            "Content-Type": given.kind,
            "Content-Length": str(len(given.data)),
            "Content-Security-Policy": SERVED,
            "Cache-Control": "no-store",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
        }
        for name, value in (always | headers).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(given.data)

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing, because addresses hold the token."""


def same(given: str, token: str) -> bool:
    """Whether two texts are equal, compared in constant time."""
    return hmac.compare_digest(given.encode("utf-8", "replace"), token.encode())
