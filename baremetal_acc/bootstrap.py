# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Build the tools of a job (drivers, locks, baseline, catalogue, image store) from the operator's configuration.

Every shell builds its :class:`~baremetal_acc.execution.Tools` here and adds its own hooks.
"""

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from baremetal_acc import input_file
from baremetal_acc.bmc import registry as find_driver
from baremetal_acc.bmc.driver import BmcAddress, ImageServer
from baremetal_acc.card_settings import registry as find_card_settings
from baremetal_acc.config.options import GROUP
from baremetal_acc.config.settings import Settings
from baremetal_acc.errors import DocumentError
from baremetal_acc.execution import Attestor, Tools
from baremetal_acc.images import address, load, signed_document
from baremetal_acc.images.address import UrlOrigin
from baremetal_acc.images.deny import Denial
from baremetal_acc.images.fetch import Web
from baremetal_acc.images.load import Loaded
from baremetal_acc.images.serials import Serials
from baremetal_acc.images.signed_document import Trusting
from baremetal_acc.images.store import FileStore, ImageFiles, WebStore
from baremetal_acc.locks import registry as find_locks
from baremetal_acc.model.certificate import Paper
from baremetal_acc.model.image import Image, SignatureDemand, SignedKind
from baremetal_acc.model.reference import VersionReference
from baremetal_acc.planning.retry_limits import RetryLimits
from baremetal_acc.policy import baseline, baseline_rules
from baremetal_acc.policy.baseline_rules import Baseline
from baremetal_acc.scheduling.schedulable import unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Documents:
    """The operator's baseline and catalogue, as they were read.

    :ivar folders: folders that images may be read from; ``hosts``: servers that they may be fetched from.
    :ivar path: of the catalogue, for messages; ``expires``: when it expires, None for never; ``denials``: its deny-list.
    :ivar baseline_path: of the baseline, for messages.
    :ivar trust: who may sign images; None where no trust roots are configured for them.
    :ivar papers: name and digest of the baseline and the catalogue, for hand-over certificates; None where one was not read.
    :ivar references: reference values of versions, from the catalogue.
    :ivar remarks: warnings about what is no error in the documents, and probably a mistake.
    """

    baseline: Baseline
    catalogue: tuple[Image, ...]
    folders: tuple[Path, ...]
    hosts: frozenset[UrlOrigin] = frozenset()
    path: str = 'the catalogue'
    baseline_path: str = 'the baseline'
    expires: datetime | None = None
    denials: tuple[Denial, ...] = ()
    trust: Trusting | None = None
    papers: tuple[Paper, Paper] | None = None
    remarks: tuple[str, ...] = ()
    references: tuple[VersionReference, ...] = ()


def documents(settings: Settings, *, images: bool = True, arguments: bool = False, rules: bool = True) -> Documents:
    """Read the baseline and the catalogue.

    :param arguments: the command line has arguments that override the options; messages name them.
    :param images: read the catalogue, too. Without it there are no images, and a caller that only locks does not depend on a
        valid catalogue.
    :param rules: the baseline has to exist. Otherwise a missing baseline is one without rules, and the catalogue is not read
        then: a caller that only reads machines needs neither.
    :raises DocumentError: one is missing or wrong, or a trust root or an option about images is.
    :raises DocumentRefused: one is not signed as it has to be, or is older than one that was used before.
    """
    if not rules and not settings.baseline.exists():
        return Documents(baseline=baseline_rules.Baseline(rules=()), catalogue=(), folders=())
    read, digest = _rules(settings, datetime.now(UTC), arguments=arguments)
    if not images:
        return Documents(baseline=read, catalogue=(), folders=())
    loaded = catalogue(settings, trusting(settings), datetime.now(UTC), arguments=arguments)
    found = loaded.catalogue
    return Documents(
        baseline=read,
        catalogue=found.images,
        references=found.references,
        folders=folders(settings),
        hosts=hosts(settings),
        path=found.path,
        baseline_path=str(settings.baseline),
        expires=found.expires,
        denials=found.denials,
        trust=trusting_images(settings),
        papers=(
            Paper(name=settings.baseline.name, digest=digest),
            Paper(name=Path(found.path).name, digest=loaded.digest),
        ),
        remarks=tuple(
            f'{settings.baseline}: rule {rule}: takes names {name!r}, but {found.path} has no such function: nothing is '
            'published for it'
            for rule, name in unknown(read, found.images)
        ),
    )


def _rules(settings: Settings, now: datetime, *, arguments: bool) -> tuple[Baseline, str]:
    """Read the baseline, verify its signature and its serial if it has any, and return it with the digest of its bytes.

    A baseline without a signature file needs no trust roots unless it has to be signed, and one without a serial needs no
    database, so that a wrong trust root or a damaged database keeps nobody from locking.
    """
    kind, path, demand = SignedKind.BASELINE, settings.baseline, settings.baseline_signature
    data = _bytes(path, _named(settings, 'baseline', arguments=arguments))
    signers: tuple[str, ...] = ()
    if demand is SignatureDemand.REQUIRED or os.path.lexists(signed_document.signature_path(path)):
        signers = signed_document.signers(kind, path, data, trust=trusting(settings), demand=demand, now=now)
    read = baseline.parse(signed_document.decoded(path, data), str(path), now=now)
    if not signers and read.serial is None:
        return read, f'sha256:{hashlib.sha256(data).hexdigest()}'
    digest = signed_document.check_age(
        kind, path, data, serial=read.serial, expires=read.expires, signed=bool(signers), serials=_serials(settings)
    )
    return read, digest


def _serials(settings: Settings) -> Serials | None:
    kept = settings.catalogue_serial_file
    return None if kept is None else Serials(path=kept)


def catalogue(settings: Settings, trust: Trusting | None, now: datetime, *, arguments: bool = False) -> Loaded:
    """Read the catalogue, and verify its signature and its serial.

    :param arguments: as of :func:`documents`.
    :raises DocumentError: it is missing or wrong.
    :raises CatalogueRefused: it is not signed as it has to be, or is older than one that was used before.
    """
    return load.load(
        settings.catalogue,
        trust=trust,
        demand=settings.catalogue_signature or (SignatureDemand.OPTIONAL if trust is None else SignatureDemand.REQUIRED),
        serials=_serials(settings),
        now=now,
        hint=_named(settings, 'catalogue', arguments=arguments),
    )


def trusting(settings: Settings) -> Trusting | None:
    """Return who may sign the catalogue and the baseline, by the trust roots; None where there are none.

    :raises DocumentError: a trust root is missing or wrong, or more keys have to sign than there are.
    """
    return _trusting(settings.trust_roots, settings.signature_threshold)


def trusting_images(settings: Settings) -> Trusting | None:
    """Return who may sign images; None where there are no trust roots.

    Whoever vouches for the bytes of an image need not be trusted with the catalogue, which says what images fit and what is
    denied. One signature of an image is enough: the catalogue, which has its digest, is signed by as many keys as required.

    :raises DocumentError: a trust root is missing or wrong.
    """
    return _trusting(settings.image_trust_roots or settings.trust_roots)


def _trusting(roots: Sequence[Path], threshold: int = 1) -> Trusting | None:
    if not roots and threshold == 1:
        return None
    # Imported here, as the import is slow and is not needed without trust roots.
    from baremetal_acc.images.trust.roots import trust

    return trust(roots, threshold)


def attesting(settings: Settings) -> Attestor | None:
    """Return what checks the signed measurements of devices (SPDM); None where no root of a device maker is pinned.

    :raises DocumentError: a root is missing or wrong.
    """
    roots = settings.spdm_trust_roots
    if not roots:
        return None
    # Imported here, as the import is slow and is not needed without roots.
    from baremetal_acc.images.spdm.signed_measurements import attestor

    return attestor(map(str, roots))


def folders(settings: Settings) -> tuple[Path, ...]:
    """Return the folders that images may be read from."""
    return (settings.catalogue.parent, *settings.image_folders)


def hosts(settings: Settings) -> frozenset[UrlOrigin]:
    """Return the servers that images may be fetched from.

    :raises DocumentError: an entry of ``image_hosts`` is no server.
    """
    return frozenset(_origin(entry) for entry in settings.image_hosts)


def store(settings: Settings, read: Documents) -> ImageFiles:
    """Return the image store: it reads images from folders, or fetches them from servers."""
    web = Web(hosts=read.hosts, authorities=_text_of(settings.image_ca), timeout=settings.image_timeout)
    return ImageFiles(
        files=FileStore(folders=read.folders, largest=settings.image_max_size),
        web=WebStore(web=web, largest=settings.image_max_size),
        trust=read.trust,
        signatures=settings.image_signature,
        catalogue=read.path,
        expires=read.expires,
        baseline=read.baseline_path,
        baseline_expires=read.baseline.expires,
        denials=read.denials,
    )


def patience(settings: Settings) -> RetryLimits:
    """Return the timeouts of jobs."""
    return RetryLimits(
        poll=settings.poll_interval,
        settle=settings.settle_timeout,
        stall=settings.stall_timeout,
        reset=settings.reset_timeout,
        claims=settings.claims_timeout,
        person=settings.person_timeout,
        blind=settings.custody_blind_limit,
    )


def image_server(settings: Settings) -> ImageServer | None:
    """Return where BMCs may fetch images from this machine (SimpleUpdate); None when they may not."""
    if settings.image_server_host is None:
        return None
    return ImageServer(
        host=settings.image_server_host,
        listen=settings.image_server_listen,
        ports=settings.image_server_ports,
        certificate=_text_of(settings.image_server_certificate),
        key=_text_of(settings.image_server_key),
    )


def tuned(address: BmcAddress, settings: Settings) -> BmcAddress:
    """Return an address with the operator's settings for requests to BMCs."""
    return replace(
        address,
        timeout=settings.bmc_timeout,
        budget=settings.observe_timeout,
        concurrency=settings.bmc_concurrency,
        basic_auth=settings.bmc_basic_auth,
        images=image_server(settings),
    )


