"""Real parts on this machine: a Kafka broker, a Spark Connect server, a small Spark cluster.

They are started for demo, evaluation and tests, and end with the process that started them. The
roles never enter: they know these parts only as addresses.
"""
