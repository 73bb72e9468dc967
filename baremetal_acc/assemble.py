# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""How the tools of the straight path are put together from the operator's configuration."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from baremetal_acc.bmc import find as find_driver
from baremetal_acc.bmc.api import BmcAddress, ImageServer
from baremetal_acc.catalogue import address, load
from baremetal_acc.catalogue.address import Origin
from baremetal_acc.catalogue.deny import Denial
from baremetal_acc.catalogue.fetch import Web
from baremetal_acc.catalogue.load import Loaded, Trusting
from baremetal_acc.catalogue.serials import Serials
from baremetal_acc.catalogue.store import FileStore, Store, WebStore
from baremetal_acc.config.options import GROUP
from baremetal_acc.config.settings import Settings
from baremetal_acc.decide import baseline
from baremetal_acc.decide.advance import Patience
from baremetal_acc.decide.baseline import Baseline
from baremetal_acc.decide.offer import unknown
from baremetal_acc.errors import DocumentError
from baremetal_acc.locks import find as find_locks
from baremetal_acc.model.certificate import Paper
from baremetal_acc.model.image import Image, SignatureDemand
from baremetal_acc.run import Attestor, Tools


@dataclass(frozen=True, slots=True, kw_only=True)
class Documents:
    """What the operator wrote: rules and images.

    :ivar folders: that images may lie in; ``hosts`` servers that they may come from.
    :ivar path: of the catalogue, for messages; ``expires`` when it does, None for never; ``denials`` its deny-list.
    :ivar trust: who may sign images; None where there are no trust roots for them.
    :ivar papers: the files of baseline and catalogue, by which certificates name them; None where one was not read.
    :ivar remarks: what is no error in them, and seems not to be meant.
    """

    baseline: Baseline
    catalogue: tuple[Image, ...]
    folders: tuple[Path, ...]
    hosts: frozenset[Origin] = frozenset()
    path: str = 'the catalogue'
    expires: datetime | None = None
    denials: tuple[Denial, ...] = ()
    trust: Trusting | None = None
    papers: tuple[Paper, Paper] | None = None
    remarks: tuple[str, ...] = ()


def documents(settings: Settings, *, images: bool = True, arguments: bool = False, rules: bool = True) -> Documents:
    """Read baseline and catalogue.

    :param arguments: there are arguments (of the command line) that win over the options, for messages.
    :param images: read the catalogue; else there are no images, and whoever only locks does not depend on whether it is good.
    :param rules: there have to be some; else a baseline that is not there is one without rules, and no catalogue is read:
        whoever only reads needs none.
    :raises DocumentError: one is missing or wrong, or a trust root or an option about images is.
    :raises CatalogueRefused: the catalogue is not signed as it has to be, or an older one.
    """
    if not rules and not settings.baseline.exists():
        return Documents(baseline=baseline.Baseline(rules=()), catalogue=(), folders=())
    text = _text(settings.baseline, _named(settings, 'baseline', arguments=arguments))
    read = baseline.parse(text, str(settings.baseline), now=datetime.now(UTC))
    if not images:
        return Documents(baseline=read, catalogue=(), folders=())
    loaded = catalogue(settings, trusting(settings), datetime.now(UTC), arguments=arguments)
    found = loaded.catalogue
    return Documents(
        baseline=read,
        catalogue=found.images,
        folders=folders(settings),
        hosts=hosts(settings),
        path=found.path,
        expires=found.expires,
        denials=found.denials,
        trust=trusting_images(settings),
        papers=(
            Paper(name=settings.baseline.name, digest=f'sha256:{hashlib.sha256(text.encode()).hexdigest()}'),
            Paper(name=Path(found.path).name, digest=loaded.digest),
        ),
        remarks=tuple(
            f'{settings.baseline}: rule {rule}: takes names {name!r}, and {found.path} has no such function: it promises '
            'nothing'
            for rule, name in unknown(read, found.images)
        ),
    )


def catalogue(settings: Settings, trust: Trusting | None, now: datetime, *, arguments: bool = False) -> Loaded:
    """The catalogue, once it has proven whose it is.

    :param arguments: as of :func:`documents`.
    :raises DocumentError: it is missing or wrong.
    :raises CatalogueRefused: it is not signed as it has to be, or an older one.
    """
    kept = settings.catalogue_serial_file
    return load.load(
        settings.catalogue,
        trust=trust,
        demand=settings.catalogue_signature or (SignatureDemand.OPTIONAL if trust is None else SignatureDemand.REQUIRED),
        serials=None if kept is None else Serials(path=kept),
        now=now,
        hint=_named(settings, 'catalogue', arguments=arguments),
    )


