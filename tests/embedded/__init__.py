"""Tests of the parts that run on this machine: the real ones."""
