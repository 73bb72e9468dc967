# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Which test runs the commands of which page, and which commands no test runs, with the reason."""

from tests.pages import README, PageCommand, commands

RUN_BY = {
    'quickstart': ('tests/journey/test_pages.py',),
    'demo': (),
    'command_line': ('tests/cli/test_first_session.py',),
    'emulator': ('tests/cli/test_command_pages.py',),
    'cli': ('tests/cli/test_command_pages.py',),
    'install': ('tests/journey/test_pages.py',),
    'ironic': ('tests/journey/test_pages.py',),
    'attach': ('tests/journey/test_pages.py',),
    'deployers': (),
    'tenants': ('tests/cli/test_tenants_page.py',),
    README: ('tests/journey/test_pages.py',),
}
"""The files whose tests run the commands of a page. The page of the demo has none: its command is that of the quickstart."""

NOT_RUN = {
    (
        'quickstart',
        'apt-get install ca-certificates curl git make python3-venv',
    ): 'installs packages on the machine of the reader',
    ('emulator', 'qemu-system-x86_64 ...'): 'a part of the command line of QEMU; make soak-qemu runs QEMU with these devices',
    ('README', 'make demo '): '.ci/run runs it, in a copy of the checkout',
    ('README', 'make test '): '.ci/run runs it, in a copy of the checkout',
    (
        'README',
        'pip install -c https://releases.openstack.org',
    ): 'the package is not on PyPI yet; make demo installs this extra',
    ('install', 'pip install baremetal-acc'): 'the package is not on PyPI yet; .ci/run installs the core from the checkout',
    ('install', 'pip install --require-hashes -r requirements/core.txt'): '.ci/run runs it, in a copy of the checkout',
    ('install', 'pip install --no-deps --no-build-isolation .'): '.ci/run runs it, in a copy of the checkout',
    (
        'install',
        'baremetal-acc complete --shell',
    ): 'writes for the shells of the reader; tests/unit/cli/test_complete.py runs it',
    ('README', 'openstack role add'): 'needs Keystone',
    ('deployers', 'kolla-build'): 'needs Kolla and Docker; the page says that it was not tried',
}
"""Commands that no test runs, by the page and how they begin, with the reason."""

CI = ('make demo', 'make test', '--require-hashes --requirement requirements/core.txt', '--no-deps --no-build-isolation .')
"""What .ci/run runs."""


def is_left_out(command: PageCommand) -> bool:
    """Whether a command is one that no test runs."""
    return any(command.page == page and command.words.startswith(words) for page, words in NOT_RUN)


def run_on(page: str, *, after: str = '', before: str = '') -> list[PageCommand]:
    """The commands of a page, or of a part of it, that a test has to run.

    :param after: the title of a section; the commands below it.
    :param before: the title of a section; the commands above it.
    """
    return [command for command in commands(page, after=after, before=before) if not is_left_out(command)]
