# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Discover the management controllers and the FRUs of a machine, from Get Device ID and SDR locator records.

An FRU is read at the controller that its locator names: FRU 0 at 72h is not FRU 0 of the BMC. Nothing is cached between two
inspections: two machines of one model may have different cards.

Source: IPMI 2.0 revision 1.1, sections 33.1 and 35.1 (where records are), 43.8 and 43.9 (locators).
"""

from collections import deque
from dataclasses import dataclass, replace
from datetime import timedelta

from baremetal_acc.bmc.ipmi import entities, fru_reader, sdr
from baremetal_acc.bmc.ipmi.command import CommandRefused, CommandReply, CompletionCode, Raw
from baremetal_acc.bmc.ipmi.controller_inventory import ControllerInventory, Fru, ManagementController, Unread, located
from baremetal_acc.bmc.ipmi.controller_path import DEEPEST, Path, bridged, way
from baremetal_acc.bmc.ipmi.device import check, identify
from baremetal_acc.bmc.ipmi.node_busy_retry import NodeBusyRetry
from baremetal_acc.bmc.ipmi.privileged import Privileged
from baremetal_acc.errors import BmcAnswerInvalid, BmcError, BmcNotAuthorised, BmcUnreachable, BmcUnsupported

MOST_CONTROLLERS = 64
"""Maximum number of controllers that one inspection reads. A MicroTCA shelf has about thirty."""

MOST_FRUS = 256
"""Maximum number of FRUs that one inspection reads."""

MOST_COMMANDS = 50_000
"""Maximum number of commands that one inspection sends. A server takes some hundreds, a shelf some thousands; a hostile BMC
could otherwise keep us busy all day.
"""


def look(raw: Raw, patience: NodeBusyRetry | None = None, administrator: Raw | None = None) -> ControllerInventory:
    """Discover all controllers and FRUs that the BMC, and the controllers that it refers to, know of.

    :param raw: to the BMC.
    :param patience: shared time limit for retries of busy controllers; None: a new one.
    :param administrator: to the BMC, for commands that are refused over ``raw``; None: there is none.
    :raises BmcError: the BMC does not answer Get Device ID, or no longer answers.
    """
    return _Looking(raw, NodeBusyRetry() if patience is None else patience, administrator).look()


@dataclass(slots=True)
class _Limit:
    """The number of commands that may still be sent."""

    left: int


class _Counted:
    """A :class:`Raw` with a limit on the number of commands. Bridged commands pass through the BMC, and are counted there."""

    def __init__(self, raw: Raw, limit: _Limit) -> None:
        self.label = raw.label
        self.longest = raw.longest
        self._raw = raw
        self._limit = limit

    def __call__(
        self, netfn: int, command: int, data: bytes = b'', *, lun: int = 0, once: bool = False, within: timedelta | None = None
    ) -> CommandReply:
        """Send a command.

        :raises BmcAnswerInvalid: the limit is used up.
        """
        if not self._limit.left:
            told = f'the limit of {MOST_COMMANDS} commands was reached before everything was read'
            raise BmcAnswerInvalid(bmc=self.label, what=told)
        self._limit.left -= 1
        return self._raw(netfn, command, data, lun=lun, once=once, within=within)


class _Looking:
    """One inspection: what is known so far, and which controllers are still to be read."""

    def __init__(self, raw: Raw, patience: NodeBusyRetry, administrator: Raw | None) -> None:
        self._limit = _Limit(MOST_COMMANDS)
        self._counted = _Counted(raw, self._limit)
        self._administrator = None if administrator is None else _Counted(administrator, self._limit)
        self._patience = patience
        self._raws: dict[tuple[Path, bool], Raw] = {}
        self._known: dict[Path, ManagementController] = {}
        self._frus: dict[tuple[Path, int, int], Fru] = {}
        self._next: deque[Path] = deque()
        self._unread: list[Unread] = []

    def look(self) -> ControllerInventory:
        """Read the controllers first: their records list the FRUs, and show which are absent."""
        self._meet(ManagementController(path=()))
        while self._next:
            self._visit(self._next.popleft())
        self._read_frus()
        return ControllerInventory(
            controllers=tuple(self._known[path] for path in sorted(self._known, key=_order)),
            frus=tuple(self._frus[key] for key in sorted(self._frus, key=lambda key: _order(*key))),
            unread=tuple(self._unread),
        )

    def _raw(self, path: Path, patient: bool = True) -> Raw:
        if (path, patient) not in self._raws:
            patience = self._patience if patient else None
            raw = bridged(self._counted, path, patience)
            if self._administrator is not None:
                raw = Privileged(raw, bridged(self._administrator, path, patience))
            self._raws[path, patient] = raw
        return self._raws[path, patient]

    def _quick(self, path: Path) -> Raw:
        """To a controller, without retries while it is busy."""
        return self._raw(path, patient=False)

    def _meet(self, controller: ManagementController) -> None:
        """Add a controller that a record refers to. Of several records, the first with a name or an entity is kept."""
        path = controller.path
        known = self._known.get(path)
        if known is not None:
            if known.name is None and known.entity is None:
                self._known[path] = replace(known, name=controller.name, entity=controller.entity, instance=controller.instance)
            return
        if len(path) > DEEPEST:
            self._miss(path, 'device id', f'the controller is behind more than {DEEPEST} others', hides=True)
        elif len(self._known) >= MOST_CONTROLLERS:
            self._miss(path, 'device id', f'there are more than {MOST_CONTROLLERS} controllers', hides=True)
        else:
            self._known[path] = controller
            self._next.append(path)

    def _visit(self, path: Path) -> None:
        """Read a controller's device id and its records."""
        controller = self._known[path]
        try:
            device = identify(self._raw(path))
        except BmcError as exc:
            if not path:
                raise
            self._check(exc)
            if _refused(exc, CompletionCode.DESTINATION_UNAVAILABLE):
                self._known[path] = replace(controller, absent=True)
            else:
                hides = entities.may_know_cards(controller.entity)
                self._miss(path, 'device id', exc.what, hides=hides, location=controller.location)
            return
        self._known[path] = replace(controller, device=device)
        if device.fru_inventory:
            self._find(Fru(path=path, number=0))
        if device.sdr_repository:
            self._records(path, sdr.REPOSITORY)
        elif device.device_sdrs:
            self._records(path, sdr.DEVICE)

    def _records(self, path: Path, place: sdr.BridgePath) -> None:
        """Evaluate the SDR locators of a controller. A BMC's SDR repository also holds that BMC's own records."""
        hides = entities.may_know_cards(self._known[path].entity)
        where = self._known[path].location
        try:
            kept = sdr.read(self._raw(path), place, sdr.LOCATORS, quick=self._quick(path))
        except BmcError as exc:
            self._check(exc)
            self._miss(path, place.name, exc.what, hides=hides, location=where)
            return
        for told in kept.missed:
            self._miss(path, place.name, told, hides=hides, location=where)
        for record in map(sdr.parse, kept.records):
            match record:
                case sdr.FruLocator():
                    self._locate(path, record)
                case sdr.ControllerLocator():
                    there = way(path, record.channel, record.address)
                    said = ManagementController(path=there, name=record.name, entity=record.entity, instance=record.instance)
                    self._meet(said)
                    if record.fru_inventory:
                        self._find(Fru(path=there, number=0, name=record.name, entity=record.entity, instance=record.instance))
                case sdr.OtherSdr() if record.locates:
                    self._miss(path, place.name, f'record {record.number:04X}h is truncated', hides=hides, location=where)
        if kept.error is not None:
            self._check(kept.error)

    def _locate(self, path: Path, record: sdr.FruLocator) -> None:
        there = way(path, record.channel, record.address)
        if not record.logical:
            what = f'EEPROM {record.fru:02X}h on bus {record.bus}'
            where = located(record.name, record.entity, record.instance)
            told = f'{where} cannot be read by FRU commands, and no other way is supported'
            hides = entities.may_be_card(record.entity, record.device_type, record.modifier)
            self._miss(there, what, told, hides=hides, location=where)
            return
        self._meet(ManagementController(path=there))
        self._find(
            Fru(
                path=there,
                number=record.fru,
                lun=record.lun,
                name=record.name,
                entity=record.entity,
                instance=record.instance,
                device_type=record.device_type,
                modifier=record.modifier,
            )
        )

    def _find(self, found: Fru) -> None:
        """Add an FRU. A locator takes precedence over a controller's mere FRU 0; of two locators, one that may be a card."""
        key = (found.path, found.number, found.lun)
        known = self._frus.get(key)
        if known is None and len(self._frus) >= MOST_FRUS:
            self._miss(found.path, found.called, f'there are more than {MOST_FRUS} FRUs', hides=True)
        elif known is None or known.location is None or (found.may_be_card and not known.may_be_card):
            self._frus[key] = found

    def _read_frus(self) -> None:
        """Read all FRUs, and then those that failed once more, cards first.

        Only the second read of cards waits for busy controllers: empty bays cannot have used up the retry time by then.
        """
        again = []
        for key in sorted(self._frus, key=lambda key: _order(*key)):
            found = self._frus[key]
            controller = self._known.get(found.path)
            if controller is None or controller.device is None:
                self._frus[key] = self._out_of_reach(found, controller)
                continue
            try:
                self._frus[key] = self._read(found, self._quick(found.path), whole=found.may_be_card)
            except BmcError as exc:
                self._check(exc)
                if isinstance(exc, BmcUnreachable | BmcNotAuthorised | BmcUnsupported):
                    self._miss_fru(found, exc.what)
                else:
                    again.append(key)
        for key in sorted(again, key=lambda key: not self._frus[key].may_be_card):
            found = self._frus[key]
            try:
                self._frus[key] = self._read(found, self._raw(found.path, patient=found.may_be_card), whole=False)
            except BmcError as exc:
                self._check(exc)
                self._miss_fru(found, exc.what)

    def _out_of_reach(self, found: Fru, controller: ManagementController | None) -> Fru:
        """Mark an FRU whose controller was not read. It gets a gap of its own only if the controller's gap hides no cards."""
        if controller is None:
            return found
        if not controller.absent and found.may_be_card and not entities.may_know_cards(controller.entity):
            self._miss_fru(found, 'not read, because Get Device ID of its controller failed')
        return replace(found, absent=controller.absent)

    def _read(self, found: Fru, raw: Raw, *, whole: bool) -> Fru:
        try:
            return replace(found, contents=fru_reader.contents(raw, found.number, lun=found.lun, whole=whole))
        except BmcError as exc:
            if _refused(exc, CompletionCode.NOT_PRESENT):
                return replace(found, absent=True)
            raise

    def _miss_fru(self, found: Fru, reason: str) -> None:
        self._unread.append(
            Unread(
                path=found.path,
                what=found.called,
                reason=reason,
                hides=found.may_be_card,
                fru=found,
                location=found.location,
            )
        )

    def _check(self, exc: BmcError) -> None:
        if self._limit.left:
            check(self._counted, exc)

    def _miss(self, path: Path, what: str, reason: str, *, hides: bool = False, location: str | None = None) -> None:
        self._unread.append(Unread(path=path, what=what, reason=reason, hides=hides, location=location))


def _refused(exc: BmcError, code: CompletionCode) -> bool:
    return isinstance(exc, CommandRefused) and exc.code == code


def _order(path: Path, number: int = 0, lun: int = 0) -> tuple[list[tuple[int, int]], int, int]:
    return [(hop.channel, hop.address) for hop in path], number, lun
