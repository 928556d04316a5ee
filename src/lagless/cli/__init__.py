"""The command line: parse, wire, run, with one file per theme.

A command imports what it needs when it runs, so that `lagless --help` is quick and a missing extra
only matters to the commands that need it. No adapter enters: commands call `lagless.wiring`,
`lagless.operations` and `lagless.lab`.
"""
