"""Wiring: the roles and the dashboard put together with real adapters, one file for each.

Adapters are chosen here according to the settings. No decision of a role and no client library
enters.
"""
