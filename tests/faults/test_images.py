# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Does an image that is not what it should be stay away from the cards, also when it changes while a job runs?

What a malicious folder or catalogue can do to the command line is in tests/malicious.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from baremetal_acc.model.image import Fit
from baremetal_acc.model.job import CheckImage, Failed, ItemState, Job
from tests.faults.cases import being_written
from tests.faults.rig import EROT, GPU, NEW, OLD, Rig

RIG = Callable[..., Rig]


def checked(job: Job) -> bool:
    """The images have been compared with the catalogue."""
    found = [i.state for i in job.items if isinstance(i.action, CheckImage)]
    return bool(found) and set(found) == {ItemState.DONE}


def flip(path: Path) -> None:
    """Change one bit."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))


def fails_untouched(rig: Rig, says: str, card: int = 0) -> None:
    """The job fails, says why, and the card got no byte."""
    rig.turn()
    rig.judge()
    assert isinstance(rig.outcome, Failed)
    assert () == rig.outcome.quarantined
    assert says in rig.reasons
    assert ([], OLD[EROT]) == (rig.pushes(card), rig.version(card))


def refused(rig: Rig, says: str) -> None:
    """There is no job, and nothing was written, not even a lock."""
    reasons = rig.begin()
    assert any(says in reason for reason in reasons), reasons
    assert [] == rig.machine.log()


def test_an_image_that_is_gone_fails_the_job_before_anything_is_written(rig: RIG) -> None:
    """F27."""
    found = rig()
    assert () == found.begin()
    (found.folder / 'erot-new.img').unlink()
    fails_untouched(found, 'cannot be read')


def test_an_image_that_goes_between_two_cards_is_not_sent_to_the_second(rig: RIG) -> None:
    """F27. The first card has it and keeps it."""
    found = rig()
    assert () == found.begin()
    found.when(being_written, (found.folder / 'erot-new.img').unlink)
    fails_untouched(found, 'cannot be read', card=1)
    assert NEW[EROT] == found.version(0)


def test_an_image_that_changes_between_check_and_push_is_not_sent(rig: RIG) -> None:
    """F27. It is compared again, on the very bytes that would go."""
    found = rig()
    assert () == found.begin()
    found.when(checked, lambda: flip(found.folder / 'erot-new.img'))
    fails_untouched(found, 'the catalogue says')


def test_an_image_of_another_digest_is_not_sent(rig: RIG) -> None:
    """F28."""
    found = rig()
    assert () == found.begin()
    flip(found.folder / 'erot-new.img')
    fails_untouched(found, 'the catalogue says')


def test_an_image_for_another_board_is_refused(rig: RIG) -> None:
    """F29. The ids have to match, not the name of the component."""
    found = rig()
    image = next(i for i in found.catalogue if i.name == 'erot-new')
    found.offer(replace(image, fits=(Fit(pci='0x10de:0x2331'),)))
    refused(found, 'fit')


def test_an_image_that_the_card_finds_to_be_for_another_board_is_put_back(rig: RIG) -> None:
    """F29. The catalogue is wrong, and the device knows it."""
    found = rig()
    found.offer(found.image(EROT, NEW[EROT], restore='erot-old', security_version=2, model='a100'))
    assert () == found.begin()
    found.turn()
    found.judge()
    assert 'is for a a100' in found.reasons
    assert f'is restored to {OLD[EROT]}' in found.reasons
    assert OLD[EROT] == found.version(0)


@pytest.mark.parametrize('what', [EROT, GPU])
def test_a_downgrade_is_refused(rig: RIG, what: str) -> None:
    """F30. The security version of what runs is the floor."""
    found = rig(what=what)
    for image in found.catalogue:
        found.offer(replace(image, security_version=1 if image.name.endswith('-new') else 2))
    refused(found, 'security version 1')


def test_an_image_that_is_denied_is_refused(rig: RIG) -> None:
    """F31. It is what it was when it was signed, and must not be written any more."""
    found = rig()
    image = next(i for i in found.catalogue if i.name == 'erot-new')
    found.offer(replace(image, denied='it was revoked on 2026-11-01'))
    refused(found, 'it was revoked on 2026-11-01')
