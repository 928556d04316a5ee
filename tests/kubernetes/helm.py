"""Helm, built once with Go from the module proxy: what the chart is rendered and installed with."""

import subprocess
import sys
from pathlib import Path

from lagless.errors import MissingPart
from lagless.lab.parts.go_tools import GoTool

HELM = GoTool("Helm", "helm.sh/helm/v3/cmd/helm", "v3.19.5", "helm")
CHART = Path(__file__).parents[2] / "deploy" / "helm" / "lagless"


def helm(*words: str, fails: bool = False) -> str:
    """Run Helm, and return what it printed; with `fails`, what it said was wrong."""
    done = subprocess.run([HELM.build(), *words], capture_output=True, text=True)
    assert (done.returncode != 0) == fails, done.stderr
    return done.stderr if fails else done.stdout


if __name__ == "__main__":
    if not HELM.binary().exists():
        print("building Helm for the tests (once per machine, some minutes)", file=sys.stderr)
    try:
        print(HELM.build())
    except MissingPart as error:
        sys.exit(f"lagless: {error}")
