"""The running system, measured on this machine part by part, and beside a rival.

Each part raises a testbed, writes what it observes to a journal as it runs, and stops everything.
Numbers, figures and pages are made from the journals alone.
"""
