"""The Helm chart, rendered: it says what the Kustomize folders say, and takes what users set."""

import copy
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from lagless.adapters.kubernetes import manifest
from lagless.errors import LaglessError
from lagless.settings import Settings, parse
from tests.kubernetes.helm import CHART, HELM, helm

DEPLOY = Path(__file__).parents[2] / "deploy" / "kubernetes"
SETTINGS = {"group": "orders", "topics": ["orders"], "kafka": {"bootstrap": "kafka:9092"}}

pytestmark = pytest.mark.skipif(
    not HELM.can_run(), reason="needs Helm, which is built with Go, and there is no go"
)

Values = dict[str, Any]
Documents = dict[tuple[str, str], Any]


def render(folder: Path, values: Values | None = None) -> Documents:
    """Render a release called lagless."""
    said = copy.deepcopy(values or {})
    said["settings"] = {**SETTINGS, **said.get("settings", {})}
    file = folder / "values.yaml"
    file.write_text(yaml.safe_dump(said))
    rendered = helm("template", "lagless", str(CHART), "-f", str(file), "-n", "data")
    return by_name(rendered)


def by_name(rendered: str) -> Documents:
    documents = [one for one in yaml.safe_load_all(rendered) if one]
    return {(one["kind"], one["metadata"]["name"]): one for one in documents}


def settings(documents: Documents) -> Settings:
    """Parse the lagless.toml of a release."""
    data = documents["ConfigMap", "lagless"]["data"]
    return parse(tomllib.loads(data["lagless.toml"]), environ={})


def consumer(documents: Documents, folder: Path) -> dict[str, Any]:
    """Return the Deployment of a release's first consumer."""
    file = folder / "consumer.yaml"
    file.write_text(documents["ConfigMap", "lagless"]["data"]["consumer.yaml"])
    return manifest.deployment(settings(documents), 1, "birth", manifest.template(file))


def common(documents: Documents) -> Documents:
    """Drop what only one of the two tools adds: labels and annotations of its own."""
    ours = {"app.kubernetes.io/name", "app.kubernetes.io/component"}

    def without(value: Any) -> Any:
        if isinstance(value, list):
            return [without(one) for one in value]
        if not isinstance(value, dict):
            return value
        kept = {k: without(v) for k, v in value.items() if k not in ("annotations", "namespace")}
        for key in ("labels", "matchLabels", "selector"):
            if isinstance(kept.get(key), dict):
                known = set(ours) | {"matchLabels"}
                kept[key] = {k: v for k, v in kept[key].items() if k in known}
        return kept

    found = {key: without(one) for key, one in documents.items() if key[0] != "ConfigMap"}
    for one in found.values():
        one["metadata"].pop("labels", None)
    return found


