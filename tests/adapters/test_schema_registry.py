"""A schema registry over HTTP: what it says, what it cannot say, and what its answers mean."""

import base64
from collections.abc import Callable, Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as profile
from hypothesis import strategies as st

from lagless import settings
from lagless.adapters import schema_registry
from lagless.adapters.schema_registry import SchemaRegistry
from lagless.errors import Away, WrongSettings
from lagless.lab.parts.apicurio import Apicurio
from lagless.operations import doctor
from lagless.ports import Schema
from tests.adapters import wrong_registry
from tests.adapters.wrong_registry import WrongRegistry, send

LEAST: dict[str, Any] = {"group": "orders", "topics": ["orders"], "lake": {"path": "lake"}}
TEXT = '{"type": "record", "name": "Order", "fields": []}'


@pytest.fixture
def server() -> Iterator[WrongRegistry]:
    with WrongRegistry() as running:
        yield running


def connected(server: WrongRegistry, **more: Any) -> SchemaRegistry:
    document = {**LEAST, "registry": {"url": server.url, "timeout": 5, **more}}
    return SchemaRegistry(settings.parse(document).registry)


def test_a_schema_is_asked_for_once(server: WrongRegistry) -> None:
    server.schemas[7] = {"schema": TEXT}
    server.schemas[8] = {"schema": "{}", "schemaType": "JSON", "references": None}
    registry = connected(server)
    assert registry.schema(7) == Schema("AVRO", TEXT)
    assert registry.schema(8) == Schema("JSON", "{}")
    assert registry.schema(7) == Schema("AVRO", TEXT)
    assert server.asked == ["/schemas/ids/7", "/schemas/ids/8"]


def test_an_address_may_have_a_path(server: WrongRegistry) -> None:
    registry = connected(server, url=f"{server.url}/apis/ccompat/v7/")
    assert registry.schema(7) is None
    assert server.asked == ["/apis/ccompat/v7/schemas/ids/7"]


def test_references_come_before_what_refers_to_them(server: WrongRegistry) -> None:
    def refer(*names: str) -> list[dict[str, Any]]:
        return [{"name": name, "subject": f"of {name}", "version": 1} for name in names]

    server.schemas[7] = {"schema": "top", "references": refer("a", "b")}
    server.versions["of%20a", 1] = {"schema": "a", "references": refer("c")}
    server.versions["of%20b", 1] = {"schema": "b", "references": refer("c", "a")}
    server.versions["of%20c", 1] = {"schema": "c"}
    assert connected(server).schema(7) == Schema("AVRO", "top", ("c", "a", "b"))
    assert len(server.asked) == 4


def test_references_in_a_circle_and_without_end_are_no_trap(server: WrongRegistry) -> None:
    circle = [{"name": "a", "subject": "a", "version": 1}]
    server.schemas[7] = {"schema": "top", "references": circle}
    server.versions["a", 1] = {"schema": "a", "references": circle}
    assert connected(server).schema(7) == Schema("AVRO", "top", ("a",))

    def endless(handler: BaseHTTPRequestHandler) -> None:
        more = {"name": "n", "subject": "n", "version": len(server.asked)}
        send(handler, 200, {"schema": "x", "references": [more]})

    server.answer = endless
    with pytest.raises(Away, match="more than 200 references"):
        connected(server).schema(8)


