# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Entry point of the command ``baremetal-acc-status``; where Ironic is not installed, it says what to install."""

import sys

ERROR = 255
"""Exit code of an error. Source: oslo.upgradecheck, upgradecheck.py, main."""


def main() -> int:
    """Run :mod:`baremetal_acc_ironic.status`, which needs Ironic and its database."""
    try:
        from baremetal_acc_ironic import status
    except ModuleNotFoundError as exc:
        missing = (exc.name or '').partition('.')[0]
        what = f"Python module {missing} is not installed; this command reads Ironic's database, as ironic-status does"
        sys.stderr.write(
            f'baremetal-acc-status: {what} (run it where a conductor runs, or pip install baremetal-acc[ironic])\n'
        )
        return ERROR
    return status.main()
