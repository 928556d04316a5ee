"""The proxy that misbehaves, between a plain HTTP client and a store in memory."""

import http.client
import random
import threading
import time
from collections.abc import Iterator
from contextlib import closing

import pytest

from lagless.lab.parts import s3_faults
from lagless.lab.parts.faulty_proxy import FaultyProxy
from lagless.lab.parts.s3_faults import Fault, Rule
from tests.wrong_store import WrongStore

KEY = "/bucket/table/_delta_log/00000000000000000001.json"
ONCE = {"If-None-Match": "*"}


@pytest.fixture
def store() -> Iterator[WrongStore]:
    with WrongStore() as running:
        yield running


@pytest.fixture
def proxy(store: WrongStore) -> Iterator[FaultyProxy]:
    with FaultyProxy(store.port, seed=1) as running:
        yield running


def ask(
    proxy: FaultyProxy, method: str, path: str, body: bytes = b"", **headers: str
) -> tuple[int, bytes]:
    with closing(http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=30)) as client:
        client.request(method, path, body, {k.replace("_", "-"): v for k, v in headers.items()})
        answer = client.getresponse()
        return answer.status, answer.read()


def put(proxy: FaultyProxy, body: bytes = b"mine", path: str = KEY) -> int:
    return ask(proxy, "PUT", path, body, **ONCE)[0]


def on_log(fault: Fault, **conditions: object) -> Rule:
    return Rule(fault, {"put"}, "_delta_log/", **conditions)  # type: ignore[arg-type]


def test_without_rules_it_passes_everything_on_and_counts(proxy: FaultyProxy) -> None:
    large = random.Random(0).randbytes(3 << 20)
    with closing(http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=30)) as client:
        for method, path, body, expected in (
            ("PUT", "/bucket/a%20b", large, b""),
            ("GET", "/bucket/a%20b", None, large),
            ("HEAD", "/bucket/a%20b", None, b""),
            ("DELETE", "/bucket/a%20b", None, b""),
        ):
            client.request(method, path, body)  # one connection for all of them
            answer = client.getresponse()
            assert (answer.status < 300, answer.read()) == (True, expected)
    status, listing = ask(proxy, "GET", "/bucket?list-type=2&prefix=a")
    assert status == 200
    assert b"<KeyCount>0<" in listing
    assert dict(proxy.counts) == dict.fromkeys(("put", "get", "head", "delete", "list"), 1)
    assert proxy.faults.total() == 0


def test_a_body_in_chunks_and_one_that_waits_for_leave_arrive_whole(
    proxy: FaultyProxy, store: WrongStore
) -> None:
    with closing(http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=30)) as client:
        client.putrequest("PUT", "/bucket/waits")
        client.putheader("Expect", "100-continue")
        client.putheader("Content-Length", "5")
        client.endheaders()
        assert client.sock.recv(100).startswith(b"HTTP/1.1 100 ")
        client.send(b"hello")
        assert client.getresponse().status == 200
    assert store.objects["waits"] == b"hello"


def test_an_answer_is_lost_after_the_put_has_landed(proxy: FaultyProxy, store: WrongStore) -> None:
    proxy.rules = [on_log(s3_faults.LOST_ANSWER, nth=[1])]
    with pytest.raises((http.client.RemoteDisconnected, ConnectionResetError)):
        put(proxy)
    assert list(store.objects.values()) == [b"mine"]
    assert put(proxy, b"again") == 412
    assert list(store.objects.values()) == [b"mine"]


def test_a_request_that_was_never_sent_leaves_nothing(
    proxy: FaultyProxy, store: WrongStore
) -> None:
    proxy.rules = [on_log(s3_faults.NEVER_SENT)]
    with pytest.raises((http.client.RemoteDisconnected, ConnectionResetError)):
        put(proxy)
    assert store.objects == {}


def test_a_repeated_put_meets_itself(proxy: FaultyProxy, store: WrongStore) -> None:
    proxy.rules = [on_log(s3_faults.REPEATED)]
    assert put(proxy) == 412
    assert list(store.objects.values()) == [b"mine"]


@pytest.mark.parametrize(
    ("fault", "status", "landed"),
    [
        (s3_faults.FAILED_AFTER, 500, True),
        (s3_faults.CONFLICT, 409, False),
        (s3_faults.SLOW_DOWN, 503, False),
        (s3_faults.EXPIRED, 403, False),
        (s3_faults.FORBIDDEN, 403, False),
    ],
)
def test_errors_are_answered_as_s3_does(
    proxy: FaultyProxy, store: WrongStore, fault: Fault, status: int, landed: bool
) -> None:
    proxy.rules = [on_log(fault, most=1)]
    told, body = ask(proxy, "PUT", KEY, b"mine", **ONCE)
    assert told == status
    assert fault.answer is not None
    assert f"<Code>{fault.answer[1]}</Code>".encode() in body
    assert bool(store.objects) == landed
    assert put(proxy) == (412 if landed else 200)
    assert proxy.faults == {fault.name: 1}


