"""The lake: Spark reads Kafka and writes files, delta-rs adds them to a Delta table's log.

pyspark and deltalake enter here and nowhere else. The rule that makes every record land exactly
once is in `table`; what Spark does is in `reading`, `formats` and `writing`.
"""
