"""The S3 server: one of many writers wins on it, and it keeps what was put."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

from lagless.lab.parts import object_store
from lagless.lab.parts.faulty_proxy import FaultyProxy


@pytest.mark.s3
def test_one_of_many_writers_commits_a_version(s3: object_store.ObjectStore, bucket: str) -> None:
    with FaultyProxy(s3.port) as proxy:
        options = s3.options(proxy.url)
        table = f"s3://{bucket}/table"
        write_deltalake(table, pa.table({"a": [0]}), storage_options=options)

        def append(number: int) -> bool:
            try:
                rows = pa.table({"a": [number]})
                write_deltalake(table, rows, mode="append", storage_options=options)
            except DeltaError:
                return False
            return True

        with ThreadPoolExecutor(6) as pool:
            landed = sum(pool.map(append, range(1, 13)))
        opened = DeltaTable(table, storage_options=options)
        assert opened.version() == landed
        assert opened.to_pyarrow_table().num_rows == 1 + landed
        assert proxy.counts["put"] >= 2 * landed


@pytest.mark.s3
def test_started_again_it_keeps_what_was_put(tmp_path: Path) -> None:
    server = object_store.ObjectStore(tmp_path / "s3")
    with server:
        server.make_bucket("kept")
        url = server.url
        options = server.options()
        write_deltalake("s3://kept/table", pa.table({"a": [1]}), storage_options=options)
        server.kill()
        server.start()
        assert server.url == url
        assert DeltaTable("s3://kept/table", storage_options=options).version() == 0
