"""Credentials of shared profiles: which file and which profile, and what goes before them."""

import json
import sys
from pathlib import Path

import pytest

from lagless.adapters.lake import shared_profile


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    """Return an environment whose home has profiles."""
    folder = tmp_path / ".aws"
    folder.mkdir()
    (folder / "credentials").write_text(
        "[default]\naws_access_key_id = a\naws_secret_access_key = b%c\n"
        "[role]\naws_access_key_id = d\naws_secret_access_key = e\naws_session_token = f\n"
    )
    told = json.dumps(
        {"AccessKeyId": "g", "SecretAccessKey": "h", "Expiration": "2031-01-01T00:00:00Z"}
    )
    script = tmp_path / "tell.py"
    script.write_text(f"print({told!r})")
    (folder / "config").write_text(
        f"[profile told]\ncredential_process = {sys.executable} {script}\n[profile bare]\n"
    )
    return {"HOME": str(tmp_path)}


def test_a_profile_is_used_where_the_environment_has_no_keys(home: dict[str, str]) -> None:
    keys = shared_profile.credentials(home)
    assert (keys["access_key_id"], keys["secret_access_key"], keys["token"]) == ("a", "b%c", None)
    role = shared_profile.credentials({**home, "AWS_PROFILE": "role"})
    assert (role["access_key_id"], role["token"]) == ("d", "f")
    assert shared_profile.provider(home) is not None
    assert shared_profile.provider({**home, "AWS_ACCESS_KEY_ID": "x"}) is None


def test_a_profile_may_name_a_program_that_tells_the_credentials(home: dict[str, str]) -> None:
    keys = shared_profile.credentials({**home, "AWS_PROFILE": "told"})
    assert (keys["access_key_id"], keys["expires_at"].year) == ("g", 2031)


def test_profiles_without_credentials_are_left_to_other_sources(home: dict[str, str]) -> None:
    assert shared_profile.provider({**home, "AWS_PROFILE": "bare"}) is None
    assert shared_profile.provider({"HOME": "/nowhere"}) is None


def test_keys_that_were_renewed_are_read_again(home: dict[str, str]) -> None:
    provider = shared_profile.provider(home)
    assert provider is not None
    file = Path(home["HOME"]) / ".aws" / "credentials"
    file.write_text("[default]\naws_access_key_id = new\naws_secret_access_key = s\n")
    assert provider()["access_key_id"] == "new"
