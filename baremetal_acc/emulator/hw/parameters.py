# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The parameters of an emulated product, and the maker that builds a product from them.

Parameters vary counts, versions, settings, features, accounts and times, so that a test can ask for the machine that it needs.
"""

import hashlib
import secrets
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from baremetal_acc.emulator.access import AccessControl, CurrentUser
from baremetal_acc.emulator.clock import EmulatedClock
from baremetal_acc.emulator.fault import BadFault
from baremetal_acc.emulator.habit import UnknownHabit, find_habit
from baremetal_acc.emulator.ipmi.fru import EmulatedBoardArea
from baremetal_acc.emulator.machine import Machine
from baremetal_acc.emulator.parts import Bank, EmulatedBmc, Value
from baremetal_acc.emulator.redfish.view import Options, View
from baremetal_acc.emulator.spdm import Authority


class BadParameter(ValueError):
    """The product does not have such a parameter, or cannot take this value.

    :param what: what is wrong.
    :param hint: what to do.
    """

    def __init__(self, what: str, *, hint: str) -> None:
        super().__init__(f'{what} ({hint})')


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """The parameters that a product is built from.

    :param gpus: number of GPUs, where the product has GPUs; None: the product's own number.
    :param fpga_slots: number of reconfiguration slots of an FPGA.
    :param versions: initial version of a component, by its key (``host/HGX_FW_GPU_0``).
    :param functions: initial function of a slot: component key -> (function name, version).
    :param settings: initial value of a setting, configured and in force, by its key.
    :param features: names of the optional features of the product to enable.
    :param extensions: further features of ``lock-server``, by name: the path that it closes, as in
        :data:`baremetal_acc.emulator.hw.vendor_bmc.FEATURES`, and the function that adds it; enabled by ``features``.
    :param users: accounts per BMC name, the first an Administrator that the emulator reports to its user; ``*`` is for every
        BMC without its own; without any, a BMC has an ``admin`` with a generated password.
    :param options: abilities of a BMC, per BMC name; ``*`` as above.
    :param habits: the habits of its BMCs, by name; see :mod:`baremetal_acc.emulator.habit`.
    :param parallel_updates: how many updates a BMC runs at a time.
    :param seed: another seed gives other serial numbers, UUIDs and MAC addresses.
    """

    gpus: int | None = None
    fpga_slots: int = 2
    versions: Mapping[str, str] = field(default_factory=dict)
    functions: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    settings: Mapping[str, Value] = field(default_factory=dict)
    features: frozenset[str] = frozenset()
    extensions: Mapping[str, tuple[str | None, Callable[['MachineMaker', View, str], str]]] = field(default_factory=dict)
    habits: tuple[str, ...] = ()
    users: Mapping[str, tuple[CurrentUser, ...]] = field(default_factory=dict)
    options: Mapping[str, Options] = field(default_factory=dict)
    flash_seconds: float = 2.0
    reset_seconds: float = 0.2
    bmc_reset_seconds: float = 0.5
    parallel_updates: int = 4
    session_timeout: float = 1800.0
    seed: str = '1'
    virtual_clock: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductParameters:
    """A machine, its BMCs by name, and the System of each BMC that a bare-metal service enrolls.

    :ivar authority: the manufacturer of the devices that sign measurements; None: none does.
    :ivar boards: the boards that IPMI describes, by BMC and device; an empty device is the BMC's own board.
    """

    name: str
    machine: Machine
    views: Mapping[str, View]
    systems: Mapping[str, str]
    authority: Authority | None = None
    boards: Mapping[str, Mapping[str, EmulatedBoardArea]] = field(default_factory=dict)


class MachineMaker:
    """Builds a product: its BMCs, and the serial numbers, UUIDs and MAC addresses of its parts."""

    def __init__(self, product: str, parameters: Parameters) -> None:
        self.product = product
        self.parameters = parameters
        self.machine = Machine(
            product=product,
            clock=EmulatedClock(virtual=parameters.virtual_clock),
            flash_seconds=parameters.flash_seconds,
            reset_seconds=parameters.reset_seconds,
            bmc_reset_seconds=parameters.bmc_reset_seconds,
        )
        self.views: dict[str, View] = {}
        self.systems: dict[str, str] = {}
        self._features: dict[str, None] = {}
        self.authority: Authority | None = None
        self.boards: dict[str, dict[str, EmulatedBoardArea]] = {}

    def feature(self, name: str) -> bool:
        """Whether a feature is enabled. The call also registers it as a feature of the product."""
        self._features[name] = None
        return name in self.parameters.features

    def signs(self) -> Authority | None:
        """The authority of devices that sign measurements (feature ``spdm``); None: they do not sign."""
        if self.feature('spdm') and self.authority is None:
            self.authority = Authority()
        return self.authority

    def _hash(self, what: str) -> bytes:
        return hashlib.sha256(f'{self.parameters.seed}/{what}'.encode()).digest()

    def serial(self, what: str, *, prefix: str = '', digits: int = 13) -> str:
        """A serial number for this part."""
        number = int.from_bytes(self._hash(f'serial/{what}'), 'big') % 10 ** (digits - len(prefix))
        return f'{prefix}{number:0{digits - len(prefix)}}'

    def uuid(self, what: str) -> str:
        """A UUID for this part."""
        return str(uuid.UUID(bytes=self._hash(f'uuid/{what}')[:16], version=4))

    def mac(self, what: str) -> str:
        """A MAC address for this part: locally administered."""
        return ':'.join(f'{byte:02x}' for byte in (2, *self._hash(f'mac/{what}')[:5]))

    def add_bmc(self, name: str, manager_uri: str) -> View:
        """Add a BMC to the machine."""
        parameters = self.parameters
        users = parameters.users.get(name) or parameters.users.get('*') or ()
        users = users or (CurrentUser(name='admin', password=secrets.token_urlsafe(15)),)
        options = parameters.options.get(name) or parameters.options.get('*') or Options()
        self.machine.bmcs[name] = EmulatedBmc(name=name, manager_uri=manager_uri, parallel_updates=parameters.parallel_updates)
        view = View(
            machine=self.machine,
            name=name,
            access=AccessControl(users, session_timeout=parameters.session_timeout),
            options=options,
        )
        self.views[name] = view
        return view

    def finish(self) -> ProductParameters:
        """Return the product, with the versions, functions and settings of the parameters applied.

        :raises BadParameter: one of them names nothing of this product, or a habit that it cannot have.
        """
        machine, parameters = self.machine, self.parameters
        for key, version in parameters.versions.items():
            if key not in machine.components or machine.components[key].active is None:
                raise BadParameter(f'{self.product} has no component {key!r}', hint=_one_of(machine.components))
            machine.components[key].active = Bank(version=version)
        for key, (function, version) in parameters.functions.items():
            if key not in machine.components:
                raise BadParameter(f'{self.product} has no slot {key!r}', hint=_one_of(machine.components))
            identity = self.uuid(f'{key}/{function}/{version}')
            machine.components[key].active = Bank(
                version=version, function=function, function_uuid=identity, function_type='OEM'
            )
        for key, value in parameters.settings.items():
            if key not in machine.settings:
                raise BadParameter(f'{self.product} has no setting {key!r}', hint=_one_of(machine.settings))
            machine.settings[key].value = machine.settings[key].in_force = value
        for name in sorted(parameters.features - set(self._features)):
            raise BadParameter(f'{self.product} has no feature {name!r}', hint=_one_of(self._features))
        for name in (*parameters.users, *parameters.options):
            if name != '*' and name not in self.views:
                raise BadParameter(f'{self.product} has no BMC {name!r}', hint=_one_of(self.views))
        self._take_habits()
        return ProductParameters(
            name=self.product,
            machine=machine,
            views=self.views,
            systems=self.systems,
            authority=self.authority,
            boards=self.boards,
        )

    def _take_habits(self) -> None:
        """Add the rules of the habits permanently.

        :raises BadParameter: there is no such habit, or it is for a device that the product does not have.
        """
        for name in dict.fromkeys(self.parameters.habits):
            try:
                for rule in find_habit(name).rules:
                    self.machine.add_fault(rule, lasting=True)
            except (UnknownHabit, BadFault) as exc:
                what = f'{self.product} cannot have the habit {name!r}: {exc}'
                raise BadParameter(what, hint='give another habit, or another product') from exc


def _one_of(names: Iterable[str]) -> str:
    known = ', '.join(names)
    return f'it has {known}' if known else 'it has none'
