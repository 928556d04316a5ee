"""How to reach the API server, and in which namespace."""

from pathlib import Path

from kubernetes import client, config
from kubernetes.config.config_exception import ConfigException

from lagless.errors import WrongSettings

_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


def namespace(chosen: str | None) -> str:
    """Return the namespace that was chosen, or the pod's own."""
    return chosen or (_NAMESPACE.read_text().strip() if _NAMESPACE.exists() else "default")


def configure(kubeconfig: Path | None) -> None:
    """Use this kubeconfig; by default the pod's service account, or the user's kubeconfig."""
    try:
        if kubeconfig is not None:
            config.load_kube_config(str(kubeconfig))
        else:
            try:
                config.load_incluster_config()
            except ConfigException:
                config.load_kube_config()
    except (ConfigException, OSError) as error:
        raise WrongSettings(
            f"provisioner.kubeconfig: no cluster can be reached: {error}"
        ) from error
    # By default urllib3 retries three times without a pause, which triples every timeout.
    chosen = client.Configuration.get_default_copy()
    chosen.retries = False
    client.Configuration.set_default(chosen)
