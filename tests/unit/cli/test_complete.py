# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The scripts of ``baremetal-acc complete`` know each command and each option; bash completes with its script."""

import argparse
import io
import subprocess

import pytest

from baremetal_acc.cli.application import App
from baremetal_acc.cli.commands import complete


def script(shell: str) -> str:
    """The script of a shell."""
    app = App()
    app.options = argparse.Namespace(debug=False, verbose_level=1)
    app.stdout = io.StringIO()
    command = complete.Complete(app, app.options, cmd_name='complete')
    assert 0 == command.run(command.get_parser('baremetal-acc complete').parse_args(['--shell', shell]))
    return app.stdout.getvalue()


@pytest.fixture(scope='module')
def options() -> dict[str, set[str]]:
    """The long options of each command, as its parser has them."""
    app = App()
    app.options = argparse.Namespace(debug=False, verbose_level=1)
    return {
        ' '.join(words): {option for action in parser._actions for option in action.option_strings if option.startswith('--')}
        for words, parser in complete.parsers(app)
    }


@pytest.mark.parametrize('shell', complete.SHELLS)
def test_a_script_has_each_command_and_each_option(shell, options):
    """No command and no option is missing, and the shell's own check of bash finds nothing."""
    text = script(shell)
    for verb, named in options.items():
        assert all(word in text for word in verb.split()), verb
        for option in named:
            assert (f'-l {option.removeprefix("--")}' if shell == 'fish' else option) in text, (verb, option)
    if shell == 'bash':
        subprocess.run(['bash', '-n'], input=text, text=True, check=True)


TYPED = (
    ('inv', {'inventory'}),
    ('pool ', {'apply', 'demand', 'plan', 'watch'}),
    ('pool demand ', {'add', 'drop', 'list'}),
    ('apply --exe', {'--execute'}),
    ('inventory --format ', {'csv', 'json', 'table', 'value', 'yaml'}),
    ('apply --exposure ', {'tenant', 'service', 'none'}),
    ('complete --shell ', set(complete.SHELLS)),
    ('verify --baseline /etc/host', {'/etc/hosts', '/etc/hostname'}),
    ('certificate show /etc/host', {'/etc/hosts', '/etc/hostname'}),
)

BASH = r"""
source /dev/stdin
while IFS= read -r COMP_LINE <&3; do
    read -ra COMP_WORDS <<<"$COMP_LINE"
    [[ $COMP_LINE == *' ' ]] && COMP_WORDS+=('')
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1)) COMP_POINT=${#COMP_LINE} COMPREPLY=()
    function=$(complete -p baremetal-acc | sed 's/.*-F \([^ ]*\).*/\1/')
    "$function" baremetal-acc "${COMP_WORDS[-1]}" "${COMP_WORDS[-2]}"
    echo "${COMPREPLY[*]}"
done
"""


def test_bash_completes_what_is_typed(tmp_path):
    """Commands of several words, options, choices, and names of files."""
    lines = tmp_path / 'typed'
    lines.write_text(''.join(f'baremetal-acc {typed}\n' for typed, _ in TYPED))
    with lines.open() as stream:
        done = subprocess.run(
            ['bash', '-c', BASH.replace('<&3', f'<&{stream.fileno()}')],
            input=script('bash'),
            capture_output=True,
            text=True,
            pass_fds=[stream.fileno()],
            check=True,
        )
    for (typed, wanted), found in zip(TYPED, done.stdout.splitlines(), strict=True):
        assert wanted <= set(found.split()), (typed, found)
        assert typed.endswith('/etc/host') or wanted == set(found.split()), (typed, found)
