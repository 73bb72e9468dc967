# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The manual page has each option of each command, each exit code, and nothing that would end a line of its source early."""

import re

from baremetal_acc.cli.exits import Exit
from doc import manual
from doc.rst import plain


def test_each_option_of_each_command_is_described():
    """Those of a common group once, the others at their command."""
    common = '\n'.join(manual.common_options())
    listed = '\n'.join(manual.command_list())
    sections = dict(zip(*[iter(re.split(r'\n?^(.+)\n~+$', listed, flags=re.MULTILINE)[1:])] * 2, strict=True))
    assert set(manual.commands()) - {''} == set(sections)
    for name, parser in manual.commands().items():
        for group in parser._action_groups:
            for action in group._group_actions if name else ():
                text = common if group.title in manual.COMMON else sections[name]
                for option in action.option_strings:
                    assert f'**{option}**' in text or option in ('-h', '--help'), (name, option)
                metavar = plain(str(action.metavar or action.dest.upper()))
                assert action.option_strings or f'*{metavar}*' in text, (name, action.dest)


def test_the_global_options_are_described():
    """As the parser of the program has them."""
    text = '\n'.join(manual.global_options())
    for action in manual.commands()['']._actions:
        for option in action.option_strings:
            assert f'**{option}**' in text


def test_the_page_has_each_exit_code(tree):
    """As the table of the page about the command line has."""
    page = (tree / 'doc/source/reference/baremetal-acc.rst').read_text()
    section = page.partition('Exit status\n')[2].partition('\nEnvironment\n')[0]
    assert set(Exit) == {int(code) for code in re.findall(r'^\*\*(\d+)\*\*$', section, re.MULTILINE)}
