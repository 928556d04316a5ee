"""The overlay for a lake in a bucket: no volume, and credentials for consumers only."""

import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from lagless import settings
from lagless.adapters.kubernetes import manifest
from lagless.settings import Bucket

DEPLOY = Path(__file__).parents[2] / "deploy" / "kubernetes"
Rendered = dict[tuple[str, str], dict[str, Any]]
KUBECTL = shutil.which("kubectl")

pytestmark = pytest.mark.skipif(KUBECTL is None, reason="needs kubectl, which renders overlays")


def rendered(folder: Path) -> Rendered:
    """Render a folder of manifests; by kind and name."""
    done = subprocess.run(
        [str(KUBECTL), "kustomize", str(folder)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    documents = list(yaml.safe_load_all(done.stdout))
    found = {(it["kind"], it["metadata"]["name"]): it for it in documents}
    assert len(found) == len(documents)
    return found


@pytest.fixture(scope="module")
def base() -> Rendered:
    return rendered(DEPLOY / "base")


@pytest.fixture(scope="module")
def overlay() -> Rendered:
    return rendered(DEPLOY / "s3")


def test_only_the_volume_goes_and_only_the_account_comes(base: Rendered, overlay: Rendered) -> None:
    assert base.keys() - overlay.keys() == {("PersistentVolumeClaim", "lagless-lake")}
    assert overlay.keys() - base.keys() == {("ServiceAccount", "lagless-consumer")}
    changed = {key for key in base.keys() & overlay.keys() if base[key] != overlay[key]}
    assert changed == {("ConfigMap", "lagless")}


def test_consumers_get_a_token_that_only_the_bucket_takes(
    overlay: Rendered, tmp_path: Path
) -> None:
    files = overlay[("ConfigMap", "lagless")]["data"]
    (tmp_path / "consumer.yaml").write_text(files["consumer.yaml"])
    parsed = settings.parse(tomllib.loads(files["lagless.toml"]), environ={})
    assert parsed.lake.path == Bucket("my-bucket", "lake")
    template = manifest.template(tmp_path / "consumer.yaml")
    made = manifest.deployment(parsed, 3, "born", template)["spec"]["template"]["spec"]
    assert made["serviceAccountName"] == "lagless-consumer"
    assert ("ServiceAccount", "lagless-consumer") in overlay
    # No token for the cluster's own API.
    assert made["automountServiceAccountToken"] is False
    (container,) = made["containers"]
    env = {it["name"]: it.get("value") for it in container["env"]}
    mount = next(it for it in container["volumeMounts"] if it["name"] == "lake-token")
    volume = next(it for it in made["volumes"] if it["name"] == "lake-token")
    (source,) = volume["projected"]["sources"]
    file = f"{mount['mountPath']}/{source['serviceAccountToken']['path']}"
    assert env["AWS_WEB_IDENTITY_TOKEN_FILE"] == file
    assert env["AWS_ROLE_ARN"]
    assert source["serviceAccountToken"]["audience"] == "sts.amazonaws.com"
    assert not [it for it in made["volumes"] if "persistentVolumeClaim" in it]


def test_a_users_folder_goes_on_top_as_the_guide_says(tmp_path: Path) -> None:
    for name in ("base", "s3"):
        shutil.copytree(DEPLOY / name, tmp_path / name)
    mine = tmp_path / "mine"
    mine.mkdir()
    for name, old, new in (
        ("lagless.toml", "s3://my-bucket/lake", "s3://theirs/orders"),
        ("consumer.yaml", "111122223333", "444455556666"),
    ):
        text = (DEPLOY / "s3" / name).read_text()
        assert old in text
        (mine / name).write_text(text.replace(old, new))
    kustomization = {
        "resources": ["../s3"],
        "namespace": "data",
        "configMapGenerator": [
            {"name": "lagless", "behavior": "replace", "files": ["lagless.toml", "consumer.yaml"]}
        ],
    }
    (mine / "kustomization.yaml").write_text(yaml.safe_dump(kustomization))
    found = rendered(mine)
    assert {it["metadata"].get("namespace") for it in found.values()} == {"data"}
    assert not [name for kind, name in found if kind == "PersistentVolumeClaim"]
    files = found[("ConfigMap", "lagless")]["data"]
    assert "s3://theirs/orders" in files["lagless.toml"]
    assert "444455556666" in files["consumer.yaml"]
