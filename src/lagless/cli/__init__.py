"""The command line: parse, wire, run. Each file holds the commands of one theme.

A command imports what it needs when it runs, so that `lagless --help` is quick and an extra that
is not installed hurts nobody who does not use it.
"""