@pytest.mark.parametrize(
    ("folder", "values"), [("base", {}), ("shared-spark", {"sharedSpark": {"enabled": True}})]
)
def test_the_chart_says_what_the_folder_says(folder: str, values: Values, tmp_path: Path) -> None:
    chart = render(tmp_path, values)
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("needs kubectl, which comes with the test cluster")
    done = subprocess.run(
        [kubectl, "kustomize", str(DEPLOY / folder)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    plain = by_name(done.stdout)
    assert common(chart) == common(plain)
    assert settings(chart) == settings(plain)
    assert consumer(chart, tmp_path) == consumer(plain, tmp_path)


def test_lint_finds_nothing() -> None:
    said = ["--set", "settings.group=g", "--set", "settings.topics={t}"]
    out = helm("lint", "--strict", str(CHART), *said, "--set", "settings.kafka.bootstrap=k:9092")
    assert "0 chart(s) failed" in out
    assert "[WARNING]" not in out


@pytest.mark.parametrize(
    ("missing", "sentence"),
    [
        ("group", "settings.group is missing: name the consumer group"),
        ("topics", "settings.topics is missing: list the topics"),
        ("kafka", "settings.kafka.bootstrap is missing: name a broker"),
    ],
)
def test_a_missing_setting_is_named(missing: str, sentence: str, tmp_path: Path) -> None:
    file = tmp_path / "values.yaml"
    said = {key: value for key, value in SETTINGS.items() if key != missing}
    file.write_text(yaml.safe_dump({"settings": said}))
    assert sentence in helm("template", "x", str(CHART), "-f", str(file), fails=True)


def test_every_setting_can_be_given_and_wins(tmp_path: Path) -> None:
    said = {
        "controller": {"algorithm": "MBFP", "slack": 0.1},
        "consumer": {"max_rate": 2_000_000, "batch_bytes": 1_000_000},
        "spark": {"url": "local[3]"},
        "topic": {"orders": {"format": "json", "schema": "id BIGINT"}},
    }
    parsed = settings(render(tmp_path, {"settings": said}))
    assert parsed.controller.algorithm == "MBFP"
    assert parsed.controller.slack == 0.1
    assert parsed.consumer.max_rate == 2_000_000
    assert parsed.spark.url == "local[3]"
    assert parsed.topic["orders"].format == "json"
    assert parsed.provisioner.owner == "lagless-controller"


def test_a_wrong_setting_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(LaglessError, match=r"consumer\.max_rat"):
        settings(render(tmp_path, {"settings": {"consumer": {"max_rat": 1}}}))


def test_spark_has_as_many_threads_as_the_consumer_has_cores(tmp_path: Path) -> None:
    for cpu, cores in (("1", 1), ("500m", 1), ("2500m", 3), (4, 4)):
        size = {"cpu": cpu, "memory": "3Gi"}
        values = {"consumer": {"resources": {"requests": size, "limits": size}}}
        documents = render(tmp_path, values)
        assert settings(documents).spark.master == f"local[{cores}]"
        (container,) = consumer(documents, tmp_path)["spec"]["template"]["spec"]["containers"]
        assert container["resources"] == {"requests": size, "limits": size}


def test_a_lake_in_a_bucket_needs_no_volume(tmp_path: Path) -> None:
    for shared in (False, True):
        values = {
            "settings": {
                "lake": {"path": "s3://orders/lake", "storage": {"region": "eu-central-1"}}
            },
            "sharedSpark": {"enabled": shared},
            "consumerServiceAccount": {"create": True, "annotations": {"role": "writer"}},
        }
        documents = render(tmp_path, values)
        assert not [name for kind, name in documents if kind == "PersistentVolumeClaim"]
        assert documents["ServiceAccount", "lagless-consumer"]["metadata"]["annotations"] == {
            "role": "writer"
        }
        spec = consumer(documents, tmp_path)["spec"]["template"]["spec"]
        assert spec["serviceAccountName"] == "lagless-consumer"
        assert {volume["name"] for volume in spec["volumes"]} == {"tmp", "config"}
        assert str(settings(documents).lake.path) == "s3://orders/lake"
        assert "lagless-lake" not in str(documents)


def test_secrets_come_by_reference_to_every_role(tmp_path: Path) -> None:
    reference = {"secretKeyRef": {"name": "kafka", "key": "password"}}
    entry = {"name": "LAGLESS_KAFKA__SECURITY__PASSWORD", "valueFrom": reference}
    bucket = {"secretRef": {"name": "bucket"}}
    values = {"environment": [entry], "environmentFrom": [bucket], "sharedSpark": {"enabled": True}}
    documents = render(tmp_path, values)
    pods = [one for (kind, _), one in documents.items() if kind == "Deployment"]
    pods.append(consumer(documents, tmp_path))
    assert len(pods) == 5
    for one in pods:
        (container,) = one["spec"]["template"]["spec"]["containers"]
        assert entry in container["env"]
        assert container["envFrom"] == [bucket]


def test_the_users_template_is_merged_into_the_chart_s(tmp_path: Path) -> None:
    spec = {
        "nodeSelector": {"disk": "fast"},
        "volumes": [{"name": "certificates", "secret": {"secretName": "kafka-ca"}}],
        "containers": [
            {
                "name": "consumer",
                "env": [{"name": "TZ", "value": "UTC"}],
                "volumeMounts": [{"name": "certificates", "mountPath": "/certificates"}],
            },
            {"name": "shipper", "image": "logs:1"},
        ],
    }
    template = {"metadata": {"annotations": {"team": "data"}}, "spec": {"template": {"spec": spec}}}
    made = consumer(render(tmp_path, {"consumer": {"template": template}}), tmp_path)
    assert made["metadata"]["annotations"]["team"] == "data"
    pod = made["spec"]["template"]["spec"]
    assert pod["nodeSelector"] == {"disk": "fast"}
    assert {volume["name"] for volume in pod["volumes"]} == {
        "tmp",
        "config",
        "lake",
        "certificates",
    }
    by = {container["name"]: container for container in pod["containers"]}
    assert set(by) == {"consumer", "shipper"}
    assert {m["name"] for m in by["consumer"]["volumeMounts"]} == {
        "tmp",
        "config",
        "lake",
        "certificates",
    }
    assert {"name": "TZ", "value": "UTC"} in by["consumer"]["env"]
    assert by["consumer"]["resources"]["limits"]["cpu"] == "1"


def test_two_releases_share_a_namespace(tmp_path: Path) -> None:
    file = tmp_path / "values.yaml"
    file.write_text(yaml.safe_dump({"settings": SETTINGS}))
    one, two = (by_name(helm("template", name, str(CHART), "-f", str(file))) for name in "ab")
    assert not set(one) & set(two)
    for name in ("monitor", "controller", "dashboard"):
        first = one["Deployment", f"a-{name}"]["spec"]["selector"]["matchLabels"]
        labels = two["Deployment", f"b-{name}"]["spec"]["template"]["metadata"]["labels"]
        assert any(labels[key] != value for key, value in first.items())


def rules(documents: Documents) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Return what the controller may do: resources and verbs."""
    role = documents["Role", "lagless-controller"]
    return [(tuple(rule["resources"]), tuple(rule["verbs"])) for rule in role["rules"]]


@pytest.mark.parametrize("kind", ["deployment", "statefulset"])
def test_members_of_the_users_are_scaled_with_the_permissions_for_that(
    kind: str, tmp_path: Path
) -> None:
    provisioner = {"kind": kind, "workload": "reader", "namespace": "shop"}
    said = {"members": {"kind": "group", "rate": 2_000_000}, "provisioner": provisioner}
    found = render(tmp_path, {"settings": said})
    assert settings(found).provisioner.workload == "reader"
    assert rules(found) == [((f"{kind}s/scale",), ("get", "patch")), (("pods",), ("list", "patch"))]
    role = found["Role", "lagless-controller"]
    assert role["metadata"]["namespace"] == "shop"
    assert role["rules"][0]["resourceNames"] == ["reader"]
    binding = found["RoleBinding", "lagless-controller"]
    assert binding["metadata"]["namespace"] == "shop"
    assert binding["subjects"][0]["namespace"] == "data"
    kinds = {kind for kind, _ in found}
    assert "PersistentVolumeClaim" not in kinds
    assert "consumer.yaml" not in found["ConfigMap", "lagless"]["data"]
    assert ("Deployment", "lagless-scaler") not in found


def test_members_that_are_only_placed_need_no_permissions(tmp_path: Path) -> None:
    found = render(tmp_path, {"settings": {"members": {"kind": "group"}}})
    assert settings(found).provisioner.kind == "none"
    assert not {"Role", "RoleBinding", "PersistentVolumeClaim"} & {kind for kind, _ in found}


def test_keda_is_given_a_scaler_to_ask(tmp_path: Path) -> None:
    said = {"members": {"kind": "group", "rate": 2_000_000}, "provisioner": {"kind": "keda"}}
    found = render(tmp_path, {"settings": said})
    [container] = found["Deployment", "lagless-scaler"]["spec"]["template"]["spec"]["containers"]
    assert container["args"][0] == "scaler"
    [port] = found["Service", "lagless-scaler"]["spec"]["ports"]
    assert port["port"] == 6000
    assert ("NetworkPolicy", "lagless-scaler") in found
    assert ("Role", "lagless-controller") not in found
    assert settings(found).provisioner.kind == "keda"
