# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Run a command that needs Ironic, and say in one line what is missing or wrong, without a traceback."""

import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass

from baremetal_acc import standard_streams
from baremetal_acc.errors import AccError

INTERRUPTED = 130
"""Exit code of Ctrl-C, as in shells (128 + SIGINT)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleProgram:
    """A command beside ``baremetal-acc``.

    :ivar error: exit code of an error.
    :ivar reads: what the command reads, and so needs Ironic for.
    :ivar hint: what to do about an error of Ironic or of its libraries.
    """

    name: str
    error: int
    reads: str
    hint: str

    def run(self, work: Callable[[], int]) -> int:
        """Do the work, and return the exit code.

        :param work: imports Ironic; what it prints is written before this returns.
        """
        standard_streams.open_closed()
        if not sys.warnoptions:
            warnings.simplefilter('ignore')  # of Ironic's libraries, for their developers
        try:
            code = _ended(work)
            sys.stdout.flush()
            return code
        except KeyboardInterrupt:
            return INTERRUPTED
        except BrokenPipeError:
            standard_streams.discard(sys.stdout)
            return 0
        except ModuleNotFoundError as exc:
            missing = (exc.name or '').partition('.')[0]
            what = f'Python module {missing} is not installed; this command reads {self.reads}'
            return self._failed(f'{what} (run it where a conductor runs, or pip install baremetal-acc[ironic])')
        except AccError as exc:
            return self._failed(str(exc))
        except OSError as exc:
            standard_streams.discard(sys.stdout)
            return self._failed(f'{exc.filename or "standard output"}: {exc.strerror} (fix the cause, then run it again)')
        except Exception as exc:  # noqa: BLE001 - oslo.config has errors of many classes
            return self._failed(f'{" ".join(str(exc).split()) or type(exc).__name__} ({self.hint})')

    def _failed(self, text: str) -> int:
        try:
            sys.stderr.write(f'{self.name}: error: {text}\n')
            sys.stderr.flush()
        except OSError:
            standard_streams.discard(sys.stderr)  # nobody can be told
        return self.error


def _ended(work: Callable[[], int]) -> int:
    try:
        return work()
    except SystemExit as exc:  # of argparse, after its help or its error
        return exc.code if isinstance(exc.code, int) else 0
