"""A broker with TLS, SASL and ACLs: exactly the rights that the docs list, with every client."""

import base64
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclBindingFilter, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
from confluent_kafka.admin._scram import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from confluent_kafka.cimpl import NewTopic

from lagless.adapters.kafka import (
    connection,
    contact,
    log_sizes,
    mail,
    rights,
    speeds,
    topic_records,
    topics,
)
from lagless.adapters.kafka.log_sizes import LogSizes
from lagless.errors import GiveUp, LaglessError, TryAgain
from lagless.messages import ConsumerState, Order, Receipt, WriteSpeeds
from lagless.model import TopicPartition
from lagless.operations import group_survey
from lagless.settings import Settings, parse
from lagless.wiring.clock import RealClock
from tests.certificates import certificates
from tests.waiting import until

if TYPE_CHECKING:
    from lagless.lab.parts.broker import Broker

pytestmark = [pytest.mark.kafka, pytest.mark.slow]
PASSWORD = 'open "sesame"\\now'
CLIENT = {"certificate_file": "pem", "key_file": "key"}
MECHANISMS = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN", "OAUTHBEARER", "mTLS")
KINDS = {
    "cluster": ResourceType.BROKER,
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional-id": ResourceType.TRANSACTIONAL_ID,
}


class Tokens(BaseHTTPRequestHandler):
    """A token endpoint that knows one client."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        wanted = base64.b64encode(b"ann:hush").decode()
        fine = self.headers.get("Authorization") == f"Basic {wanted}"
        now = int(time.time())
        claims = {"sub": "ann", "iat": now, "exp": now + 3600, "scope": "kafka"}
        parts = [
            base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")
            for part in ({"alg": "none"}, claims)
        ]
        answer = {"access_token": ".".join([*parts, ""]), "expires_in": 3600}
        body = json.dumps(answer if fine else {"error": "invalid_client"}).encode()
        self.send_response(200 if fine else 401)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@dataclass
class Fortress:
    """A broker with locks."""

    broker: "Broker"
    folder: Path
    token_url: str

    @cached_property
    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.broker.bootstrap})

    def settings(
        self, group: str, topic: str, password: str = PASSWORD, **security: Any
    ) -> Settings:
        kind = security.get("mechanism", "SCRAM-SHA-512")
        listener = {"OAUTHBEARER": "OAUTH", "mTLS": "MTLS"}.get(kind, "SASL_SSL")
        common = {"protocol": "SASL_SSL", "mechanism": kind, "ca_file": str(self.folder / "ca.pem")}
        if kind == "mTLS":
            own = {name: str(self.folder / f"ann.{end}") for name, end in CLIENT.items()}
            common |= {"protocol": "SSL", **own}
            del common["mechanism"]
            security = {k: v for k, v in security.items() if k != "mechanism"}
        elif kind == "OAUTHBEARER":
            common |= {
                "protocol": "SASL_PLAINTEXT",
                "token_url": self.token_url,
                "client_id": "ann",
                "scope": "kafka",
            }
        else:
            common |= {"username": "ann"}
        return parse(
            {
                "group": group,
                "topics": [topic],
                "lake": {"path": "lake"},
                "kafka": {
                    "bootstrap": self.broker.listeners[listener],
                    "security": common | security,
                },
                "monitor": {"topic": f"{group}-speeds"},
                "controller": {"metadata_topic": f"{group}-mail"},
            },
            environ={
                "LAGLESS_KAFKA__SECURITY__PASSWORD": json.dumps(password),
                "LAGLESS_KAFKA__SECURITY__CLIENT_SECRET": '"hush"',
            },
        )

    def make_topic(self, name: str) -> None:
        self.admin.create_topics([NewTopic(name, 2, 1)])[name].result(30)

    def grant(self, user: str, given: set[rights.Right]) -> None:
        """Grant a user exactly these rights; forget all others."""
        anything = AclBindingFilter(
            ResourceType.ANY,
            None,  # type: ignore[arg-type]  # any name; its types do not know
            ResourcePatternType.ANY,
            f"User:{user}",
            None,  # type: ignore[arg-type]  # any host; its types do not know
            AclOperation.ANY,
            AclPermissionType.ANY,
        )
        for future in self.admin.delete_acls([anything]).values():
            future.result(30)
        bindings = {
            AclBinding(
                KINDS[right.kind],
                right.name,
                ResourcePatternType.PREFIXED if right.prefixed else ResourcePatternType.LITERAL,
                f"User:{user}",
                "*",
                AclOperation[right.operation.upper()],
                AclPermissionType.ALLOW,
            )
            for right in given
        }
        if bindings:
            for future in self.admin.create_acls(list(bindings)).values():
                future.result(30)
        time.sleep(0.5)  # the broker hears of it a moment later


@pytest.fixture(scope="module")
def fortress(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fortress]:
    """Run a broker with a TLS listener for SCRAM and PLAIN, one for tokens, and ACLs."""
    from lagless.lab.parts.broker import Broker

    folder = tmp_path_factory.mktemp("keys")
    certificates(folder)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Tokens)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    package = "org.apache.kafka.common.security"
    word = PASSWORD.replace("\\", "\\\\").replace('"', '\\"').replace("\\", "\\\\")
    config = {
        "listeners": "SASL_SSL://127.0.0.1:0,OAUTH://127.0.0.1:0,MTLS://127.0.0.1:0",
        "listener.security.protocol.map": "OAUTH:SASL_PLAINTEXT,MTLS:SSL",
        "listener.name.mtls.ssl.client.auth": "required",
        "ssl.principal.mapping.rules": "RULE:^CN=([^,]*).*$/$1/",
        "sasl.enabled.mechanisms": "SCRAM-SHA-512,SCRAM-SHA-256,PLAIN",
        "listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config": f"{package}.scram."
        "ScramLoginModule required;",
        "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": f"{package}.scram."
        "ScramLoginModule required;",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": f"{package}.plain.PlainLoginModule "
        f'required user_ann="{word}";',
        "listener.name.oauth.sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.oauth.oauthbearer.sasl.jaas.config": f"{package}.oauthbearer."
        'OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="kafka";',
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "keystore.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder / "ca.pem"),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with Broker(settings=config) as broker:
        made = Fortress(broker, folder, f"http://127.0.0.1:{server.server_address[1]}/token")
        for kind in (ScramMechanism.SCRAM_SHA_512, ScramMechanism.SCRAM_SHA_256):
            user = UserScramCredentialUpsertion(
                "ann", ScramCredentialInfo(kind, 4096), PASSWORD.encode()
            )
            made.admin.alter_user_scram_credentials([user])["ann"].result(30)
        yield made
    server.shutdown()
    server.server_close()


def live(settings: Settings, topic: str) -> None:
    """Do what the three roles do at the broker."""
    sizes = LogSizes(settings)
    try:
        measurement = sizes.measure()
        assert {p.topic for p in measurement.sizes} == {topic}
        assert not measurement.failed
    finally:
        sizes.close()
    out, latest = speeds.SpeedsOut(settings), speeds.LatestSpeeds(settings)
    published = WriteSpeeds(group=settings.group, at=1, window=30, speeds={topic: {0: 1.0}})
    out.publish(published)
    assert latest.latest() == published
    topics.ensure(settings)
    assert topics.grow(settings, topics.ROOM + 1) > topics.ROOM + 1
    box = mail.ConsumerMailbox(settings, 1)
    try:
        common: dict[str, Any] = {
            "group": settings.group,
            "consumer": 1,
            "incarnation": "i",
            "at": 1,
        }
        state = ConsumerState(highest=1, **common)
        box.persist(state)
        assert box.recall() == state
        box.send(Receipt(kind="start", generation=1, highest=1, **common))
        order = Order(kind="start", generation=1, **common)
        producer = topic_records.producer(settings.kafka, transactional_id=settings.leader_topic)
        producer.init_transactions(30)
        producer.begin_transaction()
        producer.produce(settings.controller.metadata_topic, order.encode(), partition=1)
        producer.produce(settings.event_topic, b"{}", partition=0)
        producer.commit_transaction(30)
        assert box.receive(10) == [order]
        reader = topic_records.Reader(settings.kafka, topic, 0, "beginning", settings.group)
        reader.close()
    finally:
        box.close()
        out.close()
        latest.close()


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_rights_that_the_docs_list_are_enough(fortress: Fortress, mechanism: str) -> None:
    group = f"g{mechanism.lower().replace('-', '')}"
    topic = f"{group}read"
    fortress.make_topic(topic)
    settings = fortress.settings(group, topic, mechanism=mechanism)
    fortress.grant("ann", set(rights.needed(settings, [topic])))
    live(settings, topic)
    assert rights.check(settings) == []


def test_each_missing_right_is_named(fortress: Fortress) -> None:
    fortress.make_topic("named")
    settings = fortress.settings("gname", "named")
    every = set(rights.needed(settings, ["named"]))
    fortress.grant("ann", every)
    topics.ensure(settings)
    same = {(r.kind, r.name, r.operation, r.prefixed): r for r in every}
    for key, right in same.items():
        kept = {r for r in every if (r.kind, r.name, r.operation, r.prefixed) != key}
        if any(implies(other, right) for other in kept):
            continue
        fortress.grant("ann", kept)
        problems = rights.check(settings)
        if right.operation == "Create":
            assert problems == []  # the topics are there
            continue
        assert problems, f"{right} was not missed"
        assert all(f"the ACL for {right.operation} is missing" in words for words in problems)
        assert all("--allow-principal User:ann" in words for words in problems)


def implies(held: rights.Right, wanted: rights.Right) -> bool:
    """Return whether one right brings the other along."""
    brings = wanted.operation == "Describe" and held.operation in ("Read", "Write", "Alter")
    return brings and (held.kind, held.name) == (wanted.kind, wanted.name)


def test_the_right_to_make_topics_is_missed_before_they_are_there(fortress: Fortress) -> None:
    fortress.make_topic("bare")
    settings = fortress.settings("gbare", "bare")
    fortress.grant("ann", set())
    problems = "\n".join(rights.check(settings))
    for words in (
        "the cluster: the ACL for Describe",
        "topic bare: the ACL for Read",
        "group gbare",
    ):
        assert words in problems
    for own in settings.own_topics:
        assert f"topic {own}: the ACL for " in problems
    assert "transactional-id gbare.: the ACL for Write" in problems


def test_without_rights_roles_end_with_a_sentence(fortress: Fortress) -> None:
    fortress.make_topic("shut")
    settings = fortress.settings("gshut", "shut")
    fortress.grant("ann", set())
    out = speeds.SpeedsOut(settings)
    with pytest.raises(GiveUp, match="ACLs"):
        out.publish(WriteSpeeds(group="gshut", at=1, window=30, speeds={}))
    out.close()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give up soon: the clients try again until then, also where they were refused."""
    monkeypatch.setattr(log_sizes, "PATIENCE", 4.0)
    monkeypatch.setattr(topics, "TIMEOUT", 4.0)


