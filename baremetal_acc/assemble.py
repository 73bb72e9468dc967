# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""How the tools of the straight path are put together from the operator's configuration."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from oslo_config import cfg

from baremetal_acc.bmc import find as find_driver
from baremetal_acc.bmc.api import ImageServer
from baremetal_acc.catalogue import address, load
from baremetal_acc.catalogue.address import Origin
from baremetal_acc.catalogue.deny import Denial
from baremetal_acc.catalogue.fetch import Web
from baremetal_acc.catalogue.load import Demand, Loaded, Trusting
from baremetal_acc.catalogue.serials import Serials
from baremetal_acc.catalogue.store import FileStore, Store, WebStore
from baremetal_acc.conf import GROUP, check_names
from baremetal_acc.decide import baseline
from baremetal_acc.decide.advance import Patience
from baremetal_acc.decide.baseline import Baseline
from baremetal_acc.decide.offer import unknown
from baremetal_acc.errors import DocumentError
from baremetal_acc.locks import find as find_locks
from baremetal_acc.model.certificate import Paper
from baremetal_acc.model.image import Image
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


def documents(conf: cfg.ConfigOpts, *, images: bool = True, arguments: bool = False, rules: bool = True) -> Documents:
    """Read baseline and catalogue.

    :param arguments: there are arguments (of the command line) that win over the options, for messages.
    :param images: read the catalogue; else there are no images, and whoever only locks does not depend on whether it is good.
    :param rules: there have to be some; else a baseline that is not there is one without rules, and no catalogue is read:
        whoever only reads needs none.
    :raises DocumentError: one is missing or wrong, or a trust root or an option about images is, or an option is misspelt.
    :raises CatalogueRefused: the catalogue is not signed as it has to be, or an older one.
    """
    group = conf[GROUP]
    if not rules and not Path(group.baseline).exists():
        return Documents(baseline=baseline.Baseline(rules=()), catalogue=(), folders=())
    text = _text(Path(group.baseline), _named(conf, 'baseline', arguments=arguments))
    read = baseline.parse(text, group.baseline, now=datetime.now(UTC))
    if not images:
        return Documents(baseline=read, catalogue=(), folders=())
    check_names(conf)
    loaded = catalogue(conf, trusting(conf), datetime.now(UTC), arguments=arguments)
    found = loaded.catalogue
    return Documents(
        baseline=read,
        catalogue=found.images,
        folders=folders(conf),
        hosts=hosts(conf),
        path=found.path,
        expires=found.expires,
        denials=found.denials,
        trust=trusting_images(conf),
        papers=(
            Paper(name=Path(group.baseline).name, digest=f'sha256:{hashlib.sha256(text.encode()).hexdigest()}'),
            Paper(name=Path(found.path).name, digest=loaded.digest),
        ),
        remarks=tuple(
            f'{group.baseline}: rule {rule}: takes names {name!r}, and {found.path} has no such function: it promises nothing'
            for rule, name in unknown(read, found.images)
        ),
    )


def catalogue(conf: cfg.ConfigOpts, trust: Trusting | None, now: datetime, *, arguments: bool = False) -> Loaded:
    """The catalogue, once it has proven whose it is.

    :param arguments: as of :func:`documents`.
    :raises DocumentError: it is missing or wrong.
    :raises CatalogueRefused: it is not signed as it has to be, or an older one.
    """
    group = conf[GROUP]
    kept = group.catalogue_serial_file
    return load.load(
        Path(group.catalogue),
        trust=trust,
        demand=Demand(group.catalogue_signature or (Demand.OPTIONAL if trust is None else Demand.REQUIRED)),
        serials=None if not kept else Serials(path=Path(kept)),
        now=now,
        hint=_named(conf, 'catalogue', arguments=arguments),
    )


def trusting(conf: cfg.ConfigOpts) -> Trusting | None:
    """Who may sign the catalogue, as the trust roots say; None where there are none.

    :raises DocumentError: a trust root is missing or wrong.
    """
    return _trusting(conf[GROUP].trust_roots)


def trusting_images(conf: cfg.ConfigOpts) -> Trusting | None:
    """Who may sign images: who vouches for bytes need not be trusted with what they fit, and what is denied.

    :raises DocumentError: a trust root is missing or wrong.
    """
    return _trusting(conf[GROUP].image_trust_roots or conf[GROUP].trust_roots)


