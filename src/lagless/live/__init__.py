"""Live: the running system measured on this machine, part by part, and beside what users have.

Each part starts what it needs, writes what it sees to a file as it goes, and ends all of it. What
is made from the files (numbers, figures, pages) needs nothing that runs.
"""