def test_a_put_lands_late_when_its_client_has_gone(proxy: FaultyProxy, store: WrongStore) -> None:
    proxy.rules = [on_log(s3_faults.late(0.5, patience=0.1), nth=[1])]
    with pytest.raises((http.client.RemoteDisconnected, ConnectionResetError)):
        put(proxy)
    assert store.objects == {}
    until = time.monotonic() + 30
    while not proxy.late and time.monotonic() < until:
        time.sleep(0.02)
    assert proxy.late == [200]
    assert list(store.objects.values()) == [b"mine"]


def test_an_answer_is_cut_in_its_middle(proxy: FaultyProxy, store: WrongStore) -> None:
    store.objects["data"] = b"x" * 1000
    proxy.rules = [Rule(s3_faults.CUT, {"get"}, most=1)]
    with pytest.raises(http.client.IncompleteRead):
        ask(proxy, "GET", "/bucket/data")
    assert ask(proxy, "GET", "/bucket/data") == (200, b"x" * 1000)


def test_listings_and_everything_can_be_slow(proxy: FaultyProxy) -> None:
    proxy.rules = [Rule(s3_faults.slow(0.3), {"list"}, "^table/")]
    began = time.monotonic()
    ask(proxy, "GET", "/bucket?list-type=2&prefix=table/")
    assert time.monotonic() - began >= 0.3
    proxy.rules = []
    proxy.latency = 0.2
    began = time.monotonic()
    assert put(proxy) == 200
    assert time.monotonic() - began >= 0.2


def test_requests_held_back_do_not_hold_others_up_or_the_end(
    proxy: FaultyProxy, store: WrongStore
) -> None:
    proxy.rules = [on_log(s3_faults.slow(3600), nth=[1])]
    outcomes: list[int | None] = []

    def wait() -> None:
        try:
            outcomes.append(put(proxy))
        except (OSError, http.client.HTTPException):
            outcomes.append(None)

    held = threading.Thread(target=wait)
    held.start()
    until = time.monotonic() + 30
    while not proxy.faults and time.monotonic() < until:
        time.sleep(0.02)
    assert put(proxy, b"second") == 200
    proxy.stop()
    held.join(30)
    assert outcomes == [None]
    assert list(store.objects.values()) == [b"second"]
    proxy.start()


def drawn(seed: int, count: int = 200) -> list[bool]:
    rule = on_log(s3_faults.CONFLICT, chance=0.3, conditional=True)
    request = s3_faults.kind_of("PUT", KEY, {"if-none-match": "*"})
    dice = random.Random(seed)
    return [rule.applies(request, dice) for _ in range(count)]


def test_chance_follows_the_seed() -> None:
    assert drawn(1) == drawn(1) != drawn(2)
    assert 20 < sum(drawn(1)) < 100


@pytest.mark.parametrize(
    ("method", "target", "headers", "kind", "key"),
    [
        ("PUT", "/b/t/x.parquet", {}, "put", "t/x.parquet"),
        ("GET", "/b/t/x.parquet", {}, "get", "t/x.parquet"),
        ("HEAD", "/b/t/x.parquet", {}, "head", "t/x.parquet"),
        ("DELETE", "/b/t/x.parquet", {}, "delete", "t/x.parquet"),
        ("GET", "/b?list-type=2&prefix=t%2F_delta_log", {}, "list", "t/_delta_log"),
        ("GET", "/b/?list-type=2", {}, "list", ""),
        ("GET", "/b/?location", {}, "bucket", ""),
        ("PUT", "/b", {}, "bucket", ""),
        ("POST", "/b?delete", {}, "delete many", ""),
        ("POST", "/b/t/x?uploads", {}, "begin upload", "t/x"),
        ("PUT", "/b/t/x?partNumber=1&uploadId=u", {}, "put part", "t/x"),
        ("POST", "/b/t/x?uploadId=u", {}, "end upload", "t/x"),
        ("DELETE", "/b/t/x?uploadId=u", {}, "abort upload", "t/x"),
        ("PUT", "/b/t/x", {"x-amz-copy-source": "b/t/y"}, "copy", "t/x"),
    ],
)
def test_requests_are_told_apart(
    method: str, target: str, headers: dict[str, str], kind: str, key: str
) -> None:
    request = s3_faults.kind_of(method, target, headers)
    assert (request.kind, request.key, request.bucket) == (kind, key, "b")
    assert not request.is_conditional


def test_conditions_must_all_hold() -> None:
    rule = Rule(s3_faults.CONFLICT, {"put"}, "_delta_log/", conditional=True, nth=[2, 3], most=1)
    commit = s3_faults.kind_of("PUT", KEY, {"if-none-match": "*"})
    plain = s3_faults.kind_of("PUT", KEY, {})
    file = s3_faults.kind_of("PUT", "/bucket/table/x.parquet", {"if-none-match": "*"})
    read = s3_faults.kind_of("GET", KEY, {})
    dice = random.Random(0)
    order = [plain, file, read, commit, commit, commit, commit]
    assert [rule.applies(it, dice) for it in order] == [False] * 4 + [True] + [False] * 2
    assert (rule.matched, rule.happened) == (4, 1)
