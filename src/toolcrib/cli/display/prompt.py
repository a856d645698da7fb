"""A request to a model, for people at a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from toolcrib.cli.display.event_lines import moment

if TYPE_CHECKING:
    from toolcrib.agent.prompt_view import ModelPrompt
    from toolcrib.cli.terminal import Terminal


def show(terminal: Terminal, prompt: ModelPrompt, *, whole: bool) -> None:
    """Print a request to a model; without `whole`, only what was not in the one before."""
    turn = "a summary" if prompt.purpose == "summary" else f"turn {prompt.turn}"
    terminal.text(f"{prompt.agent}, {turn}, asked {moment(prompt.at)}, event {prompt.seq}", "bold")
    for note in prompt.notes:
        terminal.text(note, "yellow")
    if prompt.instructions is not None and (whole or prompt.previous is None or prompt.instructions_before is not None):
        terminal.text("\ninstructions", "cyan")
        terminal.text(prompt.instructions or "(none)")
    if prompt.tools is not None:
        terminal.text("\ntools", "cyan")
        terminal.text(", ".join(tool.name for tool in prompt.tools) or "(none)")
    skipped = 0 if whole else prompt.same
    if skipped:
        terminal.text(
            f"\n{skipped} messages as in the request before (event {prompt.previous}); --all shows them", "dim"
        )
    if prompt.dropped:
        terminal.text(f"\n{prompt.dropped} messages of the request before are not sent any more", "dim")
    for message in prompt.messages[skipped:]:
        terminal.text(f"\n{message.role}{f' {message.call}' if message.call else ''}", "cyan")
        if message.text:
            terminal.text(message.text)
        for call in message.calls:
            terminal.text(f"-> {call.name} {call.args} ({call.id})")
