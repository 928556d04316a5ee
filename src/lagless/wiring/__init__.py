"""Wiring: where adapters are chosen. The only room that knows both roles and adapters."""
