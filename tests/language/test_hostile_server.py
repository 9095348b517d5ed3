"""A server that means harm: bodies without end, bombs, JSON of no shape, keys sent back, names that climb folders."""

from __future__ import annotations

import contextlib
import gzip
import json
import resource
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

pytest.importorskip("httpx2", reason="httpx2 is not installed; run make language")

from hopscope.cli import main
from hopscope.core import strangers
from hopscope.core.settings import BadInput
from hopscope.language import server as server_module
from hopscope.language.backends.base import Sampling, Unreachable
from hopscope.language.backends.endpoint import Endpoint
from hopscope.language.keys import Key
from hopscope.language.layouts.base import Rendered
from hopscope.language.server import Patience

HASTY = Patience(timeout=5.0, silence=5.0, tries=2, empty=2, pause=0.001, longest=0.002)
KEY = 'sk-a/very"secret-key-0123456789'
TOLD = (BadInput, Unreachable)  # both are told as one sentence
PROMPT = Rendered("a = 1\nprint(a)\n# output:", False, (" 1", " 2"), ())


class Hostile(BaseHTTPRequestHandler):
    """Answers every request with what the server was told to."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        self.send(self.server.listed if self.path.endswith("/models") else self.server.body)

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send(self.server.body)

    def send(self, body: bytes) -> None:
        self.send_response(self.server.status)
        for name, value in self.server.sent.items():
            self.send_header(name, value)
        if self.server.endless:
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            with contextlib.suppress(OSError):
                while True:
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(body), body))
        self.send_header("Content-Length", str(len(body)))
        with contextlib.suppress(OSError):  # a client that hung up is no news
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, *_):
        """Nothing."""


@contextlib.contextmanager
def serving(body=b"{}", *, listed=None, status=200, sent=None, endless=False):
    """The address of a server that answers so."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Hostile) as server:
        server.daemon_threads = True
        server.body, server.status, server.sent, server.endless = body, status, sent or {}, endless
        server.listed = json.dumps({"data": [{"id": "some"}]}).encode() if listed is None else listed
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/v1"
        server.shutdown()


@contextlib.contextmanager
def asking(url, **how):
    endpoint = Endpoint(url, "some", patience=HASTY, **how)
    try:
        yield endpoint
    finally:
        endpoint.close()


def one_sentence(caught) -> str:
    text = str(caught.value)
    assert "\n" not in text and len(text) < 600
    return text


def say(endpoint) -> list[str]:
    return endpoint.generate([PROMPT], [Sampling(temperature=0.0, max_tokens=4, seed=0)])


def test_a_body_without_end_is_not_read_to_its_end():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with serving(b" " * 65536, endless=True) as url, asking(url) as endpoint, pytest.raises(TOLD) as caught:
        say(endpoint)
    assert "longer than 8 MiB" in one_sentence(caught)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 400_000  # kB


@pytest.mark.parametrize("times", [1, 2])
def test_a_small_body_that_unpacks_to_a_huge_one_is_refused(times):
    bomb = gzip.compress(bytes(256 << 20), 1)
    for _ in range(times - 1):
        bomb = gzip.compress(bomb)
    sent = {"Content-Encoding": ", ".join(["gzip"] * times)}
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with serving(bomb, sent=sent) as url, asking(url) as endpoint, pytest.raises(TOLD) as caught:
        say(endpoint)
    assert "longer than 8 MiB" in one_sentence(caught) or "encoded as gzip, gzip" in one_sentence(caught)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000


def test_a_compressed_answer_is_read_though_none_was_asked_for():
    body = gzip.compress(json.dumps({"choices": [{"text": " 1"}]}).encode())
    with serving(body, sent={"Content-Encoding": "gzip"}) as url, asking(url) as endpoint:
        assert say(endpoint) == [" 1"]


@pytest.mark.parametrize(
    "listed",
    [
        b'{"data": 5}',
        b'{"data": {"id": 3}}',
        b'{"data": [[{"id": 3}], null]}',
        b"[]",
        b"[" * 200_000,
        b"9" * 5_000,
        b'{"data": [' + b"[" * 200_000,
        b'{"data": [{"id": ' + b"9" * 5_000 + b"}]}",
    ],
    ids=range(8),
)
def test_a_list_of_models_of_any_shape_is_one_sentence(listed):
    with serving(listed=listed) as url, pytest.raises(TOLD) as caught:
        Endpoint(url, patience=HASTY)
    one_sentence(caught)


