"""Replay recorded speeds with several algorithms: how many consumers, how much moves."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

# Your own recording: a column per partition, a row per measurement, in bytes/s.
rng = np.random.default_rng(7)
walk = np.clip(40 + np.cumsum(rng.uniform(-5, 5, (60, 30)), axis=0), 0, 100)
rows = [",".join(f"orders-{j}" for j in range(30))]
rows += [",".join(f"{speed:.1f}" for speed in row) for row in walk]

with tempfile.TemporaryDirectory() as folder:
    stream = Path(folder) / "speeds.csv"
    stream.write_text("\n".join(rows) + "\n")
    command = [sys.executable, "-m", "lagless", "simulate", "--stream", str(stream)]
    command += ["--capacity", "100", "--algorithms", "sticky,mwf,bfd,kd_15", "--json"]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout

for name, found in json.loads(said)["algorithms"].items():
    print(f"{name}: {found['consumers']:.1f} consumers, E(Rscore) {found['rscore']:.2f}")
