# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Every message of doc/source/howto/reshape.rst is given, word by word, when its cause occurs."""

import re
from collections.abc import Callable

import pytest

from baremetal_acc.errors import PlacementUnreachable
from baremetal_acc.placement.client import RESHAPER, PlacementAnswer, refusal
from baremetal_acc.render.reshape_refusals import sentences
from baremetal_acc.scheduling import reshape
from tests.pages import messages, pattern
from tests.unit.scheduling.test_reshape import child, claim, consumer, placed, stock, wanted
from tests.wire.test_placement import Adapter
from tests.wire.test_reshape import FlatCloud, before_the_call, forth, made

MESSAGES = messages('reshape')


def too_many(url: str) -> str:
    """Two are claimed, and one device holds up."""
    two = (consumer('t', claim(1)), consumer('s', claim(1)))
    return sentences(reshape.forth(placed(stock('PGPU', 2), consumers=two), wanted('a')))[0]


def held_otherwise(url: str) -> str:
    """The only device is claimed as something else."""
    tenant = consumer('s', claim(1, 'CUSTOM_BIG_GPU', 'a'))
    before = placed(stock('PGPU'), consumers=(tenant,), children=(child('a', stock('CUSTOM_BIG_GPU')),))
    return sentences(reshape.forth(before, wanted('a')))[0]


def slots(url: str) -> str:
    """They offer functions."""
    return sentences(reshape.forth(placed(stock('FPGA', 2)), wanted('a', offer='CUSTOM_ACC_FN_GZIP')))[0]


def no_role(url: str) -> str:
    """An admin without the role service."""
    return str(refusal('POST', RESHAPER, PlacementAnswer(status=403, code='placement.undefined_code', body={})))


def kept_changing(url: str) -> str:
    """Somebody writes to the root before each call."""
    cloud, sending = FlatCloud(url), Adapter(url)
    root = cloud.flat(PGPU=1, VGPU=100)
    before_the_call(sending, lambda: cloud.free(cloud.tenant(**{root: {'VGPU': 1}})), times=100)
    with pytest.raises(PlacementUnreachable) as caught:
        made(sending, attempts=5).apply(forth(root, 1))
    return str(caught.value)


PROVOKED: dict[str, Callable[[str], str]] = {
    '3 PGPU of the root are claimed': too_many,
    'no device can take over PGPU': held_otherwise,
    'no device that passes verification offers FPGA': slots,
    'status 403': no_role,
    'status 409': kept_changing,
}
"""How a message begins on the page, and what brings it about."""


def test_every_message_of_the_page_is_brought_about() -> None:
    """One that is added has to be, too."""
    assert [] == [m for m in MESSAGES if not m.startswith(tuple(PROVOKED))]
    assert len(MESSAGES) == len(PROVOKED)


@pytest.mark.parametrize('begins', list(PROVOKED))
def test_it_is_said_as_the_page_has_it(begins: str, url: str) -> None:
    """What varies is an ellipsis there, in capitals, or a number of devices or attempts."""
    [message] = [m for m in MESSAGES if m.startswith(begins)]
    said = PROVOKED[begins](url)
    assert re.search(re.sub(r'(?<!status\\ )\b\d+\b', r'\\d+', pattern(message, 'NAME')), said), said