@pytest.mark.usefixtures("impatient")
def test_a_wrong_password_is_refused_and_not_repeated(fortress: Fortress) -> None:
    settings = fortress.settings("gwrong", "x", password="wrong" + PASSWORD)
    sizes = LogSizes(settings)
    with pytest.raises(LaglessError) as error:
        sizes.measure()
    assert PASSWORD not in str(error.value)
    with pytest.raises((GiveUp, TryAgain)) as second:
        topics.ensure(settings)
    assert PASSWORD not in str(second.value)


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN"])
def test_a_wrong_password_is_told_at_first_contact(fortress: Fortress, mechanism: str) -> None:
    settings = fortress.settings("gwrong", "x", password="wrong", mechanism=mechanism)
    with pytest.raises(GiveUp, match=r"rejects user ann or the password .*kafka\.security"):
        contact.reach(settings.kafka)
    contact.reach(fortress.settings("gwrong", "x", mechanism=mechanism).kafka)


def test_a_client_without_an_account_is_told_at_first_contact(fortress: Fortress) -> None:
    settings = fortress.settings("gwrong", "x", mechanism="OAUTHBEARER", client_id="eve")
    with pytest.raises(GiveUp, match="client eve"):
        contact.reach(settings.kafka)
    contact.reach(fortress.settings("gwrong", "x", mechanism="OAUTHBEARER").kafka)


