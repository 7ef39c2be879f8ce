"""Completion of the command line in a shell: made from the parser, so that it has every command and option, and nothing else.

Printed by ``autoscaler completion bash``.
"""

import argparse
from collections.abc import Iterator

_SCRIPT = """\
_autoscaler() {{
    local current=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD - 1]}} words='{commands}'
    case $previous in
        {files}) COMPREPLY=($(compgen -f -- "$current")); return ;;
        {places}) COMPREPLY=($(compgen -d -- "$current")); return ;;
    esac
    if ((COMP_CWORD > 1)); then
        case ${{COMP_WORDS[1]}} in
{cases}
            *) words='' ;;
        esac
    fi
    COMPREPLY=($(compgen -W "$words" -- "$current"))
}}
complete -o filenames -F _autoscaler autoscaler
"""


def script(parser: argparse.ArgumentParser) -> str:
    """Return what bash must read to complete the commands and options of a parser."""
    commands = {name: " ".join(sorted(_words(sub))) for name, sub in _below(parser)}
    cases = "\n".join(f"            {name}) words='{words}' ;;" for name, words in commands.items())
    files, places = ("|".join(sorted({*_taking(parser, metavar)})) for metavar in ("FILE", "PLACE"))
    words = " ".join([*commands, *sorted(_options(parser))])
    return _SCRIPT.format(commands=words, cases=cases, files=files, places=places)


def _taking(parser: argparse.ArgumentParser, metavar: str) -> Iterator[str]:
    """Yield what a value of this kind follows: options, and commands whose argument it is."""
    for name, sub in _below(parser):
        for action in sub._actions:  # noqa: SLF001  as below
            if action.metavar == metavar:
                yield from action.option_strings or [name]
        yield from _taking(sub, metavar)


def _words(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Yield everything that may stand behind a command: its own options, and commands below it with theirs."""
    yield from _options(parser)
    for name, sub in _below(parser):
        yield name
        yield from (x for x in _options(sub) if x != "--help")


def _below(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    for action in parser._actions:  # noqa: SLF001  argparse has no other way to ask
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            yield from action.choices.items()


def _options(parser: argparse.ArgumentParser) -> list[str]:
    return [option for action in parser._actions for option in action.option_strings if option.startswith("--")]  # noqa: SLF001
