"""Query a table that lagless wrote, with DuckDB and with pyarrow; run 03 first."""

from pathlib import Path

import duckdb
import pyarrow.compute as pc
from deltalake import DeltaTable

table = DeltaTable(str(Path("shop-lake") / "orders"))

# pyarrow reads only the files whose statistics allow the offsets that are asked for.
dataset = table.to_pyarrow_dataset()
recent = dataset.to_table(filter=pc.field("_offset") >= 490)
print(f"{recent.num_rows} orders from offset 490 on, in {len(table.file_uris())} files")

orders = dataset.to_table()
revenue = duckdb.sql("select round(sum(price * quantity), 2) from orders").fetchone()
print("revenue:", revenue[0] if revenue else None)