LOGPROBS = [
    {"tokens": ["a"], "token_logprobs": ["x"]},
    {"tokens": 5, "token_logprobs": 5},
    {"content": 5},
    {"content": [5]},
    {"content": [{"top_logprobs": 5}]},
    {"content": [{"top_logprobs": [5]}]},
    {"content": [{"top_logprobs": [{"token": " 1", "logprob": "much"}]}]},
    {"content": [{"top_logprobs": [{"token": [1], "logprob": -1}]}]},
    {"top_logprobs": 7},
    {"top_logprobs": [7]},
    {"top_logprobs": [{" 1": None, " 2": True}]},
    {"top_logprobs": [{" 1": float("nan"), " 2": -1}]},
    {"top_logprobs": [{" 1": 10**400, " 2": -1}]},
]


@pytest.mark.parametrize("first_token", [False, True])
@pytest.mark.parametrize("found", LOGPROBS, ids=range(len(LOGPROBS)))
def test_log_probabilities_that_are_none_are_one_sentence(found, first_token):
    body = json.dumps({"choices": [{"text": " 1", "logprobs": found}]}).encode()
    with (
        serving(body) as url,
        asking(url, first_token=first_token) as endpoint,
        pytest.raises(TOLD) as caught,
    ):
        endpoint.log_likelihoods([PROMPT])
    one_sentence(caught)


