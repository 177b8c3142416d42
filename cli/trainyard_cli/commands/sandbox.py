"""`trainyard sandbox`: the local cluster."""

from __future__ import annotations

import dataclasses
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from trainyard_sandbox import bundle_writer, cluster, parts, pulumi
from trainyard_sandbox.bundle import VARIABLE
from trainyard_sandbox.cluster import Sandbox
from trainyard_sandbox.errors import SandboxError
from trainyard_sandbox.paths import Instance
from trainyard_sandbox.progress import Progress

from ..output import write_json, write_table

app = typer.Typer(help="A real Kubernetes on this machine, without Docker.", no_args_is_help=True)

Name = Annotated[str, typer.Option("--name", help="Name of the sandbox; several can run side by side.")]
ControlPlaneOnly = Annotated[
    bool,
    typer.Option("--control-plane-only", help="Only simulated nodes: pods run no containers. Needs no root."),
]


def _known(version: str | None) -> str | None:
    if version is not None and version not in cluster.KUBERNETES:
        raise typer.BadParameter(f"must be one of {', '.join(sorted(cluster.KUBERNETES))}; not {version}.")
    return version


Kubernetes = Annotated[
    str | None,
    typer.Option(
        "--kubernetes",
        metavar="|".join(sorted(cluster.KUBERNETES)),
        callback=_known,
        autocompletion=lambda: sorted(cluster.KUBERNETES),
        help=f"Its version; by default the one that it has, or {cluster.USUAL_KUBERNETES}.",
    ),
]
FromSource = Annotated[
    bool,
    typer.Option("--from-source", help="Build everything here, and download no upstream releases."),
]


def _parts(names: list[str] | None) -> list[str]:
    try:
        return list(parts.named(names or ()))
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


With = Annotated[
    list[str] | None,
    typer.Option(
        "--with",
        metavar="|".join([*parts.PARTS, parts.ALL]),
        callback=_parts,
        autocompletion=lambda: [*parts.PARTS.items(), (parts.ALL, "all of them")],
        help="An optional part; may be repeated. A running sandbox gets it too.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="JSON instead of a table.")]


@app.command()
def up(
    *,
    name: Name = "default",
    control_plane_only: ControlPlaneOnly = False,
    nodes: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=9,
            help="Nodes that run pods. Each reports the whole machine as its capacity. "
            "By default as many as before, or one.",
        ),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(min=1, max=65535, help="Loopback port of the API server; by default a free one."),
    ] = None,
    kubernetes: Kubernetes = None,
    with_parts: With = None,
    from_source: FromSource = False,
) -> None:
    """Bring the sandbox up, or repair it.

    Gets what is missing, only the first time: from a bundle, from upstream's
    releases, or by building it. Then starts what does not run and waits until
    the nodes are Ready.

    Example: trainyard sandbox up && trainyard sandbox exec -- kubectl get nodes
    Example: trainyard sandbox up --with mpi --with volcano
    """
    if control_plane_only and nodes:
        raise typer.BadParameter("with --control-plane-only no node runs pods.", param_hint="--nodes")
    sandbox = Sandbox(Instance(name))
    with Progress() as progress:
        sandbox.up(
            progress,
            nodes=0 if control_plane_only else nodes,
            port=port,
            kubernetes=kubernetes,
            parts=with_parts or (),
            from_source=from_source,
        )
    flag = "" if name == "default" else f" --name {name}"
    print(f"export KUBECONFIG={shlex.quote(str(sandbox.instance.kubeconfig))}")
    print(
        f"The sandbox {name!r} is up. Use it with the line above, or with "
        f"`trainyard sandbox exec{flag} -- kubectl get nodes`; end it with `trainyard sandbox down{flag}`.",
        file=sys.stderr,
    )
    if lacking := parts.lacking(sandbox.parts):
        print(
            f"It is without {', '.join(lacking)}. To add one: trainyard sandbox up{flag} --with {lacking[0]}",
            file=sys.stderr,
        )


@app.command()
def down(name: Name = "default") -> None:
    """Take the sandbox down; only the caches stay."""
    Sandbox(Instance(name)).down()
    print(f"The sandbox {name!r} is down.", file=sys.stderr)


