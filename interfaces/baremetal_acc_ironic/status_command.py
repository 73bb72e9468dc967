# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Entry point of the command ``baremetal-acc-status``, which says in one line what is missing or wrong, without a traceback."""

import os
import sys

ERROR = 255
"""Exit code of an error. Source: oslo.upgradecheck, upgradecheck.py, main."""

INTERRUPTED = 130
"""Exit code of Ctrl-C, as in shells (128 + SIGINT)."""


def main() -> int:
    """Run :mod:`baremetal_acc_ironic.status`, which needs Ironic and its database."""
    for name, mode in (('stdin', 'r'), ('stdout', 'w'), ('stderr', 'w')):
        if getattr(sys, name) is None:  # its descriptor was closed
            setattr(sys, name, open(os.devnull, mode, encoding='utf-8'))  # noqa: SIM115 - open until the process ends
    try:
        return _checked()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _discard_output()
        return 0
    except OSError as exc:
        _discard_output()
        return _failed(f'{exc.filename or "standard output"}: {exc.strerror}', 'fix the cause, then run it again')
    except Exception as exc:  # noqa: BLE001 - oslo.config has errors of many classes
        hint = 'name ironic.conf by --config-file before "upgrade check"'
        return _failed(' '.join(str(exc).split()) or type(exc).__name__, hint)


def _checked() -> int:
    try:
        from baremetal_acc_ironic import status
    except ModuleNotFoundError as exc:
        missing = (exc.name or '').partition('.')[0]
        what = f"Python module {missing} is not installed; this command reads Ironic's database, as ironic-status does"
        return _failed(what, 'run it where a conductor runs, or pip install baremetal-acc[ironic]')
    code = status.main()
    sys.stdout.flush()
    return code


def _failed(what: str, hint: str) -> int:
    try:
        sys.stderr.write(f'baremetal-acc-status: error: {what} ({hint})\n')
        sys.stderr.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())  # nobody can be told
    return ERROR


def _discard_output() -> None:
    """Send what is still buffered to the null device: Python would report the failure again when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
