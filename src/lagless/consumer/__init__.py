"""The consumer: records from Kafka into the lake, each exactly once.

`order_machine` and `batches` are pure; `service`, `cycle`, `heartbeat` and `orders` run them, with
threads and a logger, on ports. No client library and no other role enters.
"""
