"""Encryption and authentication towards Kafka: set once, used by every client.

Secrets come from the environment or from files. They are kept as SecretStr, so neither `repr` nor
JSON shows them.
"""

from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator

from lagless.errors import WrongSettings

Protocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
Mechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]


class Security(BaseModel):
    """Encryption and authentication of every connection to Kafka."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    protocol: Protocol = Field("PLAINTEXT", description="Kafka's security protocol.")
    mechanism: Mechanism | None = Field(None, description="SASL mechanism, for SASL_* protocols.")
    username: str | None = Field(None, description="User name for PLAIN and SCRAM.")
    password: SecretStr | None = Field(
        None,
        description="Password for PLAIN and SCRAM; only from the environment "
        "(LAGLESS_KAFKA__SECURITY__PASSWORD), never from the settings file.",
    )
    password_file: Path | None = Field(None, description="File that holds the password.")
    ca_file: Path | None = Field(
        None, description="PEM file of the CA that signed the brokers' certificates."
    )
    certificate_file: Path | None = Field(None, description="PEM file of the client's certificate.")
    key_file: Path | None = Field(None, description="PEM file of the client's private key.")
    verify_hostname: bool = Field(
        True, description="Check that the broker's certificate matches its host name."
    )
    token_url: str | None = Field(None, description="Token endpoint for OAUTHBEARER.")
    client_id: str | None = Field(None, description="Client id for OAUTHBEARER.")
    client_secret: SecretStr | None = Field(
        None, description="Client secret for OAUTHBEARER; only from the environment."
    )
    client_secret_file: Path | None = Field(None, description="File that holds the client secret.")
    scope: str | None = Field(None, description="Scope requested with OAUTHBEARER.")

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.protocol.startswith("SASL") and self.mechanism is None:
            raise ValueError(f"protocol {self.protocol} needs a mechanism, such as SCRAM-SHA-512")
        if not self.protocol.startswith("SASL") and self.mechanism is not None:
            raise ValueError(
                f"mechanism {self.mechanism} needs protocol SASL_SSL or SASL_PLAINTEXT"
            )
        if self.mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512") and not self.username:
            raise ValueError(f"mechanism {self.mechanism} needs a username")
        if self.mechanism == "OAUTHBEARER" and not (self.token_url and self.client_id):
            raise ValueError("mechanism OAUTHBEARER needs token_url and client_id")
        return self

    def read_password(self) -> str:
        """Return the password from the environment or its file."""
        return read_secret(self.password, self.password_file, "kafka.security.password")

    def read_client_secret(self) -> str:
        """Return the client secret from the environment or its file."""
        return read_secret(
            self.client_secret, self.client_secret_file, "kafka.security.client_secret"
        )


def read_secret(value: SecretStr | None, file: Path | None, key: str) -> str:
    """Return a secret from the environment or its file; `key` is its setting."""
    if value is not None:
        return value.get_secret_value()
    if file is None:
        raise WrongSettings(
            f"{key}: is missing; set LAGLESS_{key.upper().replace('.', '__')} or {key}_file"
        )
    try:
        return file.read_text().rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise WrongSettings(
            f"{key}_file: {file} cannot be read; it should contain only the secret"
        ) from error