@app.command()
def build(
    control_plane_only: ControlPlaneOnly = False,
    kubernetes: Kubernetes = None,
    with_parts: With = None,
    from_source: FromSource = False,
) -> None:
    """Get the toolchain and the images, so that `up` is quick."""
    version = kubernetes or cluster.USUAL_KUBERNETES
    with Progress() as progress:
        cluster.build(
            progress,
            control_plane_only=control_plane_only,
            kubernetes=version,
            parts=with_parts or (),
            from_source=from_source,
        )


@app.command()
def bundle(
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder to put it in.")] = Path(),
    archive: Annotated[bool, typer.Option("--archive", help="A tar, in place of a folder.")] = False,
    with_parts: With = None,
) -> None:
    """Pack what a sandbox consists of into a bundle, for other machines.

    They need not build it then. Builds what is missing, and prints the variable that makes
    others use the bundle: with the path, or with the address of a web server that has the
    folder. It holds the optional parts that you name.

    Example: trainyard sandbox bundle --output /srv/www --with mpi
    """
    with Progress() as progress:
        paths = cluster.bundled(progress, with_parts or ())
        written = bundle_writer.write(paths, output, progress, archive=archive)
    print(f"export {VARIABLE}={shlex.quote(str(written.path.resolve()))}")
    if not archive:
        print(
            f"From a web server: {VARIABLE}=https://.../{written.path.name}#sha256={written.digest}",
            file=sys.stderr,
        )


@app.command()
def status(name: Name = "default", as_json: AsJson = False) -> None:
    """Show the state of the sandbox.

    Exit code 1 unless it is up and all of it runs.
    """
    answer = Sandbox(Instance(name)).status()
    if as_json:
        write_json(dataclasses.asdict(answer), sys.stdout)
    elif answer.components:
        rows = [
            (
                component,
                running["state"],
                str(running["pid"] or ""),
                "" if running["exit_code"] is None else str(running["exit_code"]),
            )
            for component, running in answer.components.items()
        ]
        write_table(("COMPONENT", "STATE", "PID", "EXIT CODE"), rows, sys.stdout)
    if answer.problem:
        print(answer.problem, file=sys.stderr)
    raise typer.Exit(0 if answer.healthy else 1)


@app.command(name="exec", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
def execute(
    command: Annotated[list[str], typer.Argument(help="What to run, after `--`.")],
    name: Name = "default",
    user: Annotated[
        str | None,
        typer.Option(help="User to run it as, with that user's rights; by default an administrator."),
    ] = None,
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="That user's namespace.")] = "default",
    stack: Annotated[
        str | None,
        typer.Option(help="A stack of your own to try on it, without its cloud.", metavar="NAME"),
    ] = None,
) -> None:
    """Run a command that uses the sandbox.

    It gets the sandbox's kubectl, Pulumi backend and kubeconfig. With --stack, Pulumi reads a copy of
    that stack's file that fits the sandbox: its pools are simulated, and images are the sandbox's.

    Example: trainyard sandbox exec -- pulumi up --stack sandbox

    Example: trainyard sandbox exec --name prod --stack prod -- make preview STACK=prod

    Example: trainyard sandbox exec --user ada --namespace team-a -- kubectl get trainjobs
    """
    environment = {**pulumi.inherited(), **Sandbox(Instance(name)).environment(user, namespace, site=stack)}
    try:
        os.execvpe(command[0], command, environment)  # noqa: S606 (this is what exec is for)
    except FileNotFoundError:
        raise SandboxError(f"{command[0]}: there is no such command on PATH or in the sandbox.") from None


@app.command()
def logs(
    component: Annotated[str, typer.Argument(help="A component, `supervisor` or `audit`.")],
    name: Name = "default",
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Follow the log as it grows.")] = False,
) -> None:
    """Print the log of a component.

    Example: trainyard sandbox logs kubelet
    """
    log = Sandbox(Instance(name)).log_file(component)
    follow_flags = ["--follow"] if follow else []
    raise typer.Exit(subprocess.run(["tail", "--lines=+1", *follow_flags, str(log)], check=False).returncode)
