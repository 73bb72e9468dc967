# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""If a catalogue or a certificate expires while a job runs, an image that was valid when planned is not sent any more.

The clock that images are judged by is moved when every image has been checked, or when the flash has failed. Nothing sleeps.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from baremetal_acc.execution import Tools
from baremetal_acc.images.store import ImageFiles
from baremetal_acc.model.job import Failed
from tests.malicious.attack import Attack
from tests.malicious.notary import NOW, Authority, Notary, by_chain, notarised, signed
from tests.malicious.test_signatures import image_signed, statement
from tests.malicious.test_swapped import turned, when_checked, when_the_flash_has_failed
from tests.malicious.workshop import OLD, Workshop, pushed, reached, told

HOURS = timedelta(hours=3)
"""How late it is when the clock has been moved; what ends does so in between."""

SOON = timedelta(hours=1)


def expires_soon(shop: Workshop) -> None:
    shop.head.append(f'expires = {NOW + SOON:%Y-%m-%dT%H:%M:%SZ}')


def expires_soon_and_is_signed(shop: Workshop) -> None:
    notarised(shop)
    shop.head[2] = f'expires = {NOW + SOON:%Y-%m-%dT%H:%M:%SZ}'


def signed_until_soon(name: str, authority: Authority, end: timedelta) -> Callable[[Workshop], None]:
    """An image signed by a certificate, and the others by the operator's key."""

    def prepare(shop: Workshop) -> None:
        def then(notary: Notary, _: Path) -> None:
            leaf = authority.issue(end=end)
            entry = by_chain(signed(leaf.key, statement(notary, name)), [leaf.certificate])
            shop.path(f'{name}.sig').write_text(f'format = 1\n{entry}')
            kept = notary.roots.read_bytes()
            notary.trust(authority)
            notary.roots.write_bytes(kept + notary.roots.read_bytes())

        image_signed(shop, then)

    return prepare


BETWEEN: dict[str, tuple[Attack, Callable[[Workshop], None], str]] = {
    'the catalogue': (Attack.EXPIRED, expires_soon, 'expired at'),
    'the catalogue, which is signed': (Attack.EXPIRED, expires_soon_and_is_signed, 'expired at'),
    'the certificate of who signed the image': (
        Attack.EXPIRED,
        signed_until_soon('fpga-new', Authority('Late CA'), SOON),
        'CN=Signer: the certificate is valid only from',
    ),
    'the CA of who signed the image': (
        Attack.EXPIRED,
        signed_until_soon('fpga-new', Authority('Late CA', end=SOON), 2 * HOURS),
        'CN=Late CA is valid only from',
    ),
}
"""What expires between the check and the push."""

BACK: dict[str, tuple[Attack, Callable[[Workshop], None], str]] = {
    'the catalogue of a way back': (Attack.EXPIRED, expires_soon, 'expired at'),
    'the certificate of who signed a way back': (
        Attack.EXPIRED,
        signed_until_soon('fpga-old', Authority('Late CA'), SOON),
        'CN=Signer: the certificate is valid only from',
    ),
}
"""What expires between a failed flash and the write of the restore image."""


class Hands:
    """The clock that images are judged by."""

    def __init__(self) -> None:
        self.now = datetime.now(UTC)

    def move(self) -> None:
        """It is late."""
        self.now += HOURS

    def set(self, when: Callable[[Callable[[], object]], Callable[[Tools], Tools]]) -> Callable[[Tools], Tools]:
        """Tools that go by this clock, which is moved at a moment."""

        def change(tools: Tools) -> Tools:
            assert isinstance(tools.images, ImageFiles)
            return replace(when(self.move)(tools), images=replace(tools.images, clock=lambda: self.now))

        return change


@pytest.mark.parametrize('case', BETWEEN)
def test_what_ends_between_check_and_push_is_not_sent(case, clocked):
    """The job fails with the image and what has ended; nothing has reached a BMC."""
    _, prepare, says = BETWEEN[case]
    prepare(clocked)
    outcome = turned(clocked, Hands().set(when_checked))
    assert isinstance(outcome, Failed), outcome
    assert [r for r in outcome.reasons if 'image fpga-new: ' in r and says in r], outcome.reasons
    assert [] == reached(clocked.machine)
    assert OLD == clocked.machine.truth()['components']['host/FPGA1_FW']['active']['version']


@pytest.mark.parametrize('case', BACK)
def test_a_way_back_that_has_ended_is_not_gone(case, clocked):
    """The flash has failed, and what would put it back must not be used any more: nobody uses the card, and that is said."""
    _, prepare, says = BACK[case]
    prepare(clocked)
    clocked.machine.fault('task-fails', count=1)
    outcome = turned(clocked, Hands().set(when_the_flash_has_failed))
    assert isinstance(outcome, Failed), outcome
    assert [r for r in outcome.reasons if 'image fpga-old: ' in r and says in r], outcome.reasons
    assert [told(clocked.new_file)] == pushed(clocked.machine)
    assert 1 == len(outcome.quarantined)


@pytest.mark.parametrize('case', BETWEEN)
def test_what_has_not_ended_is_sent(case, clocked):
    """The same by a clock that stands still; else the tests above could not fail."""
    _, prepare, _ = BETWEEN[case]
    prepare(clocked)
    turned(clocked, Hands().set(lambda _: lambda tools: tools))
    assert [told(clocked.new_file)] == pushed(clocked.machine)
