# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""How the tools of the straight path are put together from the operator's configuration."""

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from oslo_config import cfg

from baremetal_acc.bmc import find as find_driver
from baremetal_acc.bmc.api import ImageServer
from baremetal_acc.catalogue import catalogue
from baremetal_acc.catalogue.store import FileStore
from baremetal_acc.conf import GROUP
from baremetal_acc.decide import baseline
from baremetal_acc.decide.advance import Patience
from baremetal_acc.decide.baseline import Baseline
from baremetal_acc.errors import DocumentError
from baremetal_acc.locks import find as find_locks
from baremetal_acc.model.image import Image
from baremetal_acc.run import Tools


@dataclass(frozen=True, slots=True, kw_only=True)
class Documents:
    """What the operator wrote: rules and images."""

    baseline: Baseline
    catalogue: tuple[Image, ...]
    folders: tuple[Path, ...]


def documents(conf: cfg.ConfigOpts) -> Documents:
    """Read baseline and catalogue.

    :raises DocumentError: one is missing or wrong.
    """
    group = conf[GROUP]
    catalogue_path = Path(group.catalogue)
    return Documents(
        baseline=baseline.parse(_text(Path(group.baseline), 'baseline'), group.baseline),
        catalogue=catalogue.parse(_text(catalogue_path, 'catalogue'), group.catalogue),
        folders=(catalogue_path.parent, *(Path(folder) for folder in group.image_folders)),
    )


def patience(conf: cfg.ConfigOpts) -> Patience:
    """How long jobs wait."""
    group = conf[GROUP]
    return Patience(
        poll=timedelta(seconds=group.poll_interval),
        settle=timedelta(seconds=group.settle_timeout),
        reset=timedelta(seconds=group.reset_timeout),
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
        images=FileStore(folders=read.folders),
        patience=patience(conf),
    )


def _text(path: Path, option: str) -> str:
    try:
        return path.read_text(encoding='utf-8')
    except OSError as exc:
        hint = f'option [{GROUP}] {option} names it'
        raise DocumentError(path=str(path), what=f'cannot be read: {exc.strerror}', hint=hint) from exc
    except UnicodeDecodeError:
        raise DocumentError(path=str(path), what='is not UTF-8') from None
