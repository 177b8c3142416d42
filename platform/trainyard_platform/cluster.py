"""The connection to the cluster: one explicit provider for everything the platform installs."""

import json
import os
import pwd
from pathlib import Path

import pulumi
import pulumi_kubernetes as kubernetes

from .stack import settings
from .stack.settings import Cluster


def provider(cluster: Cluster, stack: str, render_to: str | None = None) -> kubernetes.Provider:
    """A provider that stays the same when the kubeconfig changes.

    With a folder to render to, it writes manifests there and needs no cluster.

    Without an identifier, Pulumi mistakes a renewed kubeconfig for another
    cluster and replaces everything. The kubeconfig is named by its path, so that
    no credentials enter the state, and with its `~/`: the provider looks in the
    home folder of whoever rolls out. Where the settings name none, we pass none,
    though the SDK would use $KUBECONFIG: the provider copies what it gets into
    the temporary folder, credentials included, and never removes it.
    """
    if render_to is not None:
        return kubernetes.Provider(settings.CLUSTER, render_yaml_to_directory=render_to)
    return kubernetes.Provider(
        settings.CLUSTER,
        cluster_identifier=cluster.identifier or stack,
        kubeconfig=_named(cluster.kubeconfig) if cluster.kubeconfig else "",
        context=cluster.context,
        enable_server_side_apply=True,
        enable_config_map_mutable=True,
        enable_secret_mutable=True,
    )


def _named(kubeconfig: str) -> str:
    """The path as it is written if the provider finds the same file by it, else with the home folder."""
    expanded = Path(os.path.expanduser(kubeconfig))
    try:
        # The provider goes by the user's entry in /etc/passwd, whatever $HOME is.
        home = Path(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:
        return str(expanded)
    is_same = kubeconfig.startswith("~/") and home / kubeconfig[2:] == expanded
    return kubeconfig if is_same else str(expanded)


def export_identity() -> None:
    """Leave in the state which cluster the stack is rolled out to, if `trainyard` could see it."""
    if identity := os.environ.get(settings.IDENTITY_VARIABLE):
        pulumi.export(settings.IDENTITY, json.loads(identity))


def options(provider: kubernetes.Provider) -> pulumi.ResourceOptions:
    """The options with which a component's children use the provider."""
    return pulumi.ResourceOptions(providers={"kubernetes": provider})
