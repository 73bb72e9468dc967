# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Entry point of the command ``baremetal-acc-status``."""

from baremetal_acc_ironic.console_program import ConsoleProgram

ERROR = 255
"""Exit code of an error. Source: oslo.upgradecheck, upgradecheck.py, main."""

PROGRAM = ConsoleProgram(
    name='baremetal-acc-status',
    error=ERROR,
    reads="Ironic's database, as ironic-status does",
    hint='name ironic.conf by --config-file before "upgrade check"',
)


def main() -> int:
    """Run :mod:`baremetal_acc_ironic.status`, which needs Ironic and its database."""
    return PROGRAM.run(_check)


def _check() -> int:
    from baremetal_acc_ironic import status

    return status.main()
