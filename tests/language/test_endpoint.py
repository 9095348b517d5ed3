"""Models behind HTTP: nothing that goes wrong becomes an answer, and nothing but a model's own numbers is a score."""

from __future__ import annotations

import logging
import math
import sys
import time

import pytest

pytest.importorskip("httpx2", reason="httpx2 is not installed; run make language")

from hopscope.cli import main
from hopscope.core.settings import BadInput
from hopscope.language.backends.base import Sampling, Unreachable
from hopscope.language.backends.endpoint import Endpoint
from hopscope.language.layouts.base import Rendered
from hopscope.language.opening import patience_of
from hopscope.language.server import Fault, NoContent, Patience, Server, wanted_pause
from hopscope.language.turns import cut
from tests.fault_server import FAULTS, FaultServer, half_right, log_p

#: As the defaults, a hundred times faster.
QUICK = Patience(timeout=2.0, silence=20.0, pause=0.002, longest=0.02)


def rendered(text="a = 1\nprint(a)\n# output:", choices=(" 1", " 2"), chat=False):
    return Rendered(text, chat, choices, ())


def equations(count):
    return [f"b = {i % 4}\na = {(i + 1) % 4}\nc = b\nNote {i}.\nWhat is the value of c?" for i in range(count)]


def greedy(count):
    return [Sampling(temperature=0.0, max_tokens=8, seed=i) for i in range(count)]


@pytest.fixture
def endpoint():
    """Makes endpoints and closes them."""
    made = []

    def make(server, **settings):
        made.append(Endpoint(server if isinstance(server, str) else server.url, **{"patience": QUICK, **settings}))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.mark.parametrize("chat", [True, False])
def test_text_is_that_of_the_server_in_the_order_of_the_requests(endpoint, chat):
    prompts = equations(40)
    with FaultServer(answer=half_right) as server:
        texts = endpoint(server).generate([rendered(p, chat=chat) for p in prompts], greedy(40))
    assert texts == [half_right(p) for p in prompts]
    assert len(set(texts)) == 4


def test_text_ends_before_the_first_stop_text(endpoint):
    with FaultServer(answer=lambda prompt, seed: "one\ntwo; three") as server:
        request = Rendered("?", False, (), (), stop=(";", "\n"))
        assert endpoint(server).generate([request], greedy(1)) == ["one"]
    assert cut("abc", ()) == "abc"


def test_many_requests_run_side_by_side_but_never_more_than_allowed(endpoint):
    with FaultServer(latency=0.5) as server:
        began = time.monotonic()
        endpoint(server, in_flight=10).generate([rendered(p) for p in equations(20)], greedy(20))
        passed = time.monotonic() - began
    assert 1.0 <= passed < 8  # two rounds of ten; one by one it would be ten seconds


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_is_asked_again_and_never_an_answer(endpoint, fault, monkeypatch):
    monkeypatch.setattr("tests.fault_server.FAULTS", (fault,))
    prompts = equations(20)
    with FaultServer(answer=half_right, rate=0.5, hold=1.3) as server:
        asked = endpoint(server, patience=QUICK.but(timeout=1.0))
        texts = asked.generate([rendered(p, chat=True) for p in prompts], greedy(20))
        assert texts == [half_right(p) for p in prompts]
        assert server.injected[fault] >= 5
        assert server.requests - 20 <= 1.3 * server.injected.total()


def test_a_pause_is_as_long_as_the_server_asks_for(endpoint):
    class Once(FaultServer):
        def fault(self, body):
            self.times = [*getattr(self, "times", []), time.monotonic()]
            return "429" if len(self.times) == 1 else None

    with Once() as server:
        endpoint(server, patience=QUICK.but(pause=0.0)).generate([rendered()], greedy(1))
        assert server.times[1] - server.times[0] >= 0.02  # Retry-After


def test_retry_after_holds_seconds_or_a_date():
    assert wanted_pause("7") == 7.0
    assert wanted_pause("Wed, 21 Oct 2015 07:28:00 GMT") == 0.0
    assert wanted_pause("Fri, 31 Dec 2100 23:59:59 GMT") > 1e9
    assert wanted_pause("-3") == wanted_pause("soon") == wanted_pause(None) == 0.0


def test_pauses_double_up_to_the_longest_and_are_the_same_every_time(endpoint):
    from hopscope.language.server import Fault

    patience = Patience(silence=1e6, pause=0.5, longest=8.0)
    pauses = []
    for _ in range(2):
        server = endpoint("http://127.0.0.1:9/v1", model="m", patience=patience).server
        server._answered = time.monotonic()
        pauses.append([server._delay(Fault("500"), failures, 0) for failures in range(1, 9)])
    assert pauses[0] == pauses[1]
    for pause, whole in zip(pauses[0], [0.5, 1, 2, 4, 8, 8, 8, 8], strict=True):
        assert whole / 2 <= pause <= whole


