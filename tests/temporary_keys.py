"""Temporary credentials of a real S3 server, as its STS gives them."""

import hashlib
import hmac
import re
import urllib.request
from datetime import UTC, datetime
from urllib.parse import urlsplit

from lagless.lab.parts.object_store import REGION, ObjectStore

ASK = b"Action=AssumeRole&Version=2011-06-15&DurationSeconds=900"
FIELDS = ("AccessKeyId", "SecretAccessKey", "SessionToken")
Credentials = dict[str, str]


def temporary(store: ObjectStore) -> Credentials:
    """Return new credentials of the server; 15 minutes are the least that it gives them for."""
    at = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    request = urllib.request.Request(
        store.url + "/", data=ASK, headers=_signed(store, at), method="POST"
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        text = answer.read().decode()
    found = {name: re.search(f"<{name}>(.*?)</{name}>", text) for name in FIELDS}
    return {name: match[1] for name, match in found.items() if match}


def _signed(store: ObjectStore, at: str) -> dict[str, str]:
    """Sign as AWS's version 4 says, with the server's own credentials."""
    known, host, day = store.environment, urlsplit(store.url).netloc, at[:8]
    kind = "application/x-www-form-urlencoded"
    body = hashlib.sha256(ASK).hexdigest()
    names = "content-type;host;x-amz-date"
    canonical = f"POST\n/\n\ncontent-type:{kind}\nhost:{host}\nx-amz-date:{at}\n\n{names}\n{body}"
    scope = f"{day}/{REGION}/sts/aws4_request"
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    key = ("AWS4" + known["AWS_SECRET_ACCESS_KEY"]).encode()
    for part in (day, REGION, "sts", "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    text = f"AWS4-HMAC-SHA256\n{at}\n{scope}\n{digest}"
    signature = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
    return {
        "Content-Type": kind,
        "X-Amz-Date": at,
        "Authorization": f"AWS4-HMAC-SHA256 Credential={known['AWS_ACCESS_KEY_ID']}/{scope}, "
        f"SignedHeaders={names}, Signature={signature}",
    }
