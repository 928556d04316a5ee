"""Operations: checks and views of a set-up or a running group, and upkeep of the lake.

`doctor` checks a set-up, `status` describes a group and plans its next step, `maintenance` compacts
tables at once and `background_compaction` for as long as it runs. Nothing else here runs for long;
the roles that do are put together in `lagless.wiring`.
"""
