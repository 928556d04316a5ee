"""What a server's driver has to say so that executors on other machines can work for it.

Executors call the driver back: they need an address that leads to it, and where a firewall or a
Kubernetes Service is in between, ports that are known beforehand. They fetch the jars from it too.
"""

import re
import socket
from collections.abc import Mapping
from pathlib import Path

from lagless.adapters.spark import sessions
from lagless.errors import WrongInput

_MASTER = re.compile(
    r"local|local\[[^\]]+\]|yarn|spark://[^/:]+:\d+(,[^/:]+:\d+)*|k8s://(https?://)?[^/:]+(:\d+)?/?.*"
)
_FIRST = re.compile(r"^(?:spark|k8s)://(?:https?://)?(?P<host>[^/:,]+)(?::(?P<port>\d+))?")
FAIR = """<?xml version="1.0"?>
<allocations>
  <pool name="default"><schedulingMode>FAIR</schedulingMode></pool>
</allocations>
"""
"""Sessions cannot choose a pool through Connect: all share the default one, which takes turns."""


def check(master: str) -> str:
    """Return the master, or raise WrongInput if Spark knows none of this form."""
    if not _MASTER.fullmatch(master):
        raise WrongInput(
            f"--master {master}: expected local[n], spark://HOST:PORT, k8s://https://HOST:PORT "
            "or yarn"
        )
    return master


def is_local(master: str) -> bool:
    """Return whether executors are threads of the driver."""
    return master.startswith("local")


def driver(master: str, host: str | None = None, port: int | None = None) -> dict[str, str]:
    """Return where the driver listens for executors, and the address that they are told.

    Without a port, Spark takes free ones; with one, the next one is the block manager's.
    """
    ports = {}
    if port is not None:
        ports = {"spark.driver.port": str(port), "spark.blockManager.port": str(port + 1)}
    if sessions.is_here(master) and host is None:
        address = {"spark.driver.host": sessions.HOST, "spark.driver.bindAddress": sessions.HOST}
    else:
        address = {
            "spark.driver.host": host or address_towards(master),
            "spark.driver.bindAddress": "0.0.0.0",  # nosec B104  # executors elsewhere reach it
        }
    return {**address, **ports}


def address_towards(master: str) -> str:
    """Return this machine's address on the way to the master, as others there see it."""
    first = _FIRST.match(master)
    # Nothing is sent: connecting a datagram socket only chooses the route.
    target = (first["host"], int(first["port"] or 443)) if first else ("192.0.2.1", 443)
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect(target)
            return str(probe.getsockname()[0])
    except OSError as error:
        raise WrongInput(
            f"this machine's address as executors see it is unknown ({error}): "
            "name it with --driver-host"
        ) from error


def scheduling(folder: Path) -> dict[str, str]:
    """Return the settings that make consumers take turns; the pool's file goes into the folder."""
    pools = folder / "pools.xml"
    pools.write_text(FAIR)
    return {"spark.scheduler.mode": "FAIR", "spark.scheduler.allocation.file": pools.as_uri()}


def on_executors(master: str, conf: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that short cycles need where executors are other processes."""
    if is_local(master):
        return {}
    wanted = {
        # A task waits this long for the executor that read its partition before. The default of
        # 3 s is longer than ten cycles.
        "spark.locality.wait": "100ms",
        # Executors are kept between cycles: starting one takes longer than reading a batch.
        "spark.dynamicAllocation.executorIdleTimeout": "10min",
    }
    return {key: value for key, value in wanted.items() if key not in conf}
