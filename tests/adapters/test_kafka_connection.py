"""One set of security settings, three clients, and no secret in sight."""

import json
import logging
import ssl
from pathlib import Path
from typing import Any

import pytest

from lagless.adapters.kafka import connection
from lagless.errors import WrongSettings
from lagless.settings import KafkaSettings, Settings, load, parse

SECRET = 'pa"ss\\wo;rd'
SCRAM = {"protocol": "SASL_SSL", "mechanism": "SCRAM-SHA-512", "username": "ann"}
OAUTH = {
    "protocol": "SASL_SSL",
    "mechanism": "OAUTHBEARER",
    "token_url": "https://127.0.0.1/token",
    "client_id": "lagless",
    "scope": "kafka",
}


def settings(security: dict[str, Any], environ: dict[str, str] | None = None) -> Settings:
    document = {
        "group": "orders",
        "topics": ["orders"],
        "lake": {"path": "lake"},
        "kafka": {"security": security},
    }
    return parse(document, environ=environ)


def with_password(**security: Any) -> KafkaSettings:
    return settings(
        {**SCRAM, **security}, {"LAGLESS_KAFKA__SECURITY__PASSWORD": json.dumps(SECRET)}
    ).kafka


def test_plain_text_needs_nothing() -> None:
    kafka = settings({}).kafka
    assert connection.confluent(kafka)["security.protocol"] == "PLAINTEXT"
    assert connection.kafka_python(kafka)["bootstrap_servers"] == ["127.0.0.1:9092"]
    assert connection.spark(kafka)["kafka.bootstrap.servers"] == "127.0.0.1:9092"


def test_every_client_gets_user_and_password() -> None:
    kafka = with_password()
    assert connection.confluent(kafka)["sasl.password"] == SECRET
    assert connection.confluent(kafka)["sasl.username"] == "ann"
    assert connection.kafka_python(kafka)["sasl_plain_password"] == SECRET
    jaas = connection.spark(kafka)["kafka.sasl.jaas.config"]
    assert str(jaas) == (
        "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="ann" password="pa\\"ss\\\\wo;rd";'
    )


def test_plain_has_a_login_module_of_its_own() -> None:
    jaas = connection.spark(with_password(mechanism="PLAIN"))["kafka.sasl.jaas.config"]
    assert "plain.PlainLoginModule" in str(jaas)


@pytest.mark.parametrize("make", [connection.confluent, connection.kafka_python, connection.spark])
def test_no_secret_is_shown(make: Any, tmp_path: Path) -> None:
    kafka = with_password()
    config = make(kafka)
    for text in (repr(kafka), str(kafka), kafka.model_dump_json(), repr(config), f"{config}"):
        assert SECRET not in text
        assert "wo;rd" not in text


def test_kafka_python_writes_its_configuration_to_the_log_without_the_secret(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.DEBUG, "kafka"):
        logging.getLogger("kafka").debug(
            "configuration: %s", connection.kafka_python(with_password())
        )
    assert "configuration" in caplog.text
    assert "wo;rd" not in caplog.text


def test_a_password_comes_from_a_file_too(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text(SECRET + "\n")
    kafka = settings({**SCRAM, "password_file": str(file)}).kafka
    assert connection.confluent(kafka)["sasl.password"] == SECRET


def test_a_missing_password_names_the_variable() -> None:
    with pytest.raises(WrongSettings, match="LAGLESS_KAFKA__SECURITY__PASSWORD"):
        connection.confluent(settings(SCRAM).kafka)
    with pytest.raises(WrongSettings, match="password_file"):
        connection.confluent(settings({**SCRAM, "password_file": "/nowhere"}).kafka)


def test_a_password_in_the_file_of_settings_is_refused_without_repeating_it(tmp_path: Path) -> None:
    file = tmp_path / "lagless.toml"
    file.write_text(
        'group = "g"\ntopics = ["t"]\n[lake]\npath = "x"\n'
        '[kafka.security]\nprotocol = "SASL_SSL"\npassword = "geheim"\n'
    )
    with pytest.raises(WrongSettings) as error:
        load(file, environ={})
    assert "geheim" not in str(error.value)


def test_oauth_reaches_every_client(monkeypatch: pytest.MonkeyPatch) -> None:
    kafka = settings(OAUTH, {"LAGLESS_KAFKA__SECURITY__CLIENT_SECRET": '"hush"'}).kafka
    config = connection.confluent(kafka)
    assert config["sasl.oauthbearer.method"] == "oidc"
    assert config["sasl.oauthbearer.client.secret"] == "hush"
    assert config["sasl.oauthbearer.scope"] == "kafka"
    options = connection.spark(kafka)
    assert 'clientSecret="hush"' in str(options["kafka.sasl.jaas.config"])
    assert options["kafka.sasl.oauthbearer.token.endpoint.url"] == OAUTH["token_url"]
    told = repr((config, options, connection.kafka_python(kafka)))
    assert "hush" not in told


def test_files_that_are_not_there_are_named(tmp_path: Path) -> None:
    kafka = with_password(ca_file=str(tmp_path / "ca.pem"))
    for make in (connection.confluent, connection.kafka_python, connection.spark):
        with pytest.raises(WrongSettings, match=r"ca\.pem"):
            make(kafka)


def test_the_name_of_the_broker_is_checked_unless_told_otherwise() -> None:
    checked, free = with_password(), with_password(verify_hostname=False)
    name = "ssl.endpoint.identification.algorithm"
    assert connection.confluent(checked)[name] == "https"
    assert connection.confluent(free)[name] == "none"
    assert connection.spark(free)[f"kafka.{name}"] == ""
    context = connection.kafka_python(free)["ssl_context"]
    assert not context.check_hostname
    assert context.verify_mode == ssl.CERT_REQUIRED


def test_more_is_laid_over_with_dots_for_underscores() -> None:
    config = connection.confluent(settings({}).kafka, enable_idempotence=True)
    assert config["enable.idempotence"] is True
