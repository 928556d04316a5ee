"""The load: records written to Kafka at given speeds, and the count of what reached the lake.

It knows topics and tables, not the roles: what it counts must not depend on what it checks.
"""
