"""The settings of the dashboard."""

from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, SecretStr, model_validator

from lagless.errors import WrongSettings
from lagless.settings import security
from lagless.settings.branch import Branch, like


class DashboardSettings(Branch):
    """Where the dashboard listens, and who may see it."""

    host: str = "127.0.0.1"
    """Address to listen on."""
    port: int = Field(8080, ge=0, le=65535)
    """Port to listen on; 0 picks a free one."""
    path: Annotated[
        str, like(r"|(/[A-Za-z0-9._~-]+)+", 'empty or begin with "/" and not end with it')
    ] = ""
    """Path under which a reverse proxy serves the page, such as "/lagless"; none by default."""
    username: Annotated[
        str | None, like(r"[^:\x00-\x1f]+", "a name without a colon or control characters")
    ] = None
    """User name for HTTP Basic authentication; by default everybody may see the page."""
    password: SecretStr | None = None
    """Password for `username`; only from the environment (LAGLESS_DASHBOARD__PASSWORD)."""
    password_file: Path | None = None
    """File that holds the password."""
    access_token: SecretStr | None = None
    """Token that clients such as Prometheus send as `Authorization: Bearer …`; only from the
    environment (LAGLESS_DASHBOARD__ACCESS_TOKEN). May be set beside `username`."""
    access_token_file: Path | None = None
    """File that holds the token."""
    token: SecretStr | None = None
    """Deprecated and ignored. Accepted only from the environment."""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        has_password = self.password is not None or self.password_file is not None
        if self.username is None and has_password:
            raise ValueError("password needs a username")
        if self.username is not None and not has_password:
            raise ValueError(
                "username needs a password: set LAGLESS_DASHBOARD__PASSWORD or password_file"
            )
        return self

    def read_password(self) -> str:
        """Return the password from the environment or its file; "" without a user name."""
        if self.username is None:
            return ""
        return _full(self.password, self.password_file, "dashboard.password")

    def read_access_token(self) -> str:
        """Return the token from the environment or its file; "" if none is set."""
        if self.access_token is None and self.access_token_file is None:
            return ""
        return _full(self.access_token, self.access_token_file, "dashboard.access_token")


def _full(value: SecretStr | None, file: Path | None, key: str) -> str:
    secret = security.read_secret(value, file, key)
    if not secret:
        raise WrongSettings(f"{key}: is empty, which would let everybody in")
    return secret