def test_an_id_that_does_not_exist_is_asked_for_again_later(
    server: WrongRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry = connected(server)
    assert registry.schema(7) is None
    server.schemas[7] = {"schema": TEXT}
    assert registry.schema(7) is None
    assert len(server.asked) == 1
    monkeypatch.setattr(schema_registry, "UNKNOWN_SECONDS", 0.0)
    another = connected(server)
    assert another.schema(8) is None
    server.schemas[8] = {"schema": TEXT}
    assert another.schema(8) == Schema("AVRO", TEXT)


ANSWERS: dict[str, tuple[Callable[[BaseHTTPRequestHandler], None], str]] = {
    "a page": (partial(send, status=200, body=b"<html>login</html>"), "answers .* with no JSON"),
    "a list": (partial(send, status=200, body=[1]), "with no schema: check registry.url"),
    "no schema": (partial(send, status=200, body={"schema": 7}), "with no schema"),
    "no kind": (partial(send, status=200, body={"schema": "", "schemaType": 7}), "schemaType"),
    "no references": (
        partial(send, status=200, body={"schema": "", "references": {"a": 1}}),
        "references that are not a list",
    ),
    "odd references": (
        partial(send, status=200, body={"schema": "", "references": [{"subject": "a"}]}),
        "a reference without subject or version",
    ),
    "deep": (partial(send, status=200, body=b"[" * 100_000), "with no JSON"),
    "large": (partial(send, status=200, body=b" " * 4_000_001), "more than 4,000,000 bytes"),
    "cut": (wrong_registry.cut, "does not answer: the answer is not HTTP|with no JSON"),
    "babble": (wrong_registry.babble, "does not answer: the answer is not HTTP"),
    "nothing there": (partial(send, status=404, body=b"not found"), r"\(404\): check registry.url"),
    "another 404": (partial(send, status=404, body={"error_code": 404}), r"Apicurio's ends in"),
    "wrong words": (partial(send, status=401, body={}), r"requires credentials: .* \(401\)"),
    "not allowed": (partial(send, status=403, body={}), r"does not allow .* \(403\)"),
    "busy": (partial(send, status=429, body={}), r"cannot answer .* \(429 Too Many Requests\)"),
    "broken": (partial(send, status=500, body=b""), r"cannot answer .* \(500 "),
    "elsewhere": (
        partial(send, status=302, body=b"", Location="http://other.example"),
        "redirects to http://other.example: set registry.url",
    ),
}


@pytest.mark.parametrize("case", ANSWERS)
def test_every_other_answer_is_waited_on_with_a_sentence(server: WrongRegistry, case: str) -> None:
    answer, words = ANSWERS[case]
    server.schemas[7] = {"schema": TEXT}
    server.answer = answer
    registry = connected(server)
    with pytest.raises(Away, match=words) as raised:
        registry.schema(7)
    assert raised.value.part == "registry"
    assert f"the schema registry at {server.url} " in str(raised.value)
    assert "\n" not in str(raised.value)
    server.answer = None
    assert registry.schema(7) == Schema("AVRO", TEXT)


# ---------------------------------------------------------------------- servers that differ

CONFLUENT = {"Content-Type": "application/vnd.schemaregistry.v1+json"}
KARAPACE = {"Content-Type": "application/json"}
SERVERS: dict[str, tuple[dict[str, str], Callable[[str, bool], tuple[int, Any]]]] = {}
"""What servers answer to a path, with the right credentials or without, and their content type."""


def server_of(name: str, headers: dict[str, str]) -> Callable[..., Any]:
    def keep(answers: Callable[[str, bool], tuple[int, Any]]) -> None:
        SERVERS[name] = headers, answers

    return keep


@server_of("confluent", CONFLUENT)
def confluent(path: str, allowed: bool) -> tuple[int, Any]:
    reference = {"name": "shop.Item", "subject": "shop/item:a b", "version": 2}
    match path if allowed else "":
        case "":
            return 401, {"error_code": 401, "message": "Unauthorized"}
        case "/subjects":
            return 200, ["orders-value"]
        case "/schemas/ids/1":
            # Its newest versions add the identity of the schema, and rules that do not matter here.
            more = {"guid": "a", "metadata": None, "ruleSet": None, "subject": "s", "version": 1}
            return 200, {"schema": TEXT, **more}
        case "/schemas/ids/2":
            return 200, {"schema": "{}", "schemaType": "JSON", "maxId": 3}
        case "/schemas/ids/3":
            return 200, {"schema": TEXT, "references": [reference]}
        case "/subjects/shop%2Fitem%3Aa%20b/versions/2":
            named = {"subject": reference["subject"], "version": 2, "id": 9}
            return 200, {**named, "schema": "item", "schemaType": "AVRO"}
        case "/schemas/ids/5":
            return 500, {"error_code": 50001, "message": "Error in the backend datastore"}
        case "/schemas/ids/6":
            return 403, {"error_code": 40301, "message": "User is denied operation Read"}
        case "/schemas/ids/7":
            return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}
    return 404, {"error_code": 40403, "message": "Schema 4 not found"}


@server_of("karapace", KARAPACE)
def karapace(path: str, allowed: bool) -> tuple[int, Any]:
    reference = {"name": "shop.Item", "subject": "shop/item:a b", "version": 2}
    match path if allowed else "":
        case "":
            return 401, {"message": "Unauthorized"}
        case "/subjects":
            return 200, []
        case "/schemas/ids/1":
            nothing = dict.fromkeys(("subjects", "schemaType", "references", "maxId"))
            return 200, {"schema": TEXT, **nothing}
        case "/schemas/ids/2":
            return 200, {"schema": "{}", "schemaType": "JSON"}
        case "/schemas/ids/3":
            return 200, {"schema": TEXT, "references": [reference]}
        case "/subjects/shop%2Fitem%3Aa%20b/versions/2":
            named = {"subject": reference["subject"], "version": 2, "id": 9}
            return 200, {**named, "schema": "item", "references": None, "compatibility": None}
        case "/schemas/ids/5":
            return 503, {"error_code": 50302, "message": "Kafka error"}
        case "/schemas/ids/6":
            return 403, {"message": "Forbidden"}
        case "/schemas/ids/7":
            return 404, {"error_code": 40401, "message": "Subject 'x' not found."}
    return 404, {"error_code": 40403, "message": "Schema not found"}