def trusting(settings: Settings) -> Trusting | None:
    """Who may sign the catalogue, as the trust roots say; None where there are none.

    :raises DocumentError: a trust root is missing or wrong.
    """
    return _trusting(settings.trust_roots)


def trusting_images(settings: Settings) -> Trusting | None:
    """Who may sign images: who vouches for bytes need not be trusted with what they fit, and what is denied.

    :raises DocumentError: a trust root is missing or wrong.
    """
    return _trusting(settings.image_trust_roots or settings.trust_roots)


def _trusting(roots: Sequence[Path]) -> Trusting | None:
    if not roots:
        return None
    # Imported here: who has no trust roots does not wait for it.
    from baremetal_acc.catalogue.roots import trust

    return trust(roots)


def attesting(settings: Settings) -> Attestor | None:
    """What tells what measurements of devices are worth; None where no root of their makers is pinned.

    :raises DocumentError: a root is missing or wrong.
    """
    roots = settings.spdm_trust_roots
    if not roots:
        return None
    # Imported here: who has no roots does not wait for it.
    from baremetal_acc.catalogue.spdm import attestor

    return attestor(map(str, roots))


def folders(settings: Settings) -> tuple[Path, ...]:
    """Folders that images may lie in."""
    return (settings.catalogue.parent, *settings.image_folders)


def hosts(settings: Settings) -> frozenset[Origin]:
    """Servers that images may come from.

    :raises DocumentError: an entry is none.
    """
    return frozenset(_origin(entry) for entry in settings.image_hosts)


def store(settings: Settings, read: Documents) -> Store:
    """Where images come from."""
    web = Web(hosts=read.hosts, authorities=_text_of(settings.image_ca), timeout=settings.image_timeout)
    return Store(
        files=FileStore(folders=read.folders, largest=settings.image_max_size),
        web=WebStore(web=web, largest=settings.image_max_size),
        trust=read.trust,
        signatures=settings.image_signature,
        catalogue=read.path,
        expires=read.expires,
        denials=read.denials,
    )


def patience(settings: Settings) -> Patience:
    """How long jobs wait."""
    return Patience(
        poll=settings.poll_interval,
        settle=settings.settle_timeout,
        stall=settings.stall_timeout,
        reset=settings.reset_timeout,
        claims=settings.claims_timeout,
        person=settings.person_timeout,
        blind=settings.custody_blind_limit,
    )


def image_server(settings: Settings) -> ImageServer | None:
    """Where BMCs may fetch images from us; None when they may not."""
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
    """An address, with how the operator wants BMCs to be spoken to."""
    return replace(
        address,
        timeout=settings.bmc_timeout,
        budget=settings.bmc_budget,
        concurrency=settings.bmc_concurrency,
        basic_auth=settings.bmc_basic_auth,
        images=image_server(settings),
    )


def tools(settings: Settings, read: Documents) -> Tools:
    """Tools with every driver and mechanism that is installed; the shell adds its hooks by :func:`dataclasses.replace`."""
    return Tools(
        connect=find_driver.connecting(settings.devices),
        mechanisms=find_locks.mechanisms(),
        baseline=read.baseline,
        catalogue=read.catalogue,
        images=store(settings, read),
        attestor=attesting(settings),
        patience=patience(settings),
        papers=read.papers,
    )


def _origin(entry: str) -> Origin:
    try:
        return address.origin(entry)
    except ValueError:
        hint = 'write HOST or HOST:PORT, or http://HOST:PORT for a server without TLS'
        raise DocumentError(path=f'option [{GROUP}] image_hosts', what=f'{entry!r} is no server', hint=hint) from None


def _named(settings: Settings, name: str, *, arguments: bool) -> str:
    """Who names a file, as a hint."""
    if arguments and name in settings.from_arguments:
        return f'--{name} names it'
    return f'option [{GROUP}] {name} names it' + (f', --{name} another one' if arguments else '')


def _text_of(path: Path | None) -> str | None:
    return None if path is None else str(path)


def _text(path: Path, hint: str) -> str:
    try:
        return path.read_bytes().decode('utf-8')  # not as text: line ends count for its digest
    except OSError as exc:
        raise DocumentError(path=str(path), what=f'cannot be read: {exc.strerror}', hint=hint) from exc
    except UnicodeDecodeError:
        raise DocumentError(path=str(path), what='is not UTF-8') from None
