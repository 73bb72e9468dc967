# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What is made of boards and components that a hostile machine shows: never more than gaps, and names that can be printed."""

import contextlib
from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from baremetal_acc.bmc import devices
from baremetal_acc.bmc.api import BmcAddress
from baremetal_acc.bmc.ipmi.driver import IpmiConnection
from baremetal_acc.bmc.ipmi.hpm_image import Version
from baremetal_acc.bmc.ipmi.place import place
from baremetal_acc.errors import BmcError
from baremetal_acc.model.ref import HOST
from tests.unit.bmc.ipmi.cards import Fake, board, fru_locator, mc_locator, memory

NOW = datetime(2026, 11, 23, 8, 0, tzinfo=UTC)


class Hostile(Fake):
    """A controller that answers HPM.1, and the chassis, with whatever it likes; and whose FRUs are damaged."""

    stopped = False

    def __init__(self, draw, **more):
        super().__init__(**more)
        self.draw = draw

    @contextlib.contextmanager
    def limited(self, budget):
        yield

    def close(self):
        pass

    def answer(self, netfn, command, data):
        if netfn in (0x2C, 0x00):
            # Mostly as long as it has to be: HPM.1 version 0 and eight components, or a name or a version of any bytes.
            right = st.binary(min_size=12, max_size=12).map(
                lambda b: b'\0\0\0' + b[:5] + b'\xff' if command == 0x2E else b'\0\0' + b
            )
            return self.draw(st.one_of(right, right, right, st.binary(min_size=1, max_size=20)))
        return super().answer(netfn, command, data)


def damaged(draw, content):
    """Some bytes of it are others."""
    content = bytearray(content)
    for _ in range(draw(st.integers(0, 3))):
        content[draw(st.integers(0, len(content) - 1))] = draw(st.integers(0, 255))
    return bytes(content)


NAMES = st.sampled_from(['Alveo U50', 'Alveo U250', 'Mystery', '\x1b[2J', '', 'NVIDIA H100'])


@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_whatever_a_machine_shows_becomes_devices_and_gaps(data):
    """Ids are unique, texts can be printed, and every look ends; an error is one of that BMC."""
    frus = {
        n: damaged(
            data.draw,
            memory(board=board(product=data.draw(NAMES), serial=data.draw(st.sampled_from(['S1', 'S2', '']))), size=256),
        )
        for n in range(3)
    }
    near = Hostile(data.draw, address=0x72, frus={0: frus[0]})
    repository = (
        fru_locator(1, fru=1),
        fru_locator(2, fru=2, name='\x07' if data.draw(st.booleans()) else 'slot'),
        damaged(data.draw, mc_locator(3, address=0x72)),
    )
    raw = Hostile(data.draw, frus=frus, repository=repository, behind={(0, 0x72): near})
    address = BmcAddress(name=HOST, address='ipmi://192.0.2.1', username='a', password='b', budget=timedelta(minutes=1))
    where = place('x', '192.0.2.1', username='a', password='b')
    connection = IpmiConnection(address, where, raw, devices.shipped())
    try:
        look = connection.look(NOW)
    except BmcError:
        return
    ids = [a.id for a in look.accelerators]
    assert len(ids) == len(set(ids))
    texts = [*ids, *(g.reason for g in look.gaps)]
    for accelerator in look.accelerators:
        assert len(accelerator.firmware) == len({c.id for c in accelerator.firmware})
        texts += [
            accelerator.model,
            accelerator.serial or '',
            accelerator.location or '',
            *(c.id for c in accelerator.firmware),
        ]
    texts += [text for device in look.platform_devices for text in (device.model or '', device.reason)]
    assert all(text.isprintable() for text in texts), texts
    for uri, said in connection.glance([a.primary.uri for a in look.accelerators], timedelta(seconds=5)).items():
        assert isinstance(said, BmcError) or said == look.reader.peek(uri)


def test_versions_are_written_as_the_catalogue_writes_them():
    """So that a baseline can name them."""
    assert ('1.05', '2.15.00090000') == (Version(major=1, minor=5).text, Version(major=2, minor=0x15, aux=b'\0\x09\0\0').text)
