"""Options that several commands have: one wording each."""

from typing import Annotated

import typer

Kubeconfig = Annotated[
    str | None, typer.Option(help="Kubeconfig file; KUBECONFIG or ~/.kube/config unless given.")
]
Context = Annotated[str | None, typer.Option(help="Context of the kubeconfig; its current one unless given.")]
