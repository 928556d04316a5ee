"""Tokens for OAUTHBEARER, for kafka-python, which leaves fetching them to its user."""

import json
import time
import urllib.error
import urllib.parse
import urllib.request
from base64 import b64encode

from kafka.net.sasl.oauth import AbstractTokenProvider

from lagless.errors import TryAgain
from lagless.settings import Security

EARLY = 60.0
"""Seconds before its end at which a token is fetched anew."""


class Provider(AbstractTokenProvider):  # type: ignore[misc]  # kafka-python is untyped
    """Fetch a token with the client's id and secret, and keep it until shortly before its end."""

    def __init__(self, security: Security) -> None:
        super().__init__()
        self._security = security
        self._token = ""
        self._ends_at = 0.0

    def __repr__(self) -> str:
        return "Provider(…)"

    def token(self) -> str:
        """Give a token that is valid now."""
        if time.monotonic() >= self._ends_at:
            self._fetch()
        return self._token

    def extensions(self) -> dict[str, str]:
        """Give no SASL extensions."""
        return {}

    def _fetch(self) -> None:
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
            with urllib.request.urlopen(request, timeout=10) as response:
                answer = json.load(response)
            self._token = str(answer["access_token"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise TryAgain(
                f"{security.token_url} gave no token for client {security.client_id}: "
                f"{type(error).__name__}"
            ) from error
        lifetime = float(answer.get("expires_in", 2 * EARLY))
        self._ends_at = time.monotonic() + max(lifetime - EARLY, lifetime / 2)
