# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Load and store the plugin's state of a node: the only module that touches our key of ``driver_internal_info``.

The key holds ``{"format": 1, "lifecycle": N, "busy": true or false, "state": {...}}``. A large state is compressed, since all
of ``driver_internal_info`` has 64 KiB on MySQL and shares them with Ironic's own step lists: then ``packed`` replaces
``state``.

Other keys are stored next to it. ``drift`` (reported last), ``certificate`` (issued last) and ``attached`` (what an instance
has got) stay readable for people. ``ways``, ``taken``, ``ramdisk``, ``bmcs``, ``met``, ``proven``, ``ending``,
``start_allowed``, ``untended``, ``verdict``, ``denied``, ``shelf`` and ``regions`` are outside of the state so that older
versions of this package ignore them; ``regions`` is also read by pools (:mod:`baremetal_acc.scheduling.regions`), and
``rights`` says for periodics that the state has waivers or requested functions of a deployment. ``seen``, always compressed, is
the inventory that the next read is compared with, and ``handed`` is how the node was handed over. Full inventories do not
belong here: they are in Ironic's inspection store, where others write, too.
"""

import base64
import json
import zlib
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from ironic.common import exception
from oslo_log import log

from baremetal_acc.errors import AccError, StaleJob
from baremetal_acc.model.attach import Attached
from baremetal_acc.model.codec import decode, encode
from baremetal_acc.model.custody import NO_CUSTODY, BreakCause, Custody
from baremetal_acc.model.inventory import Inventory
from baremetal_acc.model.lock import Way
from baremetal_acc.planning import custody
from baremetal_acc.planning.watch_alarms import Alarm
from baremetal_acc.scheduling import regions
from baremetal_acc.scheduling.denied_devices import WithheldDevice
from baremetal_acc.scheduling.regions import Regions
from baremetal_acc_ironic.reporting import record
from baremetal_acc_ironic.state.node_state import (
    FORMAT,
    KeptInventory,
    NodeState,
    ReportedState,
    StartAllowed,
    StoredVerdict,
    Withdrawals,
)

LOG = log.getLogger(__name__)

KEY = 'baremetal_acc'

PLACE = f"driver_internal_info['{KEY}']"
"""The key as messages name it."""

LIMIT_BYTES = 48 * 1024
"""Our part of 64 KiB; the rest is Ironic's. Source: ironic/db/sqlalchemy/models.py, JsonEncodedDict is TEXT, 65535 bytes on
MySQL."""

_PLAIN_BYTES = 12 * 1024
"""Up to this size the state is not compressed, and stays readable for people."""

_ATTACHED_BYTES = 6 * 1024
"""Up to this size the accelerators of an instance are not compressed. Measured: a slot needs 600 bytes, 64 of them 3 KiB
packed."""

_UNPACKED_BYTES = 8 * 1024 * 1024

_BESIDE = (
    'ways',
    'taken',
    'ramdisk',
    'bmcs',
    'owned',
    'leased',
    'ending',
    'regions',
    'shelf',
    'attached',
    'proven',
    'start_allowed',
    'custody',
    'untended',
    'verdict',
    'denied',
)
"""Fields of :class:`NodeState` that are stored next to the state, where older versions ignore them."""

_HINT = (
    'finish the job with the version of baremetal-acc that began it; or, if no tenant has the node, delete it, enroll it again '
    'and clean it'
)
"""What to do about a state that cannot be read."""

SEEN_BYTES = 16 * 1024
"""Limit of the packed inventory that the next read is compared with. Measured: 16 GPUs with roots of trust and locks need 3.5
KiB, the recorded machine with 8 of them 2.3 KiB."""


def load(node: Any) -> NodeState:
    """Load the state of a node; an empty one if nothing is stored.

    :raises StaleJob: the key cannot be read: another version of this package wrote it, or somebody changed it.
    """
    stored = (node.driver_internal_info or {}).get(KEY)
    if stored is None:
        return NodeState()
    if not isinstance(stored, dict) or stored.get('format') != FORMAT:
        raise StaleJob(f'node {node.uuid}: {PLACE} has another format than {FORMAT}', hint=_HINT)
    packed = stored.get('packed')
    state = stored.get('state') if packed is None else _unpack(node, packed)
    told, seen, handed = stored.get('drift'), stored.get('seen'), stored.get('handed')
    kept, ways, taken = stored.get('certificate'), stored.get('ways') or [], stored.get('taken')
    attached, met = stored.get('attached'), stored.get('met') or []
    if isinstance(attached, str):
        attached = _unpack(node, attached)
    found = replace(
        decode(NodeState, state),
        drift=None if told is None else decode(ReportedState, told),
        certificate=None if kept is None else decode(KeptInventory, kept),
        ways=frozenset(decode(tuple[Way, ...], ways)),
        taken=None if taken is None else decode(frozenset[str], taken),
        proven=_proven(stored),
        start_allowed=None if stored.get('start_allowed') is None else decode(StartAllowed, stored['start_allowed']),
        custody=_custody(node, stored.get('custody')),
        untended=_untended(node, stored.get('untended')),
        verdict=_verdict(node, stored.get('verdict')),
        denied=_denied(node, stored.get('denied')),
        ramdisk=stored.get('ramdisk'),
        bmcs=stored.get('bmcs'),
        owned='owned' in met,
        leased='leased' in met,
        ending=stored.get('ending') is True,
        attached=None if attached is None else decode(Attached, attached),
        seen=seen if isinstance(seen, str) else None,
        handed=handed if isinstance(handed, str) else None,
        regions=_regions(node, stored.get('regions')),
        shelf=Withdrawals() if stored.get('shelf') is None else decode(Withdrawals, stored['shelf']),
    )
    if found.job is None or found.job.ended:
        return found
    return replace(found, job=replace(found.job, custody=found.custody))


def _proven(stored: Mapping[str, Any]) -> datetime | None:
    """When locks were last proven closed. Versions that did not store this have handed a node over by a verification alone."""
    if stored.get('proven') is not None:
        return decode(datetime, stored['proven'])
    if 'proven' in stored or stored.get('handed') is None:
        return None
    kept = stored.get('certificate')
    return datetime.fromtimestamp(0, UTC) if kept is None else decode(KeptInventory, kept).issued


def _regions(node: Any, found: object) -> Regions | None:
    try:
        return None if found is None else regions.read(found)
    except StaleJob as exc:
        LOG.warning(
            'Node %s: its record of regions cannot be read, so no pool counts them until its cards are read again: %s',
            node.uuid,
            exc,
        )
        return None


def _custody(node: Any, packed: object) -> Custody:
    """Read the custody of the node's cards. If it cannot be read there is none: every card is written again."""
    if packed is None:
        return NO_CUSTODY
    try:
        return decode(Custody, _unpack(node, packed))
    except StaleJob as exc:
        LOG.warning('Node %s: the chains of custody of its cards cannot be read, and are lost: %s', node.uuid, exc)
        return NO_CUSTODY


