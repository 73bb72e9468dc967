# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""An image that is not what it should be does not reach the cards, also when it changes while a job runs.

What a malicious folder or catalogue can do to the command line is in tests/malicious.
"""

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from baremetal_acc.images import load
from baremetal_acc.images.address import parse
from baremetal_acc.images.fetch import Web as Fetching
from baremetal_acc.images.load import Loaded
from baremetal_acc.images.serials import Serials
from baremetal_acc.images.store import FileStore, ImageFiles, WebStore
from baremetal_acc.images.trust import signature
from baremetal_acc.images.trust.signature import Signer, Trust
from baremetal_acc.model.action import CheckImage
from baremetal_acc.model.image import Fit, Image, SignatureDemand
from baremetal_acc.model.job import Done, Failed, Job
from baremetal_acc.model.job_item import ItemState
from tests.faults.cases import CARD, being_written
from tests.faults.rig import EROT, GPU, NEW, OLD, START, Rig
from tests.malicious.web import Web, always, missing, reply
from tests.unit.images import keys

RIG = Callable[..., Rig]

IMAGE = '/erot-new.img'

PART_NUMBER = {'usual': '2330-885-A1', 'oem': '2330-OEM-A1'}


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


@pytest.fixture
def server() -> Iterator[Web]:
    """A server of images, which has none yet."""
    found = Web()
    yield found
    found.stop()


def served(rig: Rig, server: Web) -> None:
    """The new image comes from a server, in place of a folder."""
    image = next(i for i in rig.catalogue if i.name == 'erot-new')
    server.answers[IMAGE] = always(reply((rig.folder / IMAGE[1:]).read_bytes()))
    web = Fetching(hosts=frozenset({parse(server.origin + IMAGE).origin}))
    rig.tools = replace(rig.tools, images=ImageFiles(files=FileStore(folders=(rig.folder,)), web=WebStore(web=web)))
    rig.offer(replace(image, source=server.origin + IMAGE))


def test_an_image_of_a_server_is_written(rig: RIG, server: Web) -> None:
    """What the next tests change is honest here."""
    found = rig()
    served(found, server)
    assert () == found.begin()
    assert isinstance(found.turn(), Done), found.reasons
    assert {IMAGE} == set(server.asked)


def test_an_image_that_its_server_does_not_have_fails_the_job_before_anything_is_written(rig: RIG, server: Web) -> None:
    """F27. 404, and the error says so, with the URL."""
    found = rig()
    served(found, server)
    server.answers[IMAGE] = missing
    assert () == found.begin()
    fails_untouched(found, f'{server.origin}{IMAGE} cannot be read: {server.origin}{IMAGE} returned HTTP status 404')


def test_an_image_that_its_server_loses_between_two_cards_is_not_sent_to_the_second(rig: RIG, server: Web) -> None:
    """F27. The first card has it and keeps it; nothing that was fetched for one card is kept for the next."""
    found = rig()
    served(found, server)
    assert () == found.begin()
    found.when(being_written, lambda: server.answers.update({IMAGE: missing}))
    fails_untouched(found, 'returned HTTP status 404', card=1)
    assert NEW[EROT] == found.version(0)


def test_an_image_that_its_server_changes_between_check_and_push_is_not_sent(rig: RIG, server: Web) -> None:
    """F27. The bytes of the second answer are compared as those of the first were."""
    found = rig()
    served(found, server)
    assert () == found.begin()
    flip(found.folder / IMAGE[1:])
    changed = always(reply((found.folder / IMAGE[1:]).read_bytes()))
    found.when(checked, lambda: server.answers.update({IMAGE: changed}))
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
    assert 'the image is for model a100' in found.reasons
    assert f'is restored to {OLD[EROT]}' in found.reasons
    assert OLD[EROT] == found.version(0)


def by_part_number(rig: Rig, variant: str, model: str, version: str) -> None:
    """Put an image for one variant of the GPU into the catalogue: the variants differ by their part number."""
    new = version == NEW[EROT]
    made = rig.image(
        EROT, version, restore=f'erot-old-{variant}' if new else None, security_version=2 if new else 1, model=model
    )
    name = f'{made.name}-{variant}'
    path = Path(made.source).rename(rig.folder / f'{name}.img')
    fits = (Fit(pci='0x10de:0x2330', part_number=PART_NUMBER[variant]),)
    rig.offer(replace(made, name=name, source=str(path), fits=fits))


def variants(rig: Rig, *known: str) -> None:
    """A catalogue with images for these variants, and no others."""
    rig.tools = replace(rig.tools, catalogue=())
    for variant in known:
        for version in (OLD[EROT], NEW[EROT]):
            by_part_number(rig, variant, 'h100' if variant == 'usual' else 'h100-oem', version)


OTHER_VARIANT = CARD | {'takes': 'h100-oem', 'shows': {'PartNumber': PART_NUMBER['oem'], 'SubsystemId': '0x1abc'}}


def test_a_card_of_another_variant_of_its_model_is_refused_where_no_image_is_for_it(rig: RIG) -> None:
    """F29. Model and PCI ids are the same, as with the PSIDs of network cards; the part number is not."""
    found = rig()
    variants(found, 'usual')
    found.machine.fault('other-variant', **OTHER_VARIANT)
    refused(found, 'the ids that the device shows differ from the fits of erot-new-usual')


def test_a_card_that_its_subsystem_tells_from_its_model_is_refused_where_fits_name_it(rig: RIG) -> None:
    """F29. Part number, model and PCI id are the same."""
    found = rig()
    for image in found.catalogue:
        found.offer(replace(image, fits=(Fit(pci='0x10de:0x2330', subsystem='0x10de:0x16c1'),)))
    assert () == found.begin()
    found = rig()
    for image in found.catalogue:
        found.offer(replace(image, fits=(Fit(pci='0x10de:0x2330', subsystem='0x10de:0x16c1'),)))
    found.machine.fault('other-variant', **CARD | {'takes': 'h100-oem', 'shows': {'SubsystemId': '0x1abc'}})
    refused(found, 'the ids that the device shows differ from the fits of erot-new')


def test_two_variants_of_one_model_get_each_their_own_image(rig: RIG) -> None:
    """F29. One baseline, one version, two images: the cards would refuse each the other's."""
    found = rig()
    variants(found, 'usual', 'oem')
    found.machine.fault('other-variant', **OTHER_VARIANT)
    assert () == found.begin()
    assert isinstance(found.turn(), Done), found.reasons
    found.judge()
    assert [EROT + '-new-oem', EROT + '-new-usual'] == [
        next(i.name for i in found.tools.catalogue if str(i.digest) == found.pushes(card)[0]['digest']) for card in (0, 1)
    ]


