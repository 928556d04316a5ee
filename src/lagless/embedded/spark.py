"""Spark on this machine: sessions, a Connect server, and a small cluster."""

from lagless.embedded.cluster import Cluster
from lagless.embedded.connect import ConnectServer
from lagless.embedded.sessions import is_here, session

__all__ = ["Cluster", "ConnectServer", "is_here", "session"]
