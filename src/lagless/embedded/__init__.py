"""Embedded: the real parts that the demo and the tests start on this machine.

A Kafka broker, Spark and the load on them, fetched, started, and ended with the process that
started them. The roles never enter: they meet these parts only as addresses.
"""