# What cannot be mended


def seconds_until(raised, act):
    began = time.monotonic()
    with pytest.raises(raised) as caught:
        act()
    return time.monotonic() - began, str(caught.value)


def test_a_dead_endpoint_is_given_up_within_the_time_allowed(endpoint, caplog, monkeypatch):
    monkeypatch.setattr("hopscope.language.server.TELL", 0.5)
    with FaultServer() as server:
        url = server.url
    dead = endpoint(url, model="m", patience=Patience(timeout=1.0, silence=1.5, pause=0.05))
    passed, said = seconds_until(Unreachable, lambda: dead.generate([rendered()] * 30, greedy(30)))
    assert 1.0 < passed < 30
    assert url in said
    assert "has answered nothing for" in said
    again, _ = seconds_until(Unreachable, lambda: dead.generate([rendered()], greedy(1)))
    assert again < 2  # it waits for nothing: until it answers it is tried once
    assert [record.levelno for record in caplog.records] == [logging.WARNING]  # said once that we wait


def test_an_endpoint_that_never_answers_is_given_up_too(endpoint):
    with FaultServer(mode="hang", hold=3.0) as server:
        silent = endpoint(server, model="m", patience=Patience(timeout=0.3, silence=1.0, pause=0.05))
        passed, said = seconds_until(Unreachable, lambda: silent.generate([rendered()], greedy(1)))
    assert passed < 30
    assert "no answer within 0.3 s" in said


def test_the_default_gives_up_after_at_most_five_minutes():
    assert Patience().silence + Patience().timeout <= 300


@pytest.mark.parametrize("status", ["401", "403", "404"])
def test_a_refused_key_or_address_stops_at_once_and_shows_no_key(endpoint, status, monkeypatch):
    monkeypatch.setenv("HOPSCOPE_API_KEY", "sk-very-secret")
    with FaultServer(mode=status) as server:
        asked = endpoint(server)
        passed, said = seconds_until(Unreachable, lambda: asked.generate([rendered()], greedy(1)))
        assert server.headers[0]["Authorization"] == "Bearer sk-very-secret"
    assert passed < 2
    assert f"{server.url} answered {status}" in said
    everything = f"{said} {asked.identity} {vars(asked)} {asked.server!r}"
    assert "very-secret" not in everything


def test_what_a_server_does_not_take_is_bad_input(endpoint):
    with FaultServer(mode="400") as server, pytest.raises(BadInput, match="answered 400"):
        endpoint(server).generate([rendered()], greedy(1))


def test_content_that_stays_null_is_an_error_of_its_own(endpoint):
    with FaultServer(mode="always null") as server:
        with pytest.raises(NoContent, match="raise --max-tokens"):
            endpoint(server).generate([rendered(chat=True)], greedy(1))
        assert len(server.headers) == Patience().empty


def test_one_request_that_always_fails_is_given_up_while_others_succeed(endpoint):
    class OneBad(FaultServer):
        def fault(self, body):
            return "500" if "Note 3." in body else super().fault(body)

    with OneBad() as server, pytest.raises(Unreachable, match="failed 6 times on one request"):
        endpoint(server, patience=QUICK.but(tries=6)).generate([rendered(p) for p in equations(8)], greedy(8))


@pytest.mark.parametrize(
    "url",
    [
        "127.0.0.1:8080/v1",
        "ftp://x/v1",
        "http:///v1",
        "http://h:x/v1",
        "http://u:p@h/v1",
        "http://h/v1?key=1",
        "http://[::1",
    ],
)
def test_an_address_that_is_none_is_refused(url):
    with pytest.raises(BadInput, match="an endpoint's address"):
        Endpoint(url, "m")


def test_without_httpx2_it_is_said_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "httpx2", None)
    with pytest.raises(BadInput, match=r"pip install 'hopscope\[language\]'"):
        Endpoint("http://127.0.0.1:9/v1", "m")


def test_a_server_that_wants_its_token_limit_under_another_name_gets_it(endpoint):
    with FaultServer(mode="wants max_completion_tokens") as server:
        assert endpoint(server).generate([rendered("b = 1\nvalue of b?", chat=True)], greedy(1)) == ["1"]
        assert server.requests == 1  # of those that it took


def test_the_model_is_the_only_one_listed_or_has_to_be_named(endpoint):
    with FaultServer() as server:
        assert endpoint(server).model == "loopback"
        assert endpoint(server, model="other").identity["served"] == "loopback"
    with FaultServer(mode="no list") as server:
        with pytest.raises(BadInput, match="lists no models; say which one"):
            endpoint(server)
        assert endpoint(server, model="other").identity["served"] == "not listed"


# Log-likelihoods


