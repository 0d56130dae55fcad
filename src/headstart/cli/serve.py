"""``headstart serve``."""

from __future__ import annotations

import ipaddress
from pathlib import Path

import typer

from headstart.cli.folder import load_model, using


def serve(path: Path, host: str, port: int) -> None:
    """Serve a model until Ctrl-C."""
    estimator = load_model(path)
    from headstart.fitting.serving import Server

    server = Server(estimator.model_, host, port)
    with server:
        if server.model.reference is not None:
            with using(path):  # what loads late is loaded now, and a damaged model is found now
                server.model.predict_ready(server.model.reference)
        typer.echo(f"{estimator.model_!r} on {server.address}; Ctrl-C stops it")
        if not _is_loopback(str(server.server_address[0])):
            typer.echo("Other machines can reach it, and there is no authentication.", err=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            typer.echo("stopped")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
