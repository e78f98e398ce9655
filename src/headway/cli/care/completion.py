"""`headway completion`: prints the script with which a shell completes commands and flags."""

from __future__ import annotations

import click

from headway.cli.program.click_classes import Command


@click.command(cls=Command)
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the completion script for a shell.

    \b
    bash:  headway completion bash > ~/.local/share/bash-completion/completions/headway
    zsh:   headway completion zsh > "${fpath[1]}/_headway"
    fish:  headway completion fish > ~/.config/fish/completions/headway.fish
    """
    from click.shell_completion import get_completion_class

    script = get_completion_class(shell)
    assert script is not None
    click.echo(script(ctx.find_root().command, {}, "headway", "_HEADWAY_COMPLETE").source())
