"""Evaluation: the paper's experiments and the live system's, with their tables and figures.

`experiments` says what is run and `grid` runs it on Spark; `figures` and `report` show it.
Nothing here is needed to run a consumer group.
"""