@pytest.mark.parametrize("auth", ["basic", "bearer"])
@pytest.mark.parametrize("name", SERVERS)
def test_servers_of_the_same_protocol_differ_in_what_does_not_matter(
    server: WrongRegistry, name: str, auth: str
) -> None:
    """Answer as documentation and sources of Confluent's and Karapace's servers say."""
    headers, answers = SERVERS[name]
    secret = "Bearer t0ken" if auth == "bearer" else "Basic YW5uOnB3"

    def answer(handler: BaseHTTPRequestHandler) -> None:
        accepted = {it.partition(";")[0].strip() for it in handler.headers["Accept"].split(",")}
        if not accepted & {CONFLUENT["Content-Type"], KARAPACE["Content-Type"]}:
            return send(handler, 406, {"message": "HTTP 406 Not Acceptable"}, **headers)
        status, body = answers(handler.path, handler.headers.get("Authorization") == secret)
        return send(handler, status, body, **headers)

    server.answer = answer

    def made(environ: dict[str, str]) -> SchemaRegistry:
        user = {"username": "ann"} if auth == "basic" else {}
        registry = {"url": server.url, "timeout": 5, "auth": auth, **user}
        document = {**LEAST, "registry": registry}
        return SchemaRegistry(settings.parse(document, environ=environ).registry)

    right = {"LAGLESS_REGISTRY__PASSWORD": "pw", "LAGLESS_REGISTRY__TOKEN": "t0ken"}
    registry = made(right)
    registry.check()
    assert registry.schema(1) == Schema("AVRO", TEXT)
    assert registry.schema(2) == Schema("JSON", "{}")
    assert registry.schema(3) == Schema("AVRO", TEXT, ("item",))
    assert registry.schema(4) is None
    for number, words in ((5, "cannot answer"), (6, r"does not allow .* \(403\)"), (7, r"\(404\)")):
        with pytest.raises(Away, match=words):
            registry.schema(number)
    wrong = made(dict.fromkeys(right, "wrong"))
    with pytest.raises(Away, match=r"rejects the (user ann or the password|token): check"):
        wrong.schema(1)


@pytest.mark.kafka
def test_a_real_registry_says_the_same(registry: Apicurio) -> None:
    from confluent_kafka.schema_registry import Schema as Registered
    from confluent_kafka.schema_registry import SchemaReference, SchemaRegistryClient

    client = SchemaRegistryClient({"url": registry.url})
    item = '{"type": "record", "name": "Item", "namespace": "shop", "fields": []}'
    order = '{"type": "record", "name": "Order", "fields": [{"name": "item", "type": "shop.Item"}]}'
    subject = "shop/item:a b"
    client.register_schema(subject, Registered(item, "AVRO"))
    refers = [SchemaReference("shop.Item", subject, 1)]
    number = client.register_schema("orders-value", Registered(order, "AVRO", refers))
    document = {**LEAST, "registry": {"url": registry.url}}
    ours = SchemaRegistry(settings.parse(document).registry)
    ours.check()
    found = ours.schema(number)
    assert found is not None
    assert (found.kind, len(found.references)) == ("AVRO", 1)
    assert '"shop"' in found.references[0]
    assert ours.schema(2_000_000_000) is None


