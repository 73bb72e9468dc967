# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""How does a test get a BMC? Two fixtures, which start emulated machines and stop them when the test is over.

    def test_my_client(emulated_machine):
        machine = emulated_machine('acc-server', flash_seconds=0.2)
        bmc = machine.bmcs['host']          # .address .username .password .verify_ca .system
        ...
        assert machine.truth()['locks']['FPGA1/ProgrammableFromHost']['closed']

``emulated_machine(product, **parameters)`` takes the fields of :class:`baremetal_acc.emulator.hw.parameters.Parameters`
(``flash_seconds``, ``gpus``, ``versions``, ``settings``, ``options={'host': {'push': False}}``, ...), of
:class:`baremetal_acc.emulator.server.Serving` (``tls``, ``state``, ``no_auth``, ...) and of
:class:`baremetal_acc.emulator.front.Knobs` (``delay``, ``slots``, ``expand_member_delay``).
``emulated_recording(directory, **...)`` serves a recorded tree. Nothing of the emulator is imported
before a fixture is used: pytest starts as fast as without it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest

if TYPE_CHECKING:
    from baremetal_acc.emulator.remote import Remote
    from baremetal_acc.emulator.server import Address, Emulator, EmulatorThread


class EmulatedMachine:
    """A running machine. What is not here is asked of :class:`baremetal_acc.emulator.remote.Remote`: truth, log, fault, ..."""

    def __init__(self, thread: 'EmulatorThread', remote: 'Remote') -> None:
        self._thread = thread
        self.remote = remote

    @property
    def bmcs(self) -> Mapping[str, 'Address']:
        """Where the BMCs answer, by name."""
        return self._thread.emulator.bmcs

    @property
    def door(self) -> str:
        """URL of the host door."""
        return self.remote.door

    @property
    def control(self) -> str:
        """URL of the control."""
        return self.remote.control

    @property
    def spdm_root(self) -> str | None:
        """The root that devices sign under what they run, PEM; None without the feature ``spdm``."""
        product = self._thread.emulator.product
        return product.authority.root().decode() if product is not None and product.authority is not None else None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.remote, name)

    def stop(self) -> None:
        """End it; a state directory keeps what was."""
        self._thread.stop()


class MachineFactory(Protocol):
    """Starts a machine of a product."""

    def __call__(self, product: str, **parameters: Any) -> EmulatedMachine:
        """The running machine."""
        ...


class RecordingFactory(Protocol):
    """Serves a recorded tree."""

    def __call__(self, directory: Path | str, **parameters: Any) -> EmulatedMachine:
        """The running site; its one BMC is called ``recording``."""
        ...


def _split(parameters: dict[str, Any], *kinds: type) -> tuple[dict[str, Any], ...]:
    """The parameters, sorted by which of the dataclasses has them.

    :raises TypeError: a parameter that none of them has.
    """
    parts = []
    for kind in kinds:
        names = {one.name for one in fields(kind)}
        parts.append({name: parameters.pop(name) for name in list(parameters) if name in names})
    if parameters:
        known = sorted(one.name for kind in kinds for one in fields(kind))
        raise TypeError(f'unknown parameters {", ".join(sorted(parameters))}; known are {", ".join(known)}')
    return tuple(parts)


def _run(emulator: 'Emulator') -> EmulatedMachine:
    from baremetal_acc.emulator.remote import Remote
    from baremetal_acc.emulator.server import EmulatorThread

    thread = EmulatorThread(emulator)
    thread.start()
    return EmulatedMachine(thread, Remote(emulator.door, emulator.control))


@pytest.fixture
def emulated_machine() -> Iterator[MachineFactory]:
    """A factory of emulated machines; all that it started are stopped when the test is over."""
    running: list[EmulatedMachine] = []

    def start(product: str, **parameters: Any) -> EmulatedMachine:
        from baremetal_acc.emulator.front import Knobs
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
    """A factory that serves recorded trees; ``needs_login``, ``expand`` and the fields of Serving and Knobs may be given."""
    running: list[EmulatedMachine] = []

    def start(directory: Path | str, **parameters: Any) -> EmulatedMachine:
        from baremetal_acc.emulator.front import Knobs
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
