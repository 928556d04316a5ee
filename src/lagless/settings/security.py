"""How to reach Kafka safely: given once, used alike by every client.

Secrets come from the environment or from files, and are kept as SecretStr, which neither `repr`
nor JSON shows.
"""

from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, SecretStr, model_validator

from lagless.errors import WrongSettings

Protocol = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
Mechanism = Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]


class Security(BaseModel):
    """The security of the connection to Kafka."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    protocol: Protocol = Field("PLAINTEXT", description="Kafka's security protocol.")
    mechanism: Mechanism | None = Field(None, description="The SASL mechanism, for SASL_*.")
    username: str | None = Field(None, description="User for PLAIN and SCRAM.")
    password: SecretStr | None = Field(
        None,
        description="Password for PLAIN and SCRAM; only from the environment "
        "(LAGLESS_KAFKA__SECURITY__PASSWORD), never from the settings file.",
    )
    password_file: Path | None = Field(None, description="File that holds the password.")
    ca_file: Path | None = Field(None, description="PEM file of the authority that signed Kafka.")
    certificate_file: Path | None = Field(None, description="PEM file of the client's certificate.")
    key_file: Path | None = Field(None, description="PEM file of the client's private key.")
    verify_hostname: bool = Field(True, description="Check that the certificate names the broker.")
    token_url: str | None = Field(None, description="Token endpoint for OAUTHBEARER.")
    client_id: str | None = Field(None, description="Client id for OAUTHBEARER.")
    client_secret: SecretStr | None = Field(
        None, description="Client secret for OAUTHBEARER; only from the environment."
    )
    client_secret_file: Path | None = Field(None, description="File that holds the client secret.")
    scope: str | None = Field(None, description="Scope asked for with OAUTHBEARER.")

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.protocol.startswith("SASL") and self.mechanism is None:
            raise ValueError(f"protocol {self.protocol} needs a mechanism, SCRAM-SHA-512 say")
        if not self.protocol.startswith("SASL") and self.mechanism is not None:
            raise ValueError(f"mechanism {self.mechanism} needs the protocol SASL_SSL")
        if self.mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512") and not self.username:
            raise ValueError(f"mechanism {self.mechanism} needs a username")
        if self.mechanism == "OAUTHBEARER" and not (self.token_url and self.client_id):
            raise ValueError("mechanism OAUTHBEARER needs token_url and client_id")
        return self

    def read_password(self) -> str:
        """Give the password from the environment or its file."""
        return _read(self.password, self.password_file, "password")

    def read_client_secret(self) -> str:
        """Give the client secret from the environment or its file."""
        return _read(self.client_secret, self.client_secret_file, "client_secret")


def _read(given: SecretStr | None, file: Path | None, name: str) -> str:
    if given is not None:
        return given.get_secret_value()
    if file is None:
        raise WrongSettings(
            f"kafka.security.{name}: is missing; set LAGLESS_KAFKA__SECURITY__{name.upper()} "
            f"or kafka.security.{name}_file"
        )
    try:
        return file.read_text().rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise WrongSettings(
            f"kafka.security.{name}_file: {file} cannot be read; it should hold the secret alone"
        ) from error
