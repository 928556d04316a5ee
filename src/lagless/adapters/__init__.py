"""Adapters: the ports on real parts. Client libraries enter here and nowhere else.

Adapters do not know the roles, nor each other.
"""
