"""The manifests in deploy/ and the rights in them, against the real API server."""

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from lagless.adapters.kubernetes.provisioner import KubernetesProvisioner
from lagless.errors import LaglessError
from lagless.settings import Settings
from tests.kubernetes.conftest import BASE, DEPLOY
from tests.waiting import until

pytestmark = [pytest.mark.kubernetes, pytest.mark.slow]

Make = Callable[..., Settings]


def rights() -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((BASE / "rights.yaml").read_text()))


def bound(
    kubeconfig: Path, namespace: str, folder: Path, rules: list[dict[str, Any]] | None = None
) -> Path:
    """Bind the role of deploy/ (or other rules) and give a kubeconfig of its account alone."""
    from kubernetes import client, config

    config.load_kube_config(str(kubeconfig))
    core, rbac = client.CoreV1Api(), client.RbacAuthorizationV1Api()
    account, role, binding = rights()
    core.create_namespaced_service_account(namespace, account)
    rbac.create_namespaced_role(namespace, role | ({"rules": rules} if rules is not None else {}))
    rbac.create_namespaced_role_binding(namespace, binding)
    asked = core.create_namespaced_service_account_token(
        "lagless-controller", namespace, {"spec": {"expirationSeconds": 3600}}
    )
    document = yaml.safe_load(kubeconfig.read_text())
    document["users"] = [{"name": "controller", "user": {"token": asked.status.token}}]
    for context in document["contexts"]:
        context["context"]["user"] = "controller"
    file = folder / "controller.kubeconfig"
    file.write_text(yaml.safe_dump(document))
    return file


def use(settings: Settings) -> None:
    """Do everything that a controller does with its consumers."""
    provisioner = KubernetesProvisioner(settings)
    try:
        troubles = provisioner.create([1])
        assert troubles == {}, troubles
        until(lambda: [i.phase for i in provisioner.instances()] == ["running"], "the consumer")
        provisioner.delete({1: ""})
        until(lambda: not provisioner.instances(), "the end of the consumer")
    finally:
        provisioner.close()


@pytest.mark.parametrize("folder", ["base", "shared-spark"])
def test_the_rendered_manifests_are_accepted_by_the_api_server(
    folder: str, kubeconfig: Path, namespace: str
) -> None:
    kubectl = shutil.which("kubectl")
    assert kubectl is not None, "the test cluster comes with kubectl"
    command = [kubectl, "--kubeconfig", str(kubeconfig), "-n", namespace]
    done = subprocess.run(
        [*command, "apply", "--dry-run=server", "-k", str(DEPLOY / folder)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    made = {line.split()[0] for line in done.stdout.splitlines()}
    assert {f"deployment.apps/lagless-{role}" for role in ("monitor", "controller")} <= made


def test_the_role_is_enough(
    settings: Make, kubeconfig: Path, namespace: str, tmp_path: Path
) -> None:
    use(settings(kubeconfig=str(bound(kubeconfig, namespace, tmp_path))))


@pytest.mark.parametrize(
    ("resource", "verb"),
    [(rule["resources"][0], verb) for rule in rights()[1]["rules"] for verb in rule["verbs"]],
)
def test_one_verb_less_is_a_clear_error(
    settings: Make, kubeconfig: Path, namespace: str, tmp_path: Path, resource: str, verb: str
) -> None:
    rules = rights()[1]["rules"]
    for rule in rules:
        if rule["resources"] == [resource]:
            rule["verbs"].remove(verb)
    file = bound(kubeconfig, namespace, tmp_path, rules)
    with pytest.raises((LaglessError, AssertionError)) as caught:
        use(settings(kubeconfig=str(file)))
    told = str(caught.value)
    assert "Kubernetes does not let lagless" in told
    assert f"cannot {verb} resource" in told
    assert resource in told
