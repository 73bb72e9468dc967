# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Entry point of ``baremetal-acc``. It imports the application itself, so that a Ctrl-C during the import is no traceback."""

import signal
import sys
from collections.abc import Sequence

_INTERRUPTED = 130
"""``Exit.INTERRUPTED`` of :mod:`baremetal_acc.cli.exits`, which may not be imported yet when it is needed."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line.

    :param argv: the arguments; None: those of the process, which ends after this call.
    :returns: the exit code; see :class:`baremetal_acc.cli.exits.Exit`.
    """
    try:
        try:
            from baremetal_acc import standard_streams

            standard_streams.open_closed()
            from baremetal_acc.cli import application

            return application.run(sys.argv[1:] if argv is None else argv)
        finally:
            if argv is None and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
                # While Python shuts down, a KeyboardInterrupt could be caught nowhere.
                signal.signal(signal.SIGINT, signal.SIG_DFL)
    except KeyboardInterrupt:
        return _INTERRUPTED


if __name__ == '__main__':
    sys.exit(main())
