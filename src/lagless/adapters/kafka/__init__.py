"""Kafka: connections, lagless's own topics, mail, offsets, log sizes, speeds and rights.

confluent-kafka does everything but describeLogDirs, which only kafka-python has. Kafka's errors
leave this room only as those of `lagless.errors`, translated in `failures`.
"""
