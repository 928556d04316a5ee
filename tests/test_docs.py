"""The documentation builds without a warning, and the reference comes from the code."""

import os
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_the_docs_build_without_a_warning(tmp_path: Path) -> None:
    done = subprocess.run(
        ["bash", str(ROOT / "scripts" / "docs"), "--site-dir", str(tmp_path / "site")],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stderr
    settings = (tmp_path / "site" / "reference" / "settings" / "index.html").read_text()
    assert "calibrated_rate" in settings
    commands = (tmp_path / "site" / "reference" / "commands" / "index.html").read_text()
    assert "lagless controller" in commands
    metrics = (tmp_path / "site" / "reference" / "metrics" / "index.html").read_text()
    assert "lagless_write_speed_bytes_per_second" in metrics
    assert (tmp_path / "site" / "img" / "architecture.svg").exists()


def test_links_of_the_front_door_lead_somewhere() -> None:
    for name in ("README.md", "CONTRIBUTING.md"):
        text = (ROOT / name).read_text()
        targets = re.findall(r"\]\(([^)#]+)\)", text)
        missing = [t for t in targets if "://" not in t and not (ROOT / t).exists()]
        assert missing == [], name