@pytest.mark.parametrize("mode", ["", "begins"])
def test_log_likelihoods_are_the_closed_form(endpoint, mode):
    requests = [rendered(p + "\n# output:", (" 1", " 23", " Amsterdam")) for p in equations(6)]
    with FaultServer(mode=mode) as server:
        found = endpoint(server).log_likelihoods(requests)
    for request, values in zip(requests, found, strict=True):
        assert values == pytest.approx([log_p(choice, request.text) for choice in request.choices], abs=1e-12)


def test_log_likelihoods_by_hand(endpoint):
    with FaultServer() as server:
        found = endpoint(server).log_likelihoods([rendered("ab", ("!", "~"))])
    # after b (98): ! is 33, (33 + 98) mod 128 = 3; ~ is 126, (126 + 98) mod 128 = 96
    assert found[0] == pytest.approx([math.log(4 / 8256), math.log(97 / 8256)])


def test_a_token_across_the_boundary_is_counted_with_every_choice(endpoint):
    even, odd = rendered("abcd", ("1", "2x")), rendered("abcde", ("1", "2x"))
    with FaultServer(tokens=2) as server:
        found = endpoint(server).log_likelihoods([even, odd])
    assert found[0] == pytest.approx([log_p("1", "abcd"), log_p("2x", "abcd")])
    assert found[1] == pytest.approx([log_p("e1", "abcd"), log_p("e2x", "abcd")])


def test_log_likelihoods_survive_the_faults(endpoint):
    requests = [rendered(p, (" 1", " 2")) for p in equations(20)]
    with FaultServer(rate=0.1, hold=0.3) as server:
        found = endpoint(server, patience=QUICK.but(timeout=0.25)).log_likelihoods(requests)
        assert server.injected.total() >= 20
    for request, values in zip(requests, found, strict=True):
        assert values == pytest.approx([log_p(choice, request.text) for choice in request.choices], abs=1e-12)


@pytest.mark.parametrize(
    ("mode", "what"),
    [
        ("ignores echo", "it ignored `echo` and returned only '?'"),
        ("logprobs null", "it returned no log-probabilities"),
        ("same everywhere", "it gave every token the same log-probability"),
        ("infinite", "it returned -inf as a log-probability"),
        ("other tokens", "it ignored `echo` and returned only 'MONDAY"),
    ],
)
def test_a_server_without_true_log_likelihoods_is_refused_by_name(endpoint, mode, what):
    with FaultServer(mode=mode) as server:
        asked = endpoint(server)
        with pytest.raises(BadInput) as refusal:
            asked.log_likelihoods([rendered()])
        probes = server.requests
        with pytest.raises(BadInput):
            asked.log_likelihoods([rendered()])
        assert server.requests == probes <= 4  # asked once, not with every batch
    assert server.url in str(refusal.value)
    assert what in str(refusal.value)
    assert "score generated text instead" in str(refusal.value)


def test_the_chat_layout_has_no_echo(endpoint):
    with FaultServer() as server, pytest.raises(BadInput, match="cannot score the layout 'chat'"):
        endpoint(server).log_likelihoods([rendered(chat=True)])


@pytest.mark.parametrize("chat", [True, False])
def test_first_tokens_are_scored_if_asked_for(endpoint, chat):
    with FaultServer(mode="ignores echo") as server:
        asked = endpoint(server, first_token=True)
        found = asked.log_likelihoods([rendered("a=", ("0", "3"), chat=chat), rendered("b=", ("1",), chat=chat)])
        with pytest.raises(BadInput, match="does not show ' 1' as a single token among its 20 likeliest"):
            asked.log_likelihoods([rendered("a=", (" 1",), chat=chat)])
        assert asked.identity["log_likelihood"] == "first token among 20"
        assert asked.identity != endpoint(server).identity
    assert found[0] == pytest.approx([log_p("0", "="), log_p("3", "=")])
    assert found[1] == pytest.approx([log_p("1", "=")])


def test_the_command_says_how_long_a_request_may_take(tmp_path, capsys):
    """And the address is given up after four times as long: within a second and a half here."""
    with FaultServer(mode="hang", hold=3.0) as server:
        line = ["evaluate", "--model", server.url, "--endpoint-model", "m", "--count", "1", "--layout", "code"]
        how = ["--protocol", "greedy_strict", "--timeout", "0.3", "--out", str(tmp_path / "out")]
        began = time.monotonic()
        assert main([*line, *how]) == 1
    assert time.monotonic() - began < 30
    assert "no answer within 0.3 s" in capsys.readouterr().err
    usual, short = patience_of(None), patience_of(30)
    assert usual == Patience() and short.timeout == 30 and short.silence == usual.silence / 2


def test_a_server_that_wants_to_be_left_alone_for_ever_is_told_of_in_words():
    """Not as `inf s`."""
    server = Server("http://127.0.0.1:9", None, in_flight=1, patience=Patience())
    try:
        with pytest.raises(Unreachable, match="wants to be left alone for ever"):
            server._delay(Fault("busy", after=float("inf")), 1, 0)
    finally:
        server.close()