def _trusting(roots: Sequence[str]) -> Trusting | None:
    if not roots:
        return None
    # Imported here: who has no trust roots does not wait for it.
    from baremetal_acc.catalogue.roots import trust

    return trust([Path(root) for root in roots])


def attesting(conf: cfg.ConfigOpts) -> Attestor | None:
    """What tells what measurements of devices are worth; None where no root of their makers is pinned.

    :raises DocumentError: a root is missing or wrong.
    """
    roots = conf[GROUP].spdm_trust_roots
    if not roots:
        return None
    # Imported here: who has no roots does not wait for it.
    from baremetal_acc.catalogue.spdm import attestor

    return attestor(roots)


def folders(conf: cfg.ConfigOpts) -> tuple[Path, ...]:
    """Folders that images may lie in."""
    group = conf[GROUP]
    return (Path(group.catalogue).parent, *(Path(folder) for folder in group.image_folders))


def hosts(conf: cfg.ConfigOpts) -> frozenset[Origin]:
    """Servers that images may come from.

    :raises DocumentError: an entry is none.
    """
    return frozenset(_origin(entry) for entry in conf[GROUP].image_hosts)


def store(conf: cfg.ConfigOpts, read: Documents) -> Store:
    """Where images come from."""
    group = conf[GROUP]
    web = Web(
        hosts=read.hosts,
        authorities=group.image_ca,
        timeout=timedelta(seconds=group.image_timeout),
    )
    return Store(
        files=FileStore(folders=read.folders, largest=group.image_max_size),
        web=WebStore(web=web, largest=group.image_max_size),
        trust=read.trust,
        signatures=Demand(group.image_signature),
        catalogue=read.path,
        expires=read.expires,
        denials=read.denials,
    )


def patience(conf: cfg.ConfigOpts) -> Patience:
    """How long jobs wait."""
    group = conf[GROUP]
    return Patience(
        poll=timedelta(seconds=group.poll_interval),
        settle=timedelta(seconds=group.settle_timeout),
        stall=timedelta(seconds=group.stall_timeout),
        reset=timedelta(seconds=group.reset_timeout),
        claims=timedelta(seconds=group.claims_timeout),
        person=timedelta(seconds=group.person_timeout),
        blind=timedelta(seconds=group.custody_blind_limit),
    )


def image_server(conf: cfg.ConfigOpts) -> ImageServer | None:
    """Where BMCs may fetch images from us; None when they may not."""
    group = conf[GROUP]
    if not group.image_server_host:
        return None
    first, _, last = group.image_server_ports.partition('-')
    return ImageServer(
        host=group.image_server_host,
        listen=group.image_server_listen,
        ports=(int(first), int(last or first)),
        certificate=group.image_server_certificate,
        key=group.image_server_key,
    )


def tools(conf: cfg.ConfigOpts, read: Documents) -> Tools:
    """Tools with every driver and mechanism that is installed; the shell adds its hooks by :func:`dataclasses.replace`."""
    return Tools(
        connect=find_driver.connecting(Path(conf[GROUP].devices)),
        mechanisms=find_locks.mechanisms(),
        baseline=read.baseline,
        catalogue=read.catalogue,
        images=store(conf, read),
        attestor=attesting(conf),
        patience=patience(conf),
        papers=read.papers,
    )


def _origin(entry: str) -> Origin:
    try:
        return address.origin(entry)
    except ValueError:
        hint = 'write HOST or HOST:PORT, or http://HOST:PORT for a server without TLS'
        raise DocumentError(path=f'option [{GROUP}] image_hosts', what=f'{entry!r} is no server', hint=hint) from None


def _named(conf: cfg.ConfigOpts, option: str, *, arguments: bool) -> str:
    """Who names a file, as a hint."""
    location = conf.get_location(option, GROUP)
    if arguments and location is not None and location.location is cfg.Locations.set_override:
        return f'--{option} names it'
    return f'option [{GROUP}] {option} names it' + (f', --{option} another one' if arguments else '')


def _text(path: Path, hint: str) -> str:
    try:
        return path.read_bytes().decode('utf-8')  # not as text: line ends count for its digest
    except OSError as exc:
        raise DocumentError(path=str(path), what=f'cannot be read: {exc.strerror}', hint=hint) from exc
    except UnicodeDecodeError:
        raise DocumentError(path=str(path), what='is not UTF-8') from None