#: What text is made of by default, said so that Hypothesis does not try UTF-8 on every character that there is.
ANY = st.characters(exclude_categories=["Cs"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(ANY, max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["choices", "message", "content", "text", "logprobs", "tokens", "token_logprobs", "token"])
            | st.sampled_from(["top_logprobs", "logprob", "error", "data", "id"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@pytest.fixture(scope="module")
def mutable():
    """A server whose answer is set by the test."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Hostile) as server:
        server.daemon_threads, server.status, server.sent, server.endless = True, 200, {}, False
        server.listed = server.body = b"{}"
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield server
        server.shutdown()


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=JSON, wrapped=st.booleans(), status=st.sampled_from([200, 200, 200, 400, 429, 503]))
def test_answers_of_any_shape_are_a_text_or_one_sentence(mutable, value, wrapped, status):
    mutable.body = mutable.listed = json.dumps({"choices": [value]} if wrapped else value).encode()
    mutable.status = status
    url = f"http://127.0.0.1:{mutable.server_address[1]}/v1"
    for ask in (say, lambda one: one.log_likelihoods([PROMPT]), lambda one: one.served):
        for first_token in (False, True):
            said = ""
            try:
                with asking(url, first_token=first_token) as endpoint:
                    ask(endpoint)
            except TOLD as told:
                said = str(told)
            assert "\n" not in said


@pytest.mark.parametrize("status", [200, 400, 401, 429, 500])
def test_a_key_that_is_sent_back_is_in_no_error_and_in_no_answer(status, monkeypatch):
    """Whole or cut, in text or in JSON, as a value or as a name."""
    monkeypatch.setenv("HOPSCOPE_API_KEY", KEY)
    padded = "x" * 190 + f" your key {KEY} is bad"
    for value in (
        {"error": {"message": padded}},
        {"error": padded},
        {"choices": [{"text": f"you sent {KEY}", KEY: 1}]},
        padded,
    ):
        body = json.dumps(value).encode() if not isinstance(value, str) else value.encode()
        with serving(body, status=status) as url, asking(url) as endpoint:
            try:
                said = repr(say(endpoint))
            except TOLD as told:
                said = str(told) + str(getattr(told, "answer", ""))
        assert "sk-a" not in said and KEY[-8:] not in said


def test_a_key_that_is_sent_back_is_not_stored(tmp_path, monkeypatch, capsys):
    """Not in a record, a table or a word on the terminal."""
    monkeypatch.setenv("HOPSCOPE_API_KEY", KEY)
    monkeypatch.chdir(tmp_path)
    body = json.dumps({"choices": [{"text": f"it is {KEY}", "message": {"content": f"it is {KEY}"}}]}).encode()
    with serving(body, listed=json.dumps({"data": [{"id": "some"}]}).encode()) as url:
        options = ["--formulation", "equations", "--count", "2", "--protocol", "greedy_lenient", "--layout", "raw"]
        assert main(["evaluate", "--model", url, *options]) == 0
    said = capsys.readouterr()
    kept = [path.read_text() for path in tmp_path.rglob("*") if path.is_file()]
    assert any("it is " in text for text in kept)
    assert not any("sk-a" in text or KEY[-8:] in text for text in (*kept, said.out, said.err))


@pytest.mark.parametrize("key", ["3", "x", "e", "m1", "content", "text", "choices", "message", "id", "data", "some"])
@pytest.mark.parametrize("layout", ["raw", "chat"])
def test_a_short_key_changes_no_answer(key, layout, monkeypatch):
    """Placeholders are common as keys of local servers."""
    monkeypatch.setenv("HOPSCOPE_API_KEY", key)
    said = "x1 e content 3 some"
    body = json.dumps({"choices": [{"text": said, "message": {"content": said}}]}).encode()
    with serving(body) as url, contextlib.closing(Endpoint(url, patience=HASTY)) as endpoint:
        assert endpoint.model == "some"
        prompt = Rendered(PROMPT.text, layout == "chat", PROMPT.choices, ())
        assert endpoint.generate([prompt], [Sampling(temperature=0.0, max_tokens=4, seed=0)]) == [said]


def test_a_long_key_hides_no_names_of_fields():
    assert Key("token_logprobs").hidden({"token_logprobs": ["is token_logprobs"]}) == {"token_logprobs": ["is (key)"]}


@pytest.mark.parametrize("part", [KEY[:20], KEY[7:], KEY[3:15], KEY[:14] + " … " + KEY[-12:]])
def test_a_part_of_a_key_is_hidden_too(part):
    found = Key(KEY).hidden(f"you sent {part}, I think")
    assert not any(KEY[i : i + 12] in found for i in range(len(KEY)))
    assert found.startswith("you sent (key)") and found.endswith(", I think")


@pytest.mark.parametrize("key", ["3", "hunter2", "error", "message"])
def test_an_error_shows_no_short_key_and_keeps_its_words(key, monkeypatch):
    monkeypatch.setenv("HOPSCOPE_API_KEY", key)
    body = json.dumps({"error": {"message": f"bad {key}, not 365 errors of messages"}}).encode()
    with serving(body, status=400) as url, asking(url) as endpoint, pytest.raises(BadInput) as caught:
        say(endpoint)
    assert "(bad (key), not 365 errors of messages)" in one_sentence(caught)


@pytest.mark.parametrize("value", [b"[]", b"{}", b'"ab"', b"0.5"])
def test_an_answer_of_very_many_values_is_refused_unread(value, monkeypatch):
    """Of an empty list, three bytes in JSON, Python makes sixty: the values are counted before they are made."""
    listed = b'{"data": [' + b",".join([value] * 1_000_001) + b"]}"
    monkeypatch.setattr(strangers.json, "loads", lambda *_, **__: pytest.fail("it was read"))
    with serving(listed=listed) as url, pytest.raises(TOLD) as caught:
        Endpoint(url, patience=HASTY)
    assert "more than 1,000,000 values" in one_sentence(caught)


@pytest.mark.parametrize("key", ["sk-abc\nX-Evil: 1", "sk-\u00e9t\u00e9", "sk abc\tdef", "sk-\x00"])
def test_a_key_that_no_header_can_carry_is_refused_before_any_request(key, monkeypatch):
    if "\x00" not in key:
        monkeypatch.setenv("HOPSCOPE_API_KEY", key)
    else:
        monkeypatch.setattr("os.environ", {"HOPSCOPE_API_KEY": key})
    with pytest.raises(BadInput, match="HOPSCOPE_API_KEY") as caught:
        Endpoint("http://127.0.0.1:9/v1", "some", patience=HASTY)
    assert "sk" not in one_sentence(caught)


@pytest.mark.parametrize("name", ["..", ".", "../../x", "a/../../b", "\x1b[31mred", "nul\x00", "x" * 4000, ""])
def test_a_servers_name_for_its_model_leads_to_no_other_folder(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    listed = json.dumps({"data": [{"id": name}]}).encode()
    body = json.dumps({"choices": [{"text": " 1", "message": {"content": "1"}}]}).encode()
    with serving(body, listed=listed) as url:
        options = ["--formulation", "equations", "--count", "1", "--protocol", "greedy_lenient", "--layout", "raw"]
        code = main(["evaluate", "--model", url, *options])
    said = capsys.readouterr()
    assert code in (0, 2) and "Traceback" not in said.err and "\x1b" not in said.out + said.err
    assert [path.name for path in tmp_path.iterdir()] == ["here"]
    made = [path.relative_to(Path.cwd()) for path in Path.cwd().rglob("*.jsonl")]
    assert all(path.parts[0] == "evaluations" and len(path.parts) == 3 for path in made), made


@pytest.mark.parametrize("url", ["http://[::1", "http://[x]/v1", "http://a:b/v1"])
def test_an_address_that_is_none_is_one_sentence(url):
    with pytest.raises(BadInput, match="an endpoint's address looks like"):
        server_module.checked(url)


def test_the_limit_is_that_of_the_sentence():
    assert server_module.LONGEST == 8 << 20