def test_a_card_that_turns_out_to_be_another_variant_right_before_the_write_gets_nothing(rig: RIG) -> None:
    """F29. What was planned for the card that was seen is not for the one that is there."""
    found = rig()
    variants(found, 'usual')
    assert () == found.begin()
    found.when(checked, lambda: found.machine.fault('other-variant', **OTHER_VARIANT))
    fails_untouched(found, 'does not fit this device, as catalogue and BMC are now')


@pytest.mark.parametrize('what', [EROT, GPU])
def test_a_downgrade_is_refused(rig: RIG, what: str) -> None:
    """F30. The security version of what runs is the floor."""
    found = rig(what=what)
    for image in found.catalogue:
        found.offer(replace(image, security_version=1 if image.name.endswith('-new') else 2))
    refused(found, 'security version 1')


def test_a_downgrade_that_the_catalogue_hides_is_refused_by_the_card_and_put_back(rig: RIG) -> None:
    """F30. The catalogue gives the image a higher security version than it has, and the card knows better."""
    found = rig()
    found.offer(replace(found.image(EROT, NEW[EROT], restore='erot-old', security_version=0), security_version=2))
    found.machine.fault('image-refused', below=1, message='The security version is too low.', **CARD)
    assert () == found.begin()
    found.turn()
    found.judge()
    assert 'the BMC says that the update failed' in found.reasons
    assert 'The security version is too low.' in found.reasons
    assert f'is restored to {OLD[EROT]}' in found.reasons
    assert OLD[EROT] == found.version(0)


SIGNER = keys.key()
TRUST = Trust(keys={signature.fingerprint(SIGNER.public_key()): SIGNER.public_key()}, authorities=())
REVOKED = 'it was revoked on 2026-11-01'


def lay(rig: Rig, serial: int, deny: str = '', expires: datetime = START + timedelta(days=70)) -> ImageFiles:
    """A signed catalogue of signed images, read as the commands read it, in place of what the rig has.

    :param deny: lines of its deny-list.
    :returns: what opens its images.
    """
    path = rig.folder / 'catalogue.toml'
    lines = ['format = 1', f'serial = {serial}', f'expires = {expires:%Y-%m-%dT%H:%M:%SZ}', deny]
    for image in rig.catalogue:
        file = Path(f'{image.source}.sig')
        file.write_text(Signer(key=SIGNER).file(signature.image_statement(image)))
        lines += [
            '[[image]]',
            f'name = "{image.name}"',
            f'kind = "{image.kind}"',
            f'fits = [{{ {", ".join(f"{k} = {json.dumps(v)}" for k, v in _ids(image.fits[0]))} }}]',
            f'component = "{image.component}"',
            f'version = "{image.version}"',
            f'security_version = {image.security_version}',
            f'source = "{Path(image.source).name}"',
            f'size = {image.size_bytes}',
            f'digest = "{image.digest}"',
            f'apply = {{ reset = "{image.reset}" }}',
            f'restore = "{image.restore or "none"}"',
            f'signature = "{file.name}"',
        ]
    data = '\n'.join(lines).encode()
    path.write_bytes(data)
    Path(f'{path}.sig').write_text(Signer(key=SIGNER).file(signature.catalogue_statement(data)))
    serials = Serials(path=rig.folder / 'state' / 'serials.sqlite')
    loaded = load.load(path, trust=TRUST, demand=SignatureDemand.REQUIRED, serials=serials, now=START)
    assert f'key {signature.fingerprint(SIGNER.public_key())}' == loaded.signers[0]
    store = _store(rig, loaded)
    rig.tools = replace(rig.tools, catalogue=loaded.catalogue.images, images=store)
    return store


