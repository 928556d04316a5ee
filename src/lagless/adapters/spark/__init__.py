"""Spark for a consumer: the Java and jars it needs, how a session is tuned and opened.

Nothing here reads Kafka or writes a table, which is the lake's part, and no server is started:
brokers and clusters for tests and demos are in `lagless.lab.parts`.
"""
