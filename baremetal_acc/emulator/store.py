# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The stored state of an emulated machine: one JSON file, written whole or not at all, readable by its owner only."""

import json
from pathlib import Path
from typing import Any

from baremetal_acc.emulator.machine import Machine
from baremetal_acc.emulator.tls import write_private


class BadState(Exception):
    """The stored state is not valid. The text names the file and says why."""


class MachineStore:
    """The state file of one machine."""

    def __init__(self, directory: Path, machine: Machine) -> None:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._path = directory / 'machine.json'
        self._machine = machine
        self._saved = -1
        self._kept: dict[str, Any] = {}

    def load(self) -> bool:
        """Load the stored state; return False when there is none.

        :raises BadState: the file is not JSON, or of another product.
        """
        if not self._path.exists():
            return False
        try:
            document: Any = json.loads(self._path.read_text())
            self._machine.load(document)
        except (ValueError, KeyError, TypeError, AttributeError) as exc:
            why = f'{exc} is missing, or unknown to this machine' if isinstance(exc, KeyError) else exc
            raise BadState(f'{self._path}: {why} (use another directory, or remove the file)') from exc
        return True

    def save(self) -> None:
        """Store the state, if it has changed."""
        kept = self._machine.kept()
        if self._machine.revision != self._saved or kept != self._kept:
            write_private(self._path, json.dumps(self._machine.dump()).encode())
            self._saved, self._kept = self._machine.revision, kept
