# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Run a command that needs Ironic, and say in one line what is missing or wrong, without a traceback."""

import os
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass

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
        for name, mode in (('stdin', 'r'), ('stdout', 'w'), ('stderr', 'w')):
            if getattr(sys, name) is None:  # its descriptor was closed
                setattr(sys, name, open(os.devnull, mode, encoding='utf-8'))  # noqa: SIM115 - open until the process ends
        if not sys.warnoptions:
            warnings.simplefilter('ignore')  # of Ironic's libraries, for their developers
        try:
            code = _ended(work)
            sys.stdout.flush()
            return code
        except KeyboardInterrupt:
            return INTERRUPTED
        except BrokenPipeError:
            _discard_output()
            return 0
        except ModuleNotFoundError as exc:
            missing = (exc.name or '').partition('.')[0]
            what = f'Python module {missing} is not installed; this command reads {self.reads}'
            return self._failed(f'{what} (run it where a conductor runs, or pip install baremetal-acc[ironic])')
        except AccError as exc:
            return self._failed(str(exc))
        except OSError as exc:
            _discard_output()
            return self._failed(f'{exc.filename or "standard output"}: {exc.strerror} (fix the cause, then run it again)')
        except Exception as exc:  # noqa: BLE001 - oslo.config has errors of many classes
            return self._failed(f'{" ".join(str(exc).split()) or type(exc).__name__} ({self.hint})')

    def _failed(self, text: str) -> int:
        try:
            sys.stderr.write(f'{self.name}: error: {text}\n')
            sys.stderr.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())  # nobody can be told
        return self.error


def _ended(work: Callable[[], int]) -> int:
    try:
        return work()
    except SystemExit as exc:  # of argparse, after its help or its error
        return exc.code if isinstance(exc.code, int) else 0


def _discard_output() -> None:
    """Send what is still buffered to the null device: Python would report the failure again when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