@pytest.mark.parametrize("status", [200, 404, 500])
@profile(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(body=st.binary(max_size=60))
def test_no_bytes_are_taken_for_a_schema_or_raise_anything_else(
    server: WrongRegistry, status: int, body: bytes
) -> None:
    server.answer = partial(send, status=status, body=body)
    with pytest.raises(Away, match="the schema registry at"):
        connected(server).schema(7)


def test_one_that_is_slow_is_not_waited_for_longer_than_its_time(server: WrongRegistry) -> None:
    server.answer = wrong_registry.drip
    with pytest.raises(Away, match=r"does not answer: no complete answer within 0.3 s"):
        connected(server, timeout=0.3).schema(7)


def test_one_that_is_away_is_named(server: WrongRegistry) -> None:
    with WrongRegistry() as gone:
        registry = connected(gone)
    with pytest.raises(Away, match="does not answer: Connection refused"):
        registry.schema(7)
    unknown = connected(server, url="http://registry.invalid:8081")
    with pytest.raises(Away, match=r"registry at http://registry.invalid:8081 does not answer: "):
        unknown.schema(7)


def test_credentials_are_sent_and_asked_for_by_name(server: WrongRegistry, tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text("wört\n")
    server.schemas[7] = {"schema": TEXT}
    connected(server, auth="basic", username="ann", password_file=str(file)).schema(7)
    token = connected(server, auth="bearer", token_file=str(file))
    file.write_text("newer")
    token.schema(7)
    assert server.credentials == [
        f"Basic {base64.b64encode('ann:wört'.encode()).decode()}",
        "Bearer newer",
    ]
    server.answer = partial(send, status=401, body={})
    with pytest.raises(Away, match=r"rejects the token: check LAGLESS_REGISTRY__TOKEN"):
        token.schema(8)
    with pytest.raises(Away, match=r"rejects the user ann or the password: .*__PASSWORD"):
        connected(server, auth="basic", username="ann", password_file=str(file)).schema(7)
    with pytest.raises(
        WrongSettings, match=r"^registry.token: is missing; set LAGLESS_REGISTRY__T"
    ):
        connected(server, auth="bearer")


def test_a_check_says_whether_it_is_a_registry(server: WrongRegistry) -> None:
    connected(server).check()
    server.answer = partial(send, status=200, body={"hello": 1})
    with pytest.raises(Away, match="no list of subjects"):
        connected(server).check()
    server.answer = partial(send, status=404, body={"error_code": 40401})
    with pytest.raises(Away, match="no list of subjects"):
        connected(server).check()


def test_no_url_and_no_ca_are_settings_to_correct(tmp_path: Path) -> None:
    with pytest.raises(WrongSettings, match=r"^registry.url: is missing"):
        SchemaRegistry(settings.parse(LEAST).registry)
    document = {**LEAST, "registry": {"url": "https://r:1", "ca_file": str(tmp_path / "none")}}
    with pytest.raises(WrongSettings, match=r"^registry.ca_file: .* cannot be read"):
        SchemaRegistry(settings.parse(document).registry)


@pytest.mark.parametrize(
    ("part", "words"),
    [
        ({"url": "registry:8081"}, "should be http://host:port"),
        ({"url": "http://"}, "should be http://host:port"),
        ({"url": "http://[::1"}, "should be http://host:port"),
        ({"url": "http://h:99999"}, "should be http://host:port"),
        ({"url": "http://h?x=1"}, "should be http://host:port"),
        ({"url": "http://ann:pw@h"}, "credentials do not belong in an address"),
        ({"auth": "basic"}, "auth basic needs a username"),
        ({"username": "ann"}, "credentials need auth"),
        ({"password": "x"}, "secrets do not belong in the settings file; set LAGLESS_REGISTRY__P"),
        ({"token": "x"}, "set LAGLESS_REGISTRY__TOKEN or token_file"),
    ],
)
def test_settings_that_cannot_work_are_refused(part: dict[str, Any], words: str) -> None:
    with pytest.raises(WrongSettings, match=words):
        settings.parse({**LEAST, "registry": part})


def test_secrets_are_not_shown() -> None:
    environ = {"LAGLESS_REGISTRY__PASSWORD": "hush", "LAGLESS_REGISTRY__TOKEN": "psst"}
    document = {**LEAST, "registry": {"auth": "basic", "username": "ann"}}
    tree = settings.parse(document, environ=environ)
    assert tree.registry.authorization() == ("Basic", "ann:hush")
    assert "hush" not in repr(tree)
    assert "psst" not in tree.model_dump_json()
    # What looks like a list is a secret like any other.
    bearer = {**LEAST, "registry": {"auth": "bearer"}}
    listed = settings.parse(bearer, environ={"LAGLESS_REGISTRY__TOKEN": "[1234]"})
    assert listed.registry.authorization() == ("Bearer", "[1234]")
    with pytest.raises(WrongSettings) as raised:
        settings.parse({**document, "registry": {"token": "1234"}})
    assert "1234" not in str(raised.value)


def test_doctor_says_whether_the_registry_answers(server: WrongRegistry) -> None:
    def told(**registry: Any) -> list[tuple[bool, str]]:
        return list(doctor.CHECKS["registry"](settings.parse({**LEAST, "registry": registry})))

    assert told() == []
    assert told(url=server.url) == [(True, f"the schema registry at {server.url} answers")]
    server.answer = partial(send, status=401, body={})
    with pytest.raises(Away, match="requires credentials"):
        told(url=server.url)
