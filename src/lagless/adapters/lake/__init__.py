"""The lake: Spark reads Kafka and writes data files, delta-rs adds them to a Delta table's log.

pyspark and deltalake are imported here; no role and no other adapter is. The rule that lands every
record exactly once is in `table`; a record's way is tables > ingestion > formats > drafts > table.
Only `store` touches a file system.
"""
