"""From one set of settings to the configuration of every client that talks to Kafka.

confluent-kafka, kafka-python and Spark's Kafka source name the same things differently. Secrets
leave here as Hidden, whose `repr` shows nothing: kafka-python writes its configuration to its log.
"""

import json
import logging
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from base64 import b64encode
from pathlib import Path
from typing import Any

from lagless.errors import TryAgain, WrongSettings
from lagless.settings import KafkaSettings, Security

CLIENT_ID = "lagless"
log = logging.getLogger("lagless.kafka")


class Hidden(str):
    """A string that only clients see: neither `repr` nor a printed dictionary shows it."""

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
        # Reconnect soon after a broker is back: roles have their own growing pauses.
        "reconnect.backoff.max.ms": 2000,
        "socket.timeout.ms": 10_000,
    }
    if security.protocol.endswith("SSL"):
        files = {
            "ssl.ca.location": security.ca_file,
            "ssl.certificate.location": security.certificate_file,
            "ssl.key.location": security.key_file,
        }
        config |= {name: str(_readable(file, name)) for name, file in files.items() if file}
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
        # Importing kafka-python takes a tenth of a consumer's start, and consumers do not use it.
        from kafka.net.sasl.oauth import AbstractTokenProvider

        AbstractTokenProvider.register(Provider)
        config["sasl_oauth_token_provider"] = Provider(security)
    elif security.mechanism is not None:
        config["sasl_plain_username"] = security.username
        config["sasl_plain_password"] = Hidden(security.read_password())
    return config | more


def spark(kafka: KafkaSettings) -> dict[str, str]:
    """Return the options of Spark's Kafka source, with PEM files inlined: executors lack them."""
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
        try:
            context.load_cert_chain(security.certificate_file, security.key_file)
        except OSError as error:
            raise WrongSettings(
                f"kafka.security.certificate_file: {security.certificate_file} and its key "
                "cannot be used; expected a PEM certificate and its private key"
            ) from error
    return context


def _readable(file: Path, name: str) -> Path:
    if not file.is_file():
        raise WrongSettings(f"kafka.security: {name}: file {file} does not exist; expected PEM")
    return file


def _content(file: Path, name: str) -> str:
    return _readable(file, name).read_text()


EARLY = 60.0
"""Seconds before its end at which a new token is fetched."""


class Provider:
    """Fetch a token with the client's id and secret, and keep it until shortly before its end.

    It is what kafka-python takes for an AbstractTokenProvider.
    """

    def __init__(self, security: Security) -> None:
        self._security = security
        self._token = ""  # nosec B105  # none yet
        self._ends_at = 0.0

    def __repr__(self) -> str:
        return "Provider(…)"

    def extensions(self) -> dict[str, str]:
        """Return nothing more to send with a token."""
        return {}

    def token(self) -> str:
        """Return a token that is valid now."""
        if time.monotonic() < self._ends_at:
            return self._token
        security = self._security
        form = {"grant_type": "client_credentials"}
        if security.scope is not None:
            form["scope"] = security.scope
        pair = f"{security.client_id}:{security.read_client_secret()}"
        request = urllib.request.Request(
            security.token_url or "",
            data=urllib.parse.urlencode(form).encode(),
            headers={"Authorization": "Basic " + b64encode(pair.encode()).decode()},
        )
        try:
            with urllib.request.urlopen(request, timeout=10) as response:  # nosec B310  # of the settings
                answer = json.load(response)
            self._token = str(answer["access_token"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise TryAgain(
                f"{security.token_url} issued no token for client {security.client_id}: "
                f"{type(error).__name__}"
            ) from error
        lifetime = float(answer.get("expires_in", 2 * EARLY))
        self._ends_at = time.monotonic() + max(lifetime - EARLY, lifetime / 2)
        return self._token
