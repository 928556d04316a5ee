"""The paper's experiments: cells of a grid that Spark runs, their tables, figures and claims.

They replay `lagless.packing` on streams of speeds. Nothing here needs Kafka or a running role.
"""
