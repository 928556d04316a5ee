"""The laboratory: everything that measures, simulates or demonstrates lagless.

`parts` starts a broker and Spark on this machine, `load` writes to it and counts what arrived,
`testbed` puts them together for everything that runs the real system. `model` computes what the
paper computes, `world` runs the roles in memory and virtual time, `paper` and `live` are the two
evaluations, and `report` writes their pages. Only `lagless.cli` imports the laboratory; a consumer
group runs without it.
"""
