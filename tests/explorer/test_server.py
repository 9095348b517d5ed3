"""The explorer's server, asked over its socket: who is let in, what is given, and that nothing else is."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from hopscope import BadInput
from hopscope.explorer.building import Builder
from hopscope.explorer.bundle import Block
from hopscope.explorer.server import Server


class Answer(NamedTuple):
    status: int
    headers: http.client.HTTPMessage
    data: bytes


@pytest.fixture(scope="module")
def builder(once, tmp_path_factory) -> Iterator[Builder]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("HOPSCOPE_CACHE", str(tmp_path_factory.mktemp("cache")))
        patched.setattr("hopscope.explorer.part.Part.wants_circuit", False)
        built = Builder([once], which="all", dtype="float32")
        built.build()
        yield built


@pytest.fixture(scope="module")
def server(builder) -> Iterator[Server]:
    with Server(builder) as running:
        threading.Thread(target=running.serve_forever, args=(0.05,), daemon=True).start()
        yield running
        running.shutdown()


def ask(server: Server, path: str, method: str = "GET", known: bool = True, **headers: str) -> Answer:
    """One request, sent as it is written."""
    connection = http.client.HTTPConnection(*server.server_address[:2], timeout=300)
    connection.putrequest(method, path, skip_host="Host" in headers)
    if known:
        headers.setdefault("Cookie", f"{server.cookie}={server.token}")
    for name, value in headers.items():
        connection.putheader(name, value)
    connection.endheaders()
    answer = connection.getresponse()
    data = answer.read()
    connection.close()
    return Answer(answer.status, answer.headers, data)


def test_it_listens_on_this_machine_alone(server):
    assert server.server_address[0] == "127.0.0.1" and server.address.startswith("http://127.0.0.1:")


# Who is let in ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/", "/page.js", "/bundle.json", "/compute?run=x", "/nothing", "/block/x"])
def test_without_the_token_nothing_is_given(server, path):
    answer = ask(server, path, known=False)
    assert answer.status == 401 and b"hopscope explore" in answer.data and len(answer.data) < 200
    assert "Set-Cookie" not in answer.headers


@pytest.mark.parametrize("token", ["", "x", "ü", "a" * 32])
def test_a_wrong_token_is_none(server, token):
    assert ask(server, "/bundle.json", Cookie=f"{server.cookie}={token}").status in (400, 401)
    first = "x" if server.token[0] != "x" else "y"  # tokens are drawn: one in 64 begins with an x
    assert ask(server, f"/?token={first + server.token[1:]}", known=False).status == 401


def test_the_token_of_the_address_becomes_a_cookie_that_no_script_reads(server):
    answer = ask(server, server.address.partition(server.host)[2], known=False)
    assert answer.status == 303 and answer.headers["Location"] == "/"
    name, *attributes = answer.headers["Set-Cookie"].split("; ")
    assert name == f"{server.cookie}={server.token}" and {"HttpOnly", "SameSite=Strict"} <= set(attributes)
    assert ask(server, "/", Cookie=name, known=False).status == 200


def test_tokens_are_random_and_of_each_server_its_own(server, builder):
    with Server(builder) as other:
        assert other.token != server.token and len(other.token) >= 32 and other.cookie != server.cookie


@pytest.mark.parametrize(
    "host", ["evil.example", "localhost", "127.0.0.1", "127.0.0.1:1", "127.0.0.1.evil.example", ""]
)
def test_another_host_is_refused(server, host):
    assert ask(server, "/bundle.json", Host=host).status == 421
    assert ask(server, f"/?token={server.token}", Host=host, known=False).status == 421


def test_two_hosts_are_refused(server):
    with socket.create_connection(server.server_address) as raw:
        lines = (
            "GET /bundle.json HTTP/1.1",
            f"Host: {server.host}",
            "Host: evil.example",
            f"Cookie: {server.cookie}={server.token}",
        )
        raw.sendall("\r\n".join([*lines, "", ""]).encode())
        assert b" 421 " in raw.recv(100)


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1", "http://localhost:80"])
def test_another_origin_is_refused(server, origin):
    assert ask(server, "/bundle.json", Origin=origin).status == 403


def test_its_own_origin_is_not(server):
    assert ask(server, "/bundle.json", Origin=f"http://{server.host}").status == 200


# What is given ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "/../../etc/passwd",
        "/block/../../../../etc/passwd",
        "/block/..%2f..%2f..%2fetc%2fpasswd",
        "/static/../server.py",
        "/page.js/../server.py",
        "//etc/passwd",
        "/block/%2e%2e/server.py",
        "/server.py",
        "/page.js%00.css",
        "/block//etc/passwd",
        "/.git/config",
        "/block/",
    ],
)
def test_what_is_in_no_table_is_not_there(server, path):
    answer = ask(server, path)
    assert answer.status == 404 and answer.data == b'{"error":"there is nothing here"}'


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD", "TRACE", "CONNECT", "X"])
def test_nothing_but_reading(server, method):
    assert ask(server, "/bundle.json", method).status in (405, 501)


def test_what_is_given_is_the_bundle(server, builder):
    manifest = json.loads(ask(server, "/bundle.json").data)
    assert manifest == builder.bundle.manifest and manifest["progress"]["complete"]
    for name, entry in manifest["blocks"].items():
        data = ask(server, f"/block/{name}").data
        assert Block.from_entry(data, entry).entry() == entry, name


def test_the_page_may_do_what_it_needs_and_no_more(server):
    answer = ask(server, "/")
    policy = dict(part.split(" ", 1) for part in answer.headers["Content-Security-Policy"].split("; "))
    assert policy["default-src"] == "'none'" and policy["frame-ancestors"] == "'none'"
    assert policy["script-src"] == "'self' 'wasm-unsafe-eval'" and policy["worker-src"] == "blob:"
    assert answer.headers["X-Content-Type-Options"] == "nosniff" and answer.headers["Cache-Control"] == "no-store"
    assert b"<script src=" in answer.data and b"<style" not in answer.data and b"http" not in answer.data
    assert server.token.encode() not in answer.data


def test_a_path_knocked_out_is_computed(server, builder):
    identity = builder.parts[0].identity
    path = "L0H0%20query-%3Evalue%5B1%5D"
    whole, without = (
        json.loads(ask(server, f"/compute?run={identity}&step=12&n=64{more}").data) for more in ("", f"&off={path}")
    )
    assert whole["n"] == 64 and whole["run"] == identity and whole["loss"] != without["loss"]
    reference = builder.bundle.manifest["runs"][0]["checkpoints"][-1]["reference"]["64"]
    assert whole["loss"] == pytest.approx(reference["loss"], rel=1e-5)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("run=nosuch&step=12", "there is no run 'nosuch' here"),
        ("step=12", "there is no run '' here"),
        ("", "there is no run '' here"),
        ("=&;", "a query must be written such as"),
        ("run={run}&step=5", "has no checkpoint of step 5"),
        ("run={run}&step=-1", "step must be a whole number"),
        ("run={run}&step=1e9", "step must be a whole number"),
        ("run={run}&step=12&n=7", "n must be one of 8, 64, 256"),
        ("run={run}&step=12&null=evil", "null must be one of uniform, identity, resample"),
        ("run={run}&step=12&off=%3C/script%3E", "a path must be written such as"),
        ("run={run}&step=12&off=L9H0+query-%3Evalue%5B1%5D", "there is no path 'L9H0 query->value[1]' here"),
        ("run={run}&step=12&instance=8", "instance must be from 0 to 7"),
    ],
)
def test_a_bad_question_gets_one_sentence(server, builder, query, said):
    answer = ask(server, f"/compute?{query.format(run=builder.parts[0].identity)}")
    assert answer.status == 400 and answer.headers["Content-Type"] == "application/json"
    (sentence,) = json.loads(answer.data).values()
    assert said in sentence and "\n" not in sentence


def test_a_checkpoint_that_was_damaged_since_is_told_in_one_sentence(small, monkeypatch):
    monkeypatch.setattr("hopscope.explorer.part.Part.wants_circuit", False)
    built = Builder([small.path], which="all", dtype="float32")
    built.build()
    weights = small.folder(8) / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\0\0")
    with Server(built) as running:
        threading.Thread(target=running.serve_forever, args=(0.05,), daemon=True).start()
        answer = ask(running, f"/block/{built.parts[0].identity}/8/weights")
        running.shutdown()
    assert answer.status == 410 and b"model.safetensors is cut short or grown" in answer.data


def test_a_port_that_is_taken_is_told_in_one_sentence(server, builder):
    with pytest.raises(BadInput, match=r"could not listen at port \d+: .*; choose another, or 0 for any"):
        Server(builder, server.server_address[1])


def test_a_long_address_is_refused(server):
    assert ask(server, "/" + "x" * 70_000).status == 414