def test_a_missing_or_foreign_certificate_is_told_at_first_contact(
    fortress: Fortress, tmp_path: Path
) -> None:
    certificates(tmp_path)
    foreign = {name: str(tmp_path / f"ann.{end}") for name, end in CLIENT.items()}
    for other in ({"certificate_file": None, "key_file": None}, foreign):
        settings = fortress.settings("gcert", "x", mechanism="mTLS", **other)
        with pytest.raises(LaglessError, match=r"certificate") as error:
            contact.reach(settings.kafka)
        assert "kafka.security" in str(error.value)
    contact.reach(fortress.settings("gcert", "x", mechanism="mTLS").kafka)


def test_a_missing_right_of_a_certificate_names_its_file(fortress: Fortress) -> None:
    fortress.make_topic("cert")
    settings = fortress.settings("gcert", "cert", mechanism="mTLS")
    fortress.grant("ann", set())
    problems = rights.check(settings)
    assert problems
    assert all("'User:<principal of " in words and "ann.pem>'" in words for words in problems)


@pytest.mark.usefixtures("impatient")
def test_a_broker_of_another_authority_is_not_trusted(fortress: Fortress, tmp_path: Path) -> None:
    certificates(tmp_path)
    settings = fortress.settings("gtrust", "x", ca_file=str(tmp_path / "ca.pem"))
    with pytest.raises(LaglessError):
        LogSizes(settings).measure()
    with pytest.raises(TryAgain, match="certificate"):
        contact.reach(settings.kafka)


