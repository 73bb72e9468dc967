# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Run the demo: ``python -m baremetal_acc.demo``.

It imports the demo itself, so that a Ctrl-C during the import is no traceback.
"""

import sys

_INTERRUPTED = 130
"""``INTERRUPTED`` of :mod:`baremetal_acc.demo.life`, which may not be imported yet when it is needed."""


def main() -> int:
    """Run the demo with the arguments of the process, and return its exit code."""
    try:
        from baremetal_acc.demo import life

        return life.main()
    except KeyboardInterrupt:
        return _INTERRUPTED


if __name__ == '__main__':
    sys.exit(main())
