# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Pytest fixtures that start emulated machines and recorded trees for a test, and stop them after the test.

Example::

    def test_my_client(emulated_machine):
        machine = emulated_machine('acc-server', flash_seconds=0.2)
        bmc = machine.bmcs['host']          # .address .username .password .verify_ca .system
        ...
        assert machine.truth()['locks']['FPGA1/ProgrammableFromHost']['closed']

``emulated_machine(product, **parameters)`` takes the fields of :class:`baremetal_acc.emulator.hw.parameters.Parameters`
(``flash_seconds``, ``gpus``, ``versions``, ``settings``, ``options={'host': {'push': False}}``, ...), of
:class:`baremetal_acc.emulator.server.Serving` (``tls``, ``state``, ``no_auth``, ...) and of
:class:`baremetal_acc.emulator.http_frontend.Knobs` (``delay``, ``slots``, ``expand_member_delay``).
``emulated_recording(directory, **...)`` serves a recorded tree. The emulator is imported only when a fixture is used, so the
plugin does not slow the start of pytest.
"""

from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest

if TYPE_CHECKING:
    from baremetal_acc.emulator.remote import Remote
    from baremetal_acc.emulator.server import Emulator, EmulatorThread, ServerAddress


class EmulatedMachine:
    """A running machine. Its other attributes (truth, log, fault, ...) are those of its ``remote``."""

    def __init__(self, thread: 'EmulatorThread', remote: 'Remote') -> None:
        self._thread = thread
        self.remote = remote

    @property
    def bmcs(self) -> Mapping[str, 'ServerAddress']:
        """The addresses and credentials of the BMCs, by name."""
        return self._thread.emulator.bmcs

    @property
    def door(self) -> str:
        """URL of the host agent API."""
        return self.remote.door

    @property
    def control(self) -> str:
        """URL of the control API."""
        return self.remote.control

    @property
    def spdm_root(self) -> str | None:
        """The root certificate of the devices that sign measurements, PEM; None without the feature ``spdm``."""
        product = self._thread.emulator.product
        return product.authority.root().decode() if product is not None and product.authority is not None else None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.remote, name)

    def stop(self) -> None:
        """Stop the machine; a state directory keeps its state."""
        self._thread.stop()


class MachineFactory(Protocol):
    """Starts a machine of a product."""

    def __call__(self, product: str, **parameters: Any) -> EmulatedMachine:
        """Return the running machine."""
        ...


class RecordingFactory(Protocol):
    """Serves a recorded tree."""

    def __call__(self, directory: Path | str, **parameters: Any) -> EmulatedMachine:
        """Return the running site; its one BMC is called ``recording``."""
        ...


def _split(parameters: dict[str, Any], *kinds: type) -> tuple[dict[str, Any], ...]:
    """Split the parameters by the dataclass that has a field of that name.

    :raises TypeError: none of them has a field of that name.
    """
    parts = []
    for kind in kinds:
        names = {one.name for one in fields(kind)}
        parts.append({name: parameters.pop(name) for name in list(parameters) if name in names})
    if parameters:
        known = sorted(one.name for kind in kinds for one in fields(kind))
        raise TypeError(f'unknown parameters {", ".join(sorted(parameters))}; the parameters are {", ".join(known)}')
    return tuple(parts)


def _run(emulator: 'Emulator') -> EmulatedMachine:
    from baremetal_acc.emulator.remote import Remote
    from baremetal_acc.emulator.server import EmulatorThread

    thread = EmulatorThread(emulator)
    thread.start()
    return EmulatedMachine(thread, Remote(emulator.door, emulator.control))


@pytest.fixture
def emulated_machine() -> Iterator[MachineFactory]:
    """A factory of emulated machines; every machine that it started is stopped after the test."""
    running: list[EmulatedMachine] = []

    def start(product: str, **parameters: Any) -> EmulatedMachine:
        from baremetal_acc.emulator.http_frontend import Knobs
        from baremetal_acc.emulator.hw import build
        from baremetal_acc.emulator.hw.parameters import Parameters
        from baremetal_acc.emulator.redfish.view import Options
        from baremetal_acc.emulator.server import Emulator, Serving

        knobs, serving, made = _split(dict(parameters), Knobs, Serving, Parameters)
        given = made.pop('options', {})
        made['options'] = {bmc: Options(**one) if isinstance(one, Mapping) else one for bmc, one in given.items()}
        machine = _run(Emulator(Serving(**({'knobs': Knobs(**knobs)} | serving)), product=build(product, Parameters(**made))))
        running.append(machine)
        return machine

    yield start
    for machine in running:
        machine.stop()


@pytest.fixture
def emulated_recording() -> Iterator[RecordingFactory]:
    """A factory that serves recorded trees. It takes ``users``, ``needs_login``, ``expand`` and fields of Serving and Knobs."""
    running: list[EmulatedMachine] = []

    def start(directory: Path | str, **parameters: Any) -> EmulatedMachine:
        from baremetal_acc.emulator.http_frontend import Knobs
        from baremetal_acc.emulator.recording import Recording
        from baremetal_acc.emulator.server import Emulator, Serving

        given = dict(parameters)
        options = {name: given.pop(name) for name in ('users', 'needs_login', 'expand') if name in given}
        knobs, serving = _split(given, Knobs, Serving)
        machine = _run(
            Emulator(Serving(**({'knobs': Knobs(**knobs)} | serving)), recording=Recording(Path(directory)), **options)
        )
        running.append(machine)
        return machine

    yield start
    for machine in running:
        machine.stop()