@pytest.mark.spark
@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN", "mTLS"])
def test_spark_reads_with_the_same_settings(fortress: Fortress, spark: Any, mechanism: str) -> None:
    topic = f"sparkling-{mechanism.lower()}"
    fortress.make_topic(topic)
    settings = fortress.settings("gspark", topic, mechanism=mechanism)
    fortress.grant("ann", set(rights.needed(settings, [topic])))
    plain = parse(
        {
            "group": "x",
            "topics": ["x"],
            "lake": {"path": "x"},
            "kafka": {"bootstrap": fortress.broker.bootstrap},
        }
    )
    topic_records.Writer(plain.kafka).write(topic, 1, b"hello")
    frame = (
        spark.read.format("kafka")
        .options(**connection.spark(settings.kafka))
        .option("kafka.group.id", "gspark.reader")
        .option("assign", json.dumps({topic: [0, 1]}))
        .load()
    )
    assert [bytes(row.value) for row in frame.collect()] == [b"hello"]


def test_describe_alone_is_enough_to_survey_a_group(fortress: Fortress) -> None:
    fortress.make_topic("seen")
    settings = fortress.settings("gseen", "seen")
    config = {"bootstrap.servers": fortress.broker.bootstrap}
    member, producer = Consumer(config | {"group.id": "gseen"}), Producer(config)
    member.subscribe(["seen"])
    until(lambda: member.poll(0.5) is None and len(member.assignment()) == 2, "both partitions")
    look = [
        rights.Right("cluster", "kafka-cluster", "Describe", "monitor"),
        rights.Right("topic", "seen", "Describe", "monitor"),
        rights.Right("group", "gseen", "Describe", "monitor"),
    ]
    fortress.grant("ann", set(look))
    subject = group_survey.subject(settings)
    assert subject.topics == ("seen",)

    def write(_: float) -> None:
        producer.produce("seen", b"x" * 10_000, partition=1)
        producer.flush(10)
        member.poll(0)

    surveyor = group_survey.Surveyor(settings, 12, RealClock())
    survey = surveyor.run(threading.Event(), write)
    assert survey.group.members[0].held == {TopicPartition("seen", k) for k in (0, 1)}
    assert survey.speeds[-1][1] > 1000
    assert survey.speeds[-1][0] == 0
    assert survey.holders[-1] == (survey.group.members[0].name,) * 2

    fortress.grant("ann", set(look[1:]))
    with pytest.raises(GiveUp, match="--allow-principal User:ann --operation Describe --cluster"):
        group_survey.Surveyor(settings, 12, RealClock()).run(threading.Event(), write)
    fortress.grant("ann", set(look[:2]))
    with pytest.raises(GiveUp, match="ACLs"):
        group_survey.subject(settings)
    member.close()
