"""The evaluation with executors that are pods."""

import sys
from pathlib import Path

import pytest
import yaml

from lagless.adapters.spark import jars, java
from lagless.lab.live import pods
from lagless.lab.paper import grid
from tests.kubernetes import hosted
from tests.lab.paper import alone, test_grid

pytestmark = [pytest.mark.kubernetes, pytest.mark.spark, pytest.mark.slow]

# What the script in Spark's own images does.
EXECUTOR = r"""
options=()
while IFS= read -r option; do options+=("$option"); done < <(
    for name in ${!SPARK_JAVA_OPT_@}; do printf '%s\n' "${!name}"; done)
exec "$JAVA_HOME/bin/java" "${options[@]}" "-Xmx$SPARK_EXECUTOR_MEMORY" \
    -cp "$SPARK_CONF_DIR:$SPARK_HOME/jars/*" \
    org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
    --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" \
    --cores "$SPARK_EXECUTOR_CORES" --app-id "$SPARK_APPLICATION_ID" \
    --hostname "$SPARK_EXECUTOR_POD_IP" --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" \
    --podName "$SPARK_EXECUTOR_POD_NAME"
"""


def write_template(file: Path, kernels: Path) -> Path:
    """Write the pod of an executor: this machine's Java, Spark and Python, and no image's."""
    overlay = pods.template(
        kernels,
        "executor",
        command=["/bin/bash", "-c", EXECUTOR],
        env=[
            {"name": "NUMBA_CACHE_DIR", "value": str(kernels)},
            {"name": "SPARK_HOME", "value": str(jars.spark_home())},
            {"name": "JAVA_HOME", "value": str(java.find_for_spark().home)},
        ],
    )["spec"]["template"]
    (container,) = overlay["spec"]["containers"]
    # Debian's Java keeps its settings there.
    container["volumeMounts"].append({"name": "etc", "mountPath": "/etc", "readOnly": True})
    overlay["spec"]["volumes"].append({"name": "etc", "hostPath": {"path": "/etc"}})
    file.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "Pod", **overlay}))
    return file


def test_pods_give_the_rows_of_one_core(kubeconfig: Path, namespace: str, tmp_path: Path) -> None:
    kernels = hosted.kernels(tmp_path / "kernels")
    told = {
        "spark.kubernetes.namespace": namespace,
        "spark.kubernetes.container.image": pods.IMAGE,
        "spark.kubernetes.container.image.pullPolicy": "IfNotPresent",
        "spark.kubernetes.executor.podTemplateFile": write_template(tmp_path / "pod.yaml", kernels),
        "spark.kubernetes.executor.podTemplateContainerName": "executor",
        "spark.kubernetes.executor.request.cores": "100m",
        "spark.executor.instances": "2",
        "spark.executor.memory": "512m",
        "spark.driver.host": pods.address(kubeconfig),
        "spark.driver.bindAddress": "0.0.0.0",
    }
    server = yaml.safe_load(kubeconfig.read_text())["clusters"][0]["cluster"]["server"]
    test_grid.evaluate(
        ["tests.lab.paper.alone", f"k8s://{server}", str(tmp_path / "grid")]
        + [f"{key}={value}" for key, value in told.items()],
        KUBECONFIG=str(kubeconfig),
        PYSPARK_PYTHON=sys.executable,
    )
    rows = grid.rows(tmp_path / "grid", alone.WANTED)
    assert rows.num_rows == len(alone.WANTED) * 6
    assert test_grid.same(rows, test_grid.plain(alone.WANTED))
