"""Kafka: connections, lagless's own topics, log sizes, speeds and mail.

confluent-kafka does everything but describeLogDirs, which only kafka-python has.
"""