def _ids(fit: Fit) -> list[tuple[str, str]]:
    return [(name, value) for name in Fit.__dataclass_fields__ if (value := getattr(fit, name)) is not None]


def _store(rig: Rig, loaded: Loaded) -> ImageFiles:
    return ImageFiles(
        files=FileStore(folders=(rig.folder,)),
        trust=TRUST,
        signatures=SignatureDemand.REQUIRED,
        catalogue=loaded.catalogue.path,
        expires=loaded.catalogue.expires,
        denials=loaded.catalogue.denials,
        clock=lambda: rig.now,
    )


def denying(**what: str) -> str:
    """A table of a deny-list."""
    return '\n'.join(['[[deny]]', f'reason = "{REVOKED}"', *(f'{key} = "{value}"' for key, value in what.items())])


def new_image(rig: Rig) -> Image:
    """The image that the baseline wants, as the catalogue of now has it."""
    return next(i for i in rig.tools.catalogue if i.name == 'erot-new')


def test_a_signed_image_of_a_signed_catalogue_is_written(rig: RIG) -> None:
    """What is revoked in the next tests is good here."""
    found = rig()
    lay(found, serial=7)
    assert () == found.begin()
    assert isinstance(found.turn(), Done), found.reasons


def test_an_image_that_somebody_else_signed_is_not_sent(rig: RIG) -> None:
    """F31. The catalogue is the operator's, and its images have to be signed each."""
    found = rig()
    lay(found, serial=7)
    image = new_image(found)
    Path(str(image.signature)).write_text(Signer(key=keys.key()).file(signature.image_statement(image)))
    assert () == found.begin()
    fails_untouched(found, 'its signature is not trusted')


@pytest.mark.parametrize('by', ['digest', 'version'])
def test_a_signed_image_that_is_revoked_is_refused(rig: RIG, by: str) -> None:
    """F31. Its signature is as good as ever; the catalogue of the same signer denies it."""
    found = rig()
    image = new_image(found)
    what = {'digest': str(image.digest)} if by == 'digest' else {'component': image.component, 'version': image.version}
    store = lay(found, serial=7, deny=denying(**what))
    assert f'key {signature.fingerprint(SIGNER.public_key())}' == store.signers(new_image(found), found.now)[0]
    refused(found, f'version {NEW[EROT]} is denied: {REVOKED}')


def test_a_signed_image_that_is_revoked_while_the_job_runs_is_not_sent(rig: RIG) -> None:
    """F31. The job was planned with the catalogue before; what is sent is asked of the one that is there now."""
    found = rig()
    lay(found, serial=7)
    assert () == found.begin()
    found.when(checked, lambda: lay(found, serial=8, deny=denying(digest=str(new_image(found).digest))))
    fails_untouched(found, REVOKED)


def test_a_signed_image_whose_bytes_are_revoked_by_another_digest_is_not_sent(rig: RIG) -> None:
    """F31. The catalogue knows its SHA-256 and denies a SHA-512: only the bytes can tell."""
    found = rig()
    digest = hashlib.sha512(Path(new_image(found).source).read_bytes()).hexdigest()
    lay(found, serial=7, deny=denying(digest=f'sha512:{digest}'))
    assert () == found.begin()
    fails_untouched(found, f'by the digest of its bytes: {REVOKED}')


def test_an_image_of_an_expired_catalogue_is_not_sent(rig: RIG) -> None:
    """F32. Well signed, and kept from its successors by somebody: what was revoked since is not in it."""
    found = rig()
    lay(found, serial=7, expires=START)
    assert () == found.begin()
    fails_untouched(found, 'catalogue.toml, which expired at 2026-11-21 12:00:00Z')


def test_an_image_whose_catalogue_expires_between_two_cards_is_not_sent_to_the_second(rig: RIG) -> None:
    """F32. The first card has it and keeps it."""
    found = rig()
    lay(found, serial=7, expires=START + timedelta(seconds=60))
    assert () == found.begin()
    fails_untouched(found, 'expired at 2026-11-21 12:01:00Z', card=1)
    assert NEW[EROT] == found.version(0)