def _untended(node: Any, stored: object) -> tuple[Alarm, ...]:
    """Read the alarms of an unused node. If they cannot be read they are reported again."""
    if stored is None:
        return ()
    try:
        return decode(tuple[Alarm, ...], stored)
    except StaleJob as exc:
        LOG.warning('Node %s: its stored alarms cannot be read, and are reported again: %s', node.uuid, exc)
        return ()


def _verdict(node: Any, stored: object) -> StoredVerdict | None:
    """Read what is known of the stored verdict. If it cannot be read, the stored verdict is not ours."""
    if stored is None:
        return None
    try:
        return decode(StoredVerdict, stored)
    except StaleJob as exc:
        LOG.warning('Node %s: its record of the stored verdict cannot be read: %s', node.uuid, exc)
        return None


def _with_verdict_ended(node: Any, memory: NodeState) -> NodeState:
    """Return the state with the end of the stored verdict, if it has ended, and mark the verdict in the inspection data.

    An end that was stored stays: a caller may store a state that it loaded before.
    """
    known = memory.verdict
    if known is None:
        return memory
    before = _verdict(node, ((node.driver_internal_info or {}).get(KEY) or {}).get('verdict'))
    if before is not None and before.digest == known.digest and before.ended is not None:
        known = before
    ended = replace(memory, verdict=known).verdict_end
    if ended is not None and known.ended is None:
        known = replace(known, ended=ended, ended_at=datetime.now(UTC))
    if known.ended is not None and not known.marked:
        # Before the node is saved: if this process ends in between, the verdict is marked too early, and not too late.
        known = replace(known, marked=record.mark(node, known))
    return replace(memory, verdict=known)


