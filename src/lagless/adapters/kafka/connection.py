"""From one set of settings to the configuration of every client that talks to Kafka.

confluent-kafka, kafka-python and Spark's Kafka source name the same things differently. Secrets
leave here as Hidden, whose `repr` shows nothing: kafka-python writes its configuration to its log.
"""

import logging
import ssl
from pathlib import Path
from typing import Any

from lagless.errors import WrongSettings
from lagless.settings import KafkaSettings, Security

CLIENT_ID = "lagless"
log = logging.getLogger("lagless.kafka")


class Hidden(str):
    """A text for clients alone: neither `repr` nor a printed dictionary shows it."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "'**********'"


def confluent(kafka: KafkaSettings, **more: Any) -> dict[str, Any]:
    """Configure a client of confluent-kafka; `more` has "_" where Kafka's names have "."."""
    security = kafka.security
    config: dict[str, Any] = {
        "bootstrap.servers": kafka.bootstrap,
        "client.id": CLIENT_ID,
        "security.protocol": security.protocol,
        "logger": log,
        # Come back soon after a broker did: roles have their own growing pauses.
        "reconnect.backoff.max.ms": 2000,
        "socket.timeout.ms": 10_000,
    }
    if security.protocol.endswith("SSL"):
        for name, file in (
            ("ssl.ca.location", security.ca_file),
            ("ssl.certificate.location", security.certificate_file),
            ("ssl.key.location", security.key_file),
        ):
            if file is not None:
                config[name] = str(_readable(file, name))
        config["ssl.endpoint.identification.algorithm"] = (
            "https" if security.verify_hostname else "none"
        )
    if security.mechanism is not None:
        config["sasl.mechanism"] = security.mechanism
    if security.mechanism == "OAUTHBEARER":
        config |= {
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.token.endpoint.url": security.token_url,
            "sasl.oauthbearer.client.id": security.client_id,
            "sasl.oauthbearer.client.secret": Hidden(security.read_client_secret()),
        }
        if security.scope is not None:
            config["sasl.oauthbearer.scope"] = security.scope
    elif security.mechanism is not None:
        config["sasl.username"] = security.username
        config["sasl.password"] = Hidden(security.read_password())
    return config | {name.replace("_", "."): value for name, value in more.items()}


def kafka_python(kafka: KafkaSettings, **more: Any) -> dict[str, Any]:
    """Configure a client of kafka-python."""
    security = kafka.security
    config: dict[str, Any] = {
        "bootstrap_servers": [server.strip() for server in kafka.bootstrap.split(",")],
        "client_id": CLIENT_ID,
        "security_protocol": security.protocol,
        "reconnect_backoff_max_ms": 2000,
    }
    if security.protocol.endswith("SSL"):
        config["ssl_context"] = _ssl_context(security)
        config["ssl_check_hostname"] = security.verify_hostname
    if security.mechanism is not None:
        config["sasl_mechanism"] = security.mechanism
    if security.mechanism == "OAUTHBEARER":
        from lagless.adapters.kafka import tokens  # needs kafka-python

        config["sasl_oauth_token_provider"] = tokens.Provider(security)
    elif security.mechanism is not None:
        config["sasl_plain_username"] = security.username
        config["sasl_plain_password"] = Hidden(security.read_password())
    return config | more


def spark(kafka: KafkaSettings) -> dict[str, str]:
    """Give the options of Spark's Kafka source, PEM files by content: executors lack the files."""
    security = kafka.security
    options = {
        "kafka.bootstrap.servers": kafka.bootstrap,
        "kafka.security.protocol": security.protocol,
        "kafka.client.id": CLIENT_ID,
    }
    if security.protocol.endswith("SSL"):
        if security.ca_file is not None:
            options["kafka.ssl.truststore.type"] = "PEM"
            options["kafka.ssl.truststore.certificates"] = _content(security.ca_file, "ca_file")
        if security.certificate_file is not None and security.key_file is not None:
            options["kafka.ssl.keystore.type"] = "PEM"
            options["kafka.ssl.keystore.certificate.chain"] = _content(
                security.certificate_file, "certificate_file"
            )
            options["kafka.ssl.keystore.key"] = Hidden(_content(security.key_file, "key_file"))
        options["kafka.ssl.endpoint.identification.algorithm"] = (
            "https" if security.verify_hostname else ""
        )
    if security.mechanism is None:
        return options
    options["kafka.sasl.mechanism"] = security.mechanism
    package = "org.apache.kafka.common.security"
    if security.mechanism == "OAUTHBEARER":
        words = {"clientId": security.client_id, "clientSecret": security.read_client_secret()}
        if security.scope is not None:
            words["scope"] = security.scope
        module = f"{package}.oauthbearer.OAuthBearerLoginModule"
        options["kafka.sasl.oauthbearer.token.endpoint.url"] = security.token_url or ""
        options["kafka.sasl.login.callback.handler.class"] = (
            f"{package}.oauthbearer.OAuthBearerLoginCallbackHandler"
        )
    else:
        words = {"username": security.username, "password": security.read_password()}
        kind = "plain.Plain" if security.mechanism == "PLAIN" else "scram.Scram"
        module = f"{package}.{kind}LoginModule"
    options["kafka.sasl.jaas.config"] = Hidden(
        f"{module} required {' '.join(f'{key}={_quoted(word)}' for key, word in words.items())};"
    )
    return options


def _quoted(word: str | None) -> str:
    """Quote a word for JAAS, where a quote or a backslash would end or bend it."""
    return '"' + (word or "").replace("\\", "\\\\").replace('"', '\\"') + '"'


def _ssl_context(security: Security) -> ssl.SSLContext:
    context = ssl.create_default_context(
        cafile=None if security.ca_file is None else str(_readable(security.ca_file, "ca_file"))
    )
    context.check_hostname = security.verify_hostname
    if security.certificate_file is not None:
        key = security.key_file
        try:
            context.load_cert_chain(security.certificate_file, key)
        except (OSError, ssl.SSLError) as error:
            raise WrongSettings(
                f"kafka.security.certificate_file: {security.certificate_file} and its key "
                "cannot be used; they should be a PEM certificate and the key that belongs to it"
            ) from error
    return context


def _readable(file: Path, name: str) -> Path:
    if not file.is_file():
        raise WrongSettings(f"kafka.security: {name}: there is no file {file}; it should be PEM")
    return file


def _content(file: Path, name: str) -> str:
    return _readable(file, name).read_text()
