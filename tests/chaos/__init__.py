"""Fault runs on the real parts: `python -m tests.chaos consumer` and `python -m tests.chaos group`.

What landed is counted by lagless.lab.load.counting, as the demo does.
"""
