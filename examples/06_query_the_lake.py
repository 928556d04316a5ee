"""Query a table that lagless wrote, with DuckDB and with pyarrow; run 03 first."""

from pathlib import Path

import duckdb
import pyarrow.compute as pc
import pyarrow.dataset as ds
from deltalake import DeltaTable

table = DeltaTable(str(Path("shop-lake") / "orders"))

# pyarrow uses the statistics of the files to skip those without the requested offsets.
dataset = ds.dataset(table.file_uris())
recent = dataset.to_table(filter=pc.field("_offset") >= 490)
print(f"{recent.num_rows} orders from offset 490 on, in {len(table.file_uris())} files")

orders = dataset.to_table()
revenue = duckdb.from_arrow(orders).aggregate("round(sum(price * quantity), 2)").fetchall()
print("revenue:", revenue[0][0])