def _denied(node: Any, stored: object) -> tuple[WithheldDevice, ...]:
    """Read the devices that the deny list withholds. If they cannot be read they are found and withdrawn again."""
    if not isinstance(stored, dict):
        return ()
    why = stored.get('why')
    try:
        return decode(tuple[WithheldDevice, ...], _unpack(node, why) if isinstance(why, str) else why)
    except StaleJob as exc:
        LOG.warning('Node %s: which devices the deny list withholds cannot be read, and is found again: %s', node.uuid, exc)
        return ()


def store(node: Any, memory: NodeState) -> None:
    """Put the state into the node's fields and save the node. A stored verdict that has ended by it is marked.

    :raises AccError: it is too large.
    :raises NodeLocked: see :func:`held`.
    """
    held(node)
    job = memory.job
    if job is not None and not job.ended:
        memory = replace(memory, undos=job.undos, custody=job.custody)
        job = replace(job, custody=NO_CUSTODY)  # stored once, next to the job
    else:
        exposed = custody.broken(memory.custody, memory.exposed, BreakCause.EXPOSED, datetime.now(UTC))
        memory = replace(memory, custody=exposed)
    memory = _with_verdict_ended(node, memory)
    beside = replace(
        memory, job=job, seen=None, drift=None, certificate=None, handed=None, attached=None, regions=None, shelf=Withdrawals()
    )
    state = encode(beside)
    for name in _BESIDE:
        state.pop(name, None)
    value: dict[str, Any] = {'format': FORMAT, 'lifecycle': memory.lifecycle, 'busy': memory.job is not None}
    plain = json.dumps(state)
    if len(plain) <= _PLAIN_BYTES:
        value['state'] = state
    else:
        value['packed'] = _pack(plain)
    if memory.watched is not None and memory.watched.looked is not None:
        value['watched'] = memory.watched.lifecycle
    texts = {'handed': memory.handed, 'ramdisk': memory.ramdisk, 'bmcs': memory.bmcs}
    value |= {name: text for name, text in texts.items() if text is not None}
    if memory.exposed:
        value['exposed'] = True
    if memory.ways:
        value['ways'] = encode(tuple(sorted(memory.ways)))
    if memory.taken is not None:
        value['taken'] = encode(memory.taken)
    value['proven'] = encode(memory.proven)
    if memory.ending:
        value['ending'] = True
    if memory.handed_over and (memory.waivers or memory.overrides):
        value['rights'] = True
    if memory.start_allowed is not None:
        value['start_allowed'] = encode(memory.start_allowed)
    if memory.custody != NO_CUSTODY:
        value['custody'] = _pack(json.dumps(encode(memory.custody)))
    if memory.untended:
        value['untended'] = encode(memory.untended)
    if memory.verdict is not None:
        value['verdict'] = encode(memory.verdict)
    if memory.denied:
        value['denied'] = {'devices': [str(d.accelerator) for d in memory.denied], 'why': _short(memory.denied)}
    if memory.owned or memory.leased:
        value['met'] = [name for name, is_so in (('owned', memory.owned), ('leased', memory.leased)) if is_so]
    if memory.certificate is not None:
        value['certificate'] = encode(memory.certificate)
    if memory.shelf != Withdrawals():
        value['shelf'] = encode(memory.shelf)
    if memory.attached is not None:
        value['attached'] = _short(memory.attached)
    if memory.drift is not None:
        value['drift'] = encode(memory.drift)
    if memory.seen is not None:
        value['seen'] = memory.seen
    if memory.regions is not None:
        known = regions.document(memory.regions)
        if known is not None:
            value['regions'] = known
        else:
            LOG.warning('Node %s has more regions than can be stored, so no pool counts them', node.uuid)
    size = len(json.dumps(value))
    if size > LIMIT_BYTES and value.pop('seen', None) is not None:
        LOG.warning(
            'Node %s: its last inventory is dropped, since the job needs the space; the next read reports no drift', node.uuid
        )
        size = len(json.dumps(value))
    if size > LIMIT_BYTES and value.pop('regions', None) is not None:
        LOG.warning(
            'Node %s: its record of regions is dropped, since the job needs the space; no pool counts them until its cards '
            'are read',
            node.uuid,
        )
        size = len(json.dumps(value))
    if size > LIMIT_BYTES and memory.certificate is not None and memory.certificate.where:
        LOG.warning(
            'Node %s: its certificate is stored only at %s, since the job needs the space',
            node.uuid,
            ', '.join(memory.certificate.where),
        )
        value['certificate'] = encode(replace(memory.certificate, packed=None))
        size = len(json.dumps(value))
    if size > LIMIT_BYTES:
        raise AccError(
            f'node {node.uuid}: the job needs {size} bytes of {PLACE}, at most {LIMIT_BYTES} are allowed',
            hint="work on fewer devices at a time, by a step with the argument 'devices', such as update_accelerator_firmware",
        )
    node.set_driver_internal_info(KEY, value)
    node.save()


