"""What a consumer imports is part of its start."""

import json
import subprocess
import sys

NOT_NEEDED = ("pandas", "kafka", "scipy", "numba", "matplotlib", "nicegui", "kubernetes")
"""Libraries of other roles, or of what a consumer seldom does; pandas alone takes a second."""
CODE = f"""
import json, sys
import lagless.cli.app, lagless.wiring.own_spark, lagless.wiring.consumer
print(json.dumps([name for name in {NOT_NEEDED!r} if name in sys.modules]))
"""


def test_a_consumer_imports_only_what_it_runs() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == []
