"""Adapters: the ports on real parts, Kafka, Spark, Delta tables, processes and Kubernetes.

Client libraries enter here and in the laboratory, nowhere else. An adapter imports neither a role
nor another adapter: `lagless.wiring` puts them together.
"""