def held(node: Any) -> None:
    """Check that this conductor still holds the node's lock, right before something is written.

    A conductor that stalled for longer than ``[conductor] heartbeat_timeout`` counts as gone: Ironic gives its nodes to another
    one, and does not notify it. So its work may be long over, and another conductor may work on the node.

    :raises NodeLocked: another conductor has taken the node over, whether or not the lock is free again.
    :raises NodeNotFound: the node was deleted.
    """
    if node.reservation is None:
        return
    # Reading two columns takes 5 ms on a busy machine, the whole node 20 ms; a turn does so some ten times.
    found = node.dbapi.get_nodeinfo_list(columns=['reservation', 'driver_internal_info'], filters={'uuid': node.uuid}, limit=1)
    if not found:
        raise exception.NodeNotFound(node=node.uuid)
    [(reservation, info)] = found
    if reservation != node.reservation or _ours(info) != _ours(node.driver_internal_info):
        raise exception.NodeLocked(node=node.uuid, host=reservation or 'another conductor')


def _ours(driver_internal_info: Any) -> Any:
    """Our key in the form in which the database returns it."""
    return json.loads(json.dumps((driver_internal_info or {}).get(KEY)))


def _part(driver_internal_info: Any) -> Mapping[str, Any]:
    stored = (driver_internal_info or {}).get(KEY)
    return stored if isinstance(stored, dict) else {}


def known(driver_internal_info: Any) -> bool:
    """Whether anything is stored of a node; cheap, for periodics."""
    return KEY in (driver_internal_info or {})


def busy(driver_internal_info: Any) -> bool:
    """Whether a job is stored; cheap, for the predicates of periodics."""
    return bool(_part(driver_internal_info).get('busy'))


def proven(driver_internal_info: Any) -> bool:
    """Whether locks were proven closed for a deployment; cheap, for periodics."""
    return _proven(_part(driver_internal_info)) is not None


def ending(driver_internal_info: Any) -> bool:
    """Whether an undeploy of the node has begun since it was handed over; cheap, for periodics."""
    return _part(driver_internal_info).get('ending') is True


def of_deployment(driver_internal_info: Any) -> bool:
    """Whether a proof, a certificate, a waiver or a requested function of a deployment is stored; cheap, for periodics."""
    return _part(driver_internal_info).get('rights') is True or proven(driver_internal_info) or certified(driver_internal_info)


def certified(driver_internal_info: Any) -> bool:
    """Whether a certificate is stored that was not superseded; cheap, for periodics."""
    kept = _part(driver_internal_info).get('certificate')
    return isinstance(kept, dict) and not kept.get('superseded')


def exposed(driver_internal_info: Any) -> bool:
    """Whether somebody may have written a card of a node since it was cleaned; cheap, for periodics."""
    return _part(driver_internal_info).get('exposed') is True


