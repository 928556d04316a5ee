"""How to reach a schema registry. Secrets come from the environment or from files."""

from pathlib import Path
from typing import Literal, Self
from urllib.parse import urlsplit

from pydantic import SecretStr, field_validator, model_validator

from lagless.settings.branch import Branch
from lagless.settings.security import read_secret
from lagless.settings.units import Seconds


class RegistrySettings(Branch):
    """The schema registry for topics whose records carry the id of a schema. Any registry with
    Confluent's REST protocol works: Confluent's own, Karapace, or Apicurio under
    `/apis/ccompat/v7`."""

    url: str | None = None
    """Address of the registry, such as `https://registry.example.com:8081`."""
    auth: Literal["none", "basic", "bearer"] = "none"
    """How to authenticate: basic is a user name and password, bearer a token."""
    username: str | None = None
    """User name for basic."""
    password: SecretStr | None = None
    """Password for basic; only from the environment (LAGLESS_REGISTRY__PASSWORD), never from the
    settings file."""
    password_file: Path | None = None
    """File that holds the password."""
    token: SecretStr | None = None
    """Token for bearer; only from the environment (LAGLESS_REGISTRY__TOKEN)."""
    token_file: Path | None = None
    """File that holds the token; it is read again for each request."""
    ca_file: Path | None = None
    """PEM file of the CA that signed the registry's certificate."""
    timeout: Seconds = 10
    """Seconds that one request may take."""

    @field_validator("url")
    @classmethod
    def _address(cls, value: str | None) -> str | None:
        if value is None:
            return None
        try:
            address = urlsplit(value)
            is_whole = address.scheme in ("http", "https") and bool(address.hostname)
            is_whole = is_whole and address.port != 0
        except ValueError:
            is_whole = False
        if not is_whole or address.query or address.fragment:
            raise ValueError(f"is {value!r} and should be http://host:port or https://host:port")
        if address.username or address.password:
            raise ValueError(
                "credentials do not belong in an address: set registry.auth and "
                "LAGLESS_REGISTRY__PASSWORD"
            )
        return value.rstrip("/")

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.auth == "basic" and not self.username:
            raise ValueError("auth basic needs a username")
        if self.auth == "none" and (self.username or self.password or self.token):
            raise ValueError('credentials need auth = "basic" or "bearer"')
        return self

    def authorization(self) -> tuple[str, str] | None:
        """Return the scheme and the credentials, as text; None without authentication."""
        if self.auth == "none":
            return None
        if self.auth == "basic":
            password = read_secret(self.password, self.password_file, "registry.password")
            return "Basic", f"{self.username}:{password}"
        return "Bearer", read_secret(self.token, self.token_file, "registry.token")
