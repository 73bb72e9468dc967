# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Lock the KCS (the IPMI system interface) of an AMI BMC by a BIOS attribute: KCSACP, or KcsInterfaceDisable.

What hardware: boards with AMI's BMC and BIOS: the host of some NVIDIA systems.
How it is found: the root or a System is AMI's, and the Bios of the System has the attribute under one of its names; the host of
a DGX H100 has KcsInterfaceDisable.
What it can do: read, engage (Deny All), release (Allow All), by PATCH of the settings of the Bios. It takes effect with the
next start of the host, before any code of the host runs.
Which write paths it blocks: ``host-bmc-ipmi``.
How an update behaves: ours comes over the BMC's network and is not blocked.
What it cannot prove: that the BIOS has applied it to the BMC: the Bios resource shows what the last start has reported.
What it was tried on: the emulator; no hardware and no recording. The client that it was learnt from calls its own check not
correct.

Source: NVIDIA/libredfish nvidia_viking.rs, enable_lockdown; DSP8010 2025.4, Bios, Settings v1_4_0.
"""

from collections.abc import Iterator

from baremetal_acc.bmc.driver import Document, JsonObject, Reader, Writer
from baremetal_acc.errors import BmcUnsupported
from baremetal_acc.locks.bmc_setting import BmcWideMechanism, SettingPlace, below, read, systems
from baremetal_acc.locks.harmless_write import IDENTIFY_CHASSIS
from baremetal_acc.locks.mechanism import MechanismInfo
from baremetal_acc.locks.property_reading import MISSING, value_at
from baremetal_acc.model.lock import LockReading, LockState, ResetKind, Scope, WritePath
from baremetal_acc.model.ref import Ref

ATTRIBUTES = ('KCSACP', 'KcsInterfaceDisable')
"""Names of the BIOS attribute, by board."""

CLOSED, OPEN = 'Deny All', 'Allow All'


class KcsPolicy(BmcWideMechanism):
    """Entry point ``ami_kcs``."""

    name = 'ami_kcs'
    about = MechanismInfo(
        hardware="boards with AMI's BMC and BIOS: the host of some NVIDIA systems",
        blocks=frozenset({WritePath.HOST_BMC_IPMI}),
        protects=frozenset({Scope.BMC}),
        needs=ResetKind.SYSTEM_RESET,
        read_back=f'Bios.Attributes, {" or ".join(ATTRIBUTES)}, of the System, and its pending value',
        cannot_prove=(
            'that the BIOS has reported the value to the BMC: the Bios shows what the last start of the host has reported'
        ),
        source='NVIDIA/libredfish nvidia_viking.rs; DSP8010 2025.4, Settings v1_4_0',
        harmless=(IDENTIFY_CHASSIS,),
    )

    def places(self, reader: Reader, top: str) -> Iterator[SettingPlace]:
        """List the Bios of each AMI System that has the attribute."""
        root = read(reader, top)
        whole = root is not None and root.document is not None and _is_ami(root.document.body)
        for system in systems(reader, top):
            if system.document is None or not (whole or _is_ami(system.document.body)):
                continue
            bios = below(reader, system, 'Bios')
            if bios is None:
                continue
            if bios.document is None:
                field = _field(ATTRIBUTES[0])
                yield SettingPlace(ref=bios.ref, field=field, value=MISSING, state=LockState.UNKNOWN, reason=bios.why)
                continue
            for attribute in ATTRIBUTES:
                value = value_at(bios.document.body, 'Attributes', attribute)
                if value is not MISSING:
                    yield _place(reader, system.ref, bios.document, attribute, value)

    def engage(self, writer: Writer, reading: LockReading) -> None:
        """Set Deny All.

        :raises BmcError: it was not accepted.
        """
        _write(writer, reading, CLOSED)

    def release(self, writer: Writer, reading: LockReading) -> None:
        """Set Allow All.

        :raises BmcError: it was not accepted.
        """
        _write(writer, reading, OPEN)


def _field(attribute: str) -> str:
    return f'Attributes/{attribute}'


def _is_ami(body: JsonObject) -> bool:
    vendor = value_at(body, 'Vendor')
    named = isinstance(vendor, str) and vendor.casefold().startswith(('ami', 'american megatrends'))
    return named or isinstance(value_at(body, 'Oem', 'Ami'), dict)


def _place(reader: Reader, system: Ref, bios: Document, attribute: str, value: object) -> SettingPlace:
    settings = read(reader, _settings(bios))
    pending: object = MISSING
    if settings is not None and settings.document is not None:
        pending = value_at(settings.document.body, 'Attributes', attribute)
    told = value if pending in (MISSING, value) else f'{value}, {pending} after the next start'
    state, reason, with_start, in_force = LockState.UNKNOWN, None, None, False
    if settings is not None and settings.why is not None:
        reason = f'what is pending could not be read: {settings.why}'
    elif value == CLOSED and pending in (MISSING, CLOSED):
        state, in_force = LockState.LOCKED_REPORTED, True
    elif value == CLOSED:
        state, reason = LockState.PARTIAL, f'locked now, but {pending} is set and takes effect with the next start of the host'
    elif pending == CLOSED:
        state, reason = LockState.PENDING_RESET, f'{CLOSED} is set and takes effect with the next start of the host'
        with_start = system
    elif value == OPEN and pending in (MISSING, OPEN):
        state = LockState.UNLOCKED
    else:
        reason = f'none of the known values: {CLOSED}, {OPEN}'
    return SettingPlace(
        ref=bios.ref,
        field=_field(attribute),
        value=told,
        state=state,
        reason=reason,
        needs=ResetKind.SYSTEM_RESET,
        reset=system,
        with_start=with_start,
        in_force=in_force,
    )


def _settings(bios: Document) -> str:
    """Return the URI that changes are written to. Source: DSP8010 2025.4, Settings v1_4_0, SettingsObject."""
    link = value_at(bios.body, '@Redfish.Settings', 'SettingsObject', '@odata.id')
    return link if isinstance(link, str) else f'{bios.ref.uri}/Settings'


def _write(writer: Writer, reading: LockReading, word: str) -> None:
    bios = writer.fresh(reading.ref.uri)
    attribute = reading.field.rpartition('/')[2]
    if value_at(bios.body, 'Attributes', attribute) is MISSING:
        raise BmcUnsupported(bmc=writer.name, uri=reading.ref.uri, what=f'it no longer shows {attribute}')
    writer.patch(writer.fresh(_settings(bios)), {'Attributes': {attribute: word}})