def tools(settings: Settings, read: Documents) -> Tools:
    """Build tools with every driver and lock mechanism that is installed.

    The shell adds its hooks by :func:`dataclasses.replace`.
    """
    return Tools(
        connect=find_driver.connecting(settings.devices),
        mechanisms=find_locks.mechanisms(),
        card_settings=find_card_settings.mechanisms(),
        baseline=read.baseline,
        catalogue=read.catalogue,
        references=read.references,
        images=store(settings, read),
        attestor=attesting(settings),
        patience=patience(settings),
        papers=read.papers,
    )


def _origin(entry: str) -> UrlOrigin:
    try:
        return address.origin(entry)
    except ValueError:
        hint = 'write HOST or HOST:PORT, or http://HOST:PORT for a server without TLS'
        raise DocumentError(path=f'option [{GROUP}] image_hosts', what=f'{entry!r} is not a server', hint=hint) from None


def _named(settings: Settings, name: str, *, arguments: bool) -> str:
    """Say which option or argument sets a file, as a hint."""
    if arguments and name in settings.from_arguments:
        return f'--{name} names it'
    return f'option [{GROUP}] {name} names it' + (f'; use --{name} for another file' if arguments else '')


def _text_of(path: Path | None) -> str | None:
    return None if path is None else str(path)


def _bytes(path: Path, hint: str) -> bytes:
    try:
        # The parser refuses what is too long.
        return input_file.read(path, signed_document.MAX_SIZE)
    except OSError as exc:
        raise DocumentError(path=str(path), what=f'cannot be read: {exc.strerror}', hint=hint) from exc
