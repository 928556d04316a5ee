"""Write into a bucket through both clients and read it again, in a process of its own.

    python -m tests.lake.role_writer BUCKET ENDPOINT CA_FILE

The client with which delta-rs asks for credentials reads the trusted authorities once in the life
of a process, so a test that adds one needs a process that has not asked before. Everything that is
logged goes to stderr, and the offsets in the table are printed at last, as JSON.
"""

import json
import logging
import sys
from pathlib import Path

from lagless.adapters.lake import bucket_proof, bucket_store, store
from lagless.ports import Span
from lagless.settings import Bucket, StorageSettings
from tests.lake.files import P, claimed, offsets, written


def main() -> None:
    """Prove the bucket, commit a file to a new table, and print the table's offsets."""
    logging.basicConfig(level=logging.DEBUG)
    bucket, endpoint, ca_file = sys.argv[1:]
    storage = StorageSettings(endpoint=endpoint, ca_file=Path(ca_file), retry_seconds=5)
    for text, fine in bucket_proof.prove(Bucket(bucket, "lake"), storage, 4, 2):
        print(text, fine, file=sys.stderr)
    place = store.at(Bucket(bucket, "lake"), storage).inside("orders")
    one = claimed(place)
    assert one.commit([written(place, 0, 0, 5)], {P[0]: Span(0, 5)}, {P[0]: 1})
    print(repr(place), repr(bucket_store.client(bucket, storage)), file=sys.stderr)
    print(json.dumps(offsets(place)))


if __name__ == "__main__":
    main()