def projects_met(driver_internal_info: Any) -> frozenset[str]:
    """Whether the node is known to have had an owner (``owned``), or a lessee (``leased``); cheap, for periodics."""
    return frozenset(_part(driver_internal_info).get('met') or ())


def withdrawn(driver_internal_info: Any) -> tuple[bool, bool]:
    """Whether we have withdrawn the node from placement, and whether that is doubtful; cheap, for periodics."""
    shelf = _part(driver_internal_info).get('shelf')
    known = shelf.get('withdrawn') if isinstance(shelf, dict) else None
    return (True, bool(known.get('doubtful'))) if isinstance(known, dict) else (False, False)


def denied(driver_internal_info: Any) -> frozenset[str]:
    """Return the devices that are withheld from placement because of the deny list; cheap, for periodics."""
    known = _part(driver_internal_info).get('denied')
    devices = known.get('devices') if isinstance(known, dict) else None
    return frozenset(map(str, devices)) if isinstance(devices, list) else frozenset()


def packed_seen(driver_internal_info: Any) -> str | None:
    """Return the packed inventory of the last read, for :func:`unpacked`; None if there is none; cheap, for periodics."""
    seen = _part(driver_internal_info).get('seen')
    return seen if isinstance(seen, str) else None


def unpacked(node_uuid: str, packed: str) -> Inventory:
    """Return a packed inventory.

    :raises StaleJob: this version cannot read it.
    """
    return decode(Inventory, _unpack(node_uuid, packed))


def unwatched(driver_internal_info: Any) -> bool:
    """Whether the watch has not read the node since it was handed over; cheap, for periodics."""
    stored = _part(driver_internal_info)
    return stored.get('watched') is None or stored['watched'] != stored.get('lifecycle')


def given(driver_internal_info: Any) -> bool:
    """Whether it is stored how the node was handed over, until that is compared; cheap, for periodics."""
    return _part(driver_internal_info).get('handed') is not None


def packed_look(node: Any, look: Inventory) -> str | None:
    """Pack the inventory that the next read is compared with, for :attr:`NodeState.seen`; None if it is too large."""
    text = _pack(json.dumps(encode(look)))
    if len(text) <= SEEN_BYTES:
        return text
    LOG.warning(
        'Node %s: its inventory needs %s bytes, at most %s are stored: drift of this node is not reported',
        node.uuid,
        len(text),
        SEEN_BYTES,
    )
    return None


def last_look(node: Any, memory: NodeState) -> Inventory | None:
    """Return the inventory that the next read is compared with; None if there is none, or none that this version can read."""
    if memory.seen is None:
        return None
    try:
        return decode(Inventory, _unpack(node, memory.seen))
    except StaleJob as exc:
        LOG.warning('Node %s: its last inventory cannot be read, so no drift is reported now: %s', node.uuid, exc)
        return None


def handed_over(node: Any, memory: NodeState) -> Inventory | None:
    """Return how a node was handed over; None if that is not stored, or this version cannot read it."""
    if memory.handed is None:
        return None
    try:
        return decode(Inventory, _unpack(node, memory.handed))
    except StaleJob as exc:
        LOG.warning('Node %s: the record of its hand-over cannot be read: %s', node.uuid, exc)
        return None


def _short(known: Attached | tuple[WithheldDevice, ...]) -> Any:
    """Encode readably for people; compressed where it is long."""
    value = encode(known)
    plain = json.dumps(value)
    return value if len(plain) <= _ATTACHED_BYTES else _pack(plain)


def _pack(plain: str) -> str:
    return base64.b64encode(zlib.compress(plain.encode(), 9)).decode()


def _unpack(node: Any | str, packed: object) -> object:
    try:
        unpacker = zlib.decompressobj()
        data = unpacker.decompress(base64.b64decode(str(packed), validate=True), _UNPACKED_BYTES)
        if not unpacker.eof:
            raise ValueError('too long, or truncated')
        return json.loads(data)
    except (ValueError, zlib.error) as exc:
        uuid = node if isinstance(node, str) else node.uuid
        raise StaleJob(f'node {uuid}: {PLACE} cannot be read: {exc}', hint=_HINT) from exc
