"""The demo: everything on this machine, started in order, shown, stopped and counted.

It starts the same commands that a user would, each with the data folder in its command line.
"""
