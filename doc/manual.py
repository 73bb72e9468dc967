# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The commands and options of the manual page, written from the parsers of the command line."""

import argparse
from collections.abc import Iterable, Iterator
from functools import cache

from baremetal_acc.cli.application import App
from baremetal_acc.cli.commands.complete import parsers
from baremetal_acc.cli.examples import EXAMPLES
from doc.rst import plain

COMMON = (
    'targets',
    'one BMC without a list',
    'configuration',
    'output formatters',
    'CSV Formatter',
    'json formatter',
    'table formatter',
)
"""Groups of options that many commands have. They are described once."""

_TITLES = {
    'targets': 'Targets',
    'one BMC without a list': 'One BMC without a list',
    'configuration': 'Configuration',
    'output formatters': 'Output',
    'CSV Formatter': 'Output as CSV',
    'json formatter': 'Output as JSON',
    'table formatter': 'Output as a table',
}

Parsers = dict[str, argparse.ArgumentParser]


@cache
def commands() -> Parsers:
    """The parser of each command, by its name; that of the program by the empty name."""
    app = App()
    app.options = argparse.Namespace(debug=False, verbose_level=1)
    return {'': app.parser, **{' '.join(words): parser for words, parser in parsers(app) if words != ('help',)}}


def global_options() -> Iterator[str]:
    """The options that stand before the command."""
    yield from _options(commands()['']._actions)


def common_options() -> Iterator[str]:
    """The groups of options that many commands have."""
    for name in COMMON:
        found: dict[str, argparse.Action] = {}
        for parser in commands().values():
            for group in parser._action_groups:
                if group.title == name:
                    found |= {_term(action): action for action in group._group_actions}
        yield from _heading(_TITLES[name], '~')
        yield from _options(found.values())


def command_list() -> Iterator[str]:
    """Each command with its description, its own options and its examples."""
    for name, parser in commands().items():
        if not name:
            continue
        yield from _heading(name, '~')
        positional = [action for action in parser._actions if not action.option_strings]
        words = ' '.join(_positional(action) for action in positional)
        yield from (f'**baremetal-acc {name}** [*options*] {words}'.rstrip(), '')
        yield from (plain(' '.join((parser.description or '').split())), '')
        groups = [group.title for group in parser._action_groups if group.title in COMMON and group._group_actions]
        if groups:
            yield from (f'Common options: {", ".join(_TITLES[str(title)] for title in groups)}.', '')
        own = [a for g in parser._action_groups if g.title not in COMMON for a in g._group_actions]
        yield from _options(action for action in own if '--help' not in action.option_strings)
        for said, line in EXAMPLES.get(name, ()):
            yield from (f'{plain(said)}::', '', f'    $ baremetal-acc {line}', '')


def _options(actions: Iterable[argparse.Action]) -> Iterator[str]:
    for action in actions:
        if action.help is argparse.SUPPRESS:
            continue
        values = vars(action) | {'prog': 'baremetal-acc'}
        values['choices'] = ', '.join(map(str, action.choices)) if action.choices is not None else ''
        yield _term(action)
        # Without the escaped colon an example of a URL would become a link.
        yield '    ' + plain(' '.join(((action.help or '') % values).split())).replace('://', '\\://')
        yield ''


def _term(action: argparse.Action) -> str:
    if not action.option_strings:
        return _positional(action)
    value = '' if action.nargs == 0 else f' *{plain(_metavar(action))}*'
    return ', '.join(f'**{plain(option)}**{value}' for option in action.option_strings)


def _positional(action: argparse.Action) -> str:
    word = f'*{plain(_metavar(action))}*'
    match action.nargs:
        case '*':
            return f'[{word} ...]'
        case '+':
            return f'{word} [...]'
        case '?':
            return f'[{word}]'
        case _:
            return word


def _metavar(action: argparse.Action) -> str:
    if action.metavar is None and action.choices is not None:
        return '|'.join(map(str, action.choices))
    return str(action.metavar or action.dest.upper()).strip('<>')


def _heading(title: str, line: str) -> tuple[str, ...]:
    return (title, line * len(title), '')
