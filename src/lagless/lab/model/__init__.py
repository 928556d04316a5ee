"""The paper on arrays: streams of speeds, algorithms replayed over them, and their latency.

Pure: no clock, thread, logger or client library; randomness is a generator that is passed in.
"""
