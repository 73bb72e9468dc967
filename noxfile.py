# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Sessions for what is needed rarely: ``.venv/bin/nox --list``. All else is in the Makefile (``make help``).

All sessions but ``constraints`` run in the ``.venv`` that make fills, and do not make one of their own.
"""

import shlex
from pathlib import Path

import nox

nox.options.sessions = []  # one has to be named

CONSTRAINTS = Path('constraints.txt')


@nox.session(venv_backend='none')
def again(session: nox.Session) -> None:
    """Run the tests that failed in the last run again, in one process."""
    arguments = shlex.join(['--last-failed', '--last-failed-no-failures', 'none', *session.posargs])
    session.run('make', '--no-print-directory', 'check', 'TEST_PROCESSES=0', f'PYTEST_ARGS={arguments}', external=True)


@nox.session(venv_backend='venv', python='3.11')
def constraints(session: nox.Session) -> None:
    """Write the versions that pip installs today to constraints.txt, and the lock files with hashes (tests/tools/lock.py).

    Name the oldest Python that is supported with ``--force-python``, and run ``make test`` afterwards. With ``-- --keep``
    constraints.txt stays as it is, and only the lock files are written.
    """
    if session.posargs == ['--keep']:
        session.install('--constraint', str(CONSTRAINTS), 'packaging', 'uv')
        session.run('python', '-m', 'tests.tools.lock')
        return
    session.install('setuptools', 'wheel')
    session.install('--no-build-isolation', '--editable', '.[test,docs,bench,cloud]')
    frozen = session.run(
        'python', '-m', 'pip', 'freeze', '--all', '--exclude', 'pip', '--exclude', 'baremetal-acc', silent=True
    )
    if not isinstance(frozen, str):
        return  # with nox --install-only nothing runs
    pinned = [line for line in frozen.splitlines() if '==' in line]
    comment = [line for line in CONSTRAINTS.read_text().splitlines() if line.startswith('#')]
    CONSTRAINTS.write_text('\n'.join([*comment, *sorted(pinned, key=lambda line: (line.upper(), line))]) + '\n')
    session.run('python', '-m', 'tests.tools.lock')


@nox.session(venv_backend='none')
def sbom(session: nox.Session) -> None:
    """Write the SBOM of the runtime dependencies, which wheel and sdist have, from the lock files (tests/tools/sbom.py)."""
    run_module(session, 'tests.tools.sbom')


@nox.session(name='tenant-fields', venv_backend='none')
def tenant_fields(session: nox.Session) -> None:
    """Write doc/source/reference/tenant_fields.rst from Ironic's policy and tests/ironic/tenant_readers.py."""
    run_module(session, 'tests.ironic.tenant_fields')


@nox.session(name='support-matrix', venv_backend='none')
def support_matrix(session: nox.Session) -> None:
    """Run the tests of the support matrix, and write the entries that passed to doc/source/tried.json."""
    run_module(session, 'tests.support.matrix')


@nox.session(venv_backend='none')
def programs(session: nox.Session) -> None:
    """Install Debian packages that tests need, as root: nox -s programs -- mariadb postgresql rabbitmq ipmitool qemu guest."""
    session.run('tests/tools/programs.sh', *session.posargs, external=True)


def run_module(session: nox.Session, module: str) -> None:
    """Run a module in the ``.venv`` that ``make test`` uses."""
    session.run('make', '--no-print-directory', '.venv/.installed-test', external=True)
    session.run('.venv/bin/python', '-m', module, *session.posargs, external=True)
