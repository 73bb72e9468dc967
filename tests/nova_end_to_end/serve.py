# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Serve a WSGI application by waitress: ``python -m tests.nova_end_to_end.serve PORT THREADS MODULE:NAME``.

Keystone and Nova read the arguments of the process that imports their applications, and refuse those of ``waitress-serve``.
"""

import importlib
import sys

import waitress


def main() -> None:
    """Until it is killed."""
    port, threads, application = sys.argv[1:]
    del sys.argv[1:]
    module, _, name = application.partition(':')
    waitress.serve(getattr(importlib.import_module(module), name), listen=f'127.0.0.1:{port}', threads=int(threads))


if __name__ == '__main__':
    main()
