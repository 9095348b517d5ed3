"""The explorer's server: on this machine alone, for whoever has the token, and for reading only.

It binds 127.0.0.1. The address that is printed carries a random token, which becomes a cookie; every request must
carry that, name this very host, and come from this very origin. What is given stands in a table by its exact path: no
path of a request is ever joined to a folder.
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
PATIENCE = 30  # seconds that a connection may be silent


class Given(NamedTuple):
    """What a route gives."""

    kind: str
    data: bytes


class Refused(Exception):
    """A request that is not answered.

    Attributes:
        status: of HTTP.
        sentence: why.
    """

    def __init__(self, status: HTTPStatus, sentence: str):
        super().__init__(sentence)
        self.status, self.sentence = status, sentence


class Server(ThreadingHTTPServer):
    """Serves what a builder builds.

    Args:
        builder: of the bundle.
        port: to listen at; 0: any that is free.

    Raises:
        BadInput: the port is taken, or may not be used.
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
        #: What is given for a path, as it stands in the request; blocks beside it, by their names.
        self.routes: dict[str, Callable[[str], Given]] = {
            "/": lambda _: page,
            "/page.js": lambda _: script,
            "/page.css": lambda _: style,
            "/bundle.json": lambda _: Given(JSON, self.builder.text.encode()),
            "/compute": self.compute,
        }

    @property
    def address(self) -> str:
        """What one opens; it carries the token."""
        return f"http://{self.host}/?token={self.token}"

    def given(self, path: str, query: str) -> Given:
        """What stands at a path. Raises Refused, BadInput."""
        if route := self.routes.get(path):
            return route(query)
        block = self.builder.bundle.blocks.get(path.removeprefix("/block/")) if path.startswith("/block/") else None
        if block is None:
            raise Refused(HTTPStatus.NOT_FOUND, "there is nothing here")
        return Given("application/octet-stream", block.data)

    def compute(self, query: str) -> Given:
        """The answer to a question in a query string. Raises BadInput."""
        return as_json(self.builder.answer(query))

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A reader that went away is no error."""


JSON = "application/json"
FILES = (("javascript", "page.js"), ("css", "page.css"))


def as_json(value: Any) -> Given:
    """A value as JSON; refuses NaN."""
    return Given(JSON, json.dumps(value, separators=(",", ":"), allow_nan=False).encode())


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    server: Server
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "hopscope", ""
    timeout = PATIENCE
    disable_nagle_algorithm = True  # or a body waits, some 40 ms, until the browser has acknowledged its headers

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
        except (BadInput, ValueError) as error:  # of the latter what is no address
            return self.refuse(HTTPStatus.BAD_REQUEST, str(error))
        except Exception:
            traceback.print_exc()
            return self.refuse(HTTPStatus.INTERNAL_SERVER_ERROR, "a fault of hopscope's; see its terminal")
        return self.send(HTTPStatus.OK, given)

    def check_place(self) -> None:
        """Raise Refused unless the request names this host, and comes from this origin, if it says from where."""
        if self.headers.get_all("Host") != [self.server.host]:
            raise Refused(HTTPStatus.MISDIRECTED_REQUEST, f"this server is {self.server.host} alone")
        if self.headers.get("Origin", f"http://{self.server.host}") != f"http://{self.server.host}":
            raise Refused(HTTPStatus.FORBIDDEN, "no other page may ask here")

    def check_cookie(self) -> None:
        """Raise Refused unless the request carries the token."""
        try:
            cookie = SimpleCookie(self.headers.get("Cookie", "")).get(self.server.cookie)
        except CookieError:
            cookie = None
        if cookie is None or not same(cookie.value, self.server.token):
            raise Refused(HTTPStatus.UNAUTHORIZED, "open the address that 'hopscope explore' prints")

    def let_in(self, token: str) -> None:
        """Turn the token into a cookie, and take it out of the address."""
        if not same(token, self.server.token):
            return self.refuse(HTTPStatus.UNAUTHORIZED, "open the address that 'hopscope explore' prints")
        cookie = f"{self.server.cookie}={self.server.token}; HttpOnly; SameSite=Strict; Path=/"
        return self.send(HTTPStatus.SEE_OTHER, Given("text/plain", b""), **{"Set-Cookie": cookie, "Location": "/"})

    def refuse(self, status: HTTPStatus, sentence: str) -> None:
        """Answer with a sentence."""
        self.close_connection = True
        self.send(status, as_json({"error": sentence}))

    def send(self, status: HTTPStatus, given: Given, **headers: str) -> None:
        """Answer; nothing is kept by the browser, and nothing may be made of it but what it is."""
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
        """Nothing is logged: addresses hold the token."""


def same(given: str, token: str) -> bool:
    """Whether two texts are the same, in a time that does not tell where they differ."""
    return hmac.compare_digest(given.encode("utf-8", "replace"), token.encode())
