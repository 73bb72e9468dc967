# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Load and store the plugin's state of a node: the only module that touches our key of ``driver_internal_info``.

The key holds ``{"format": 1, "lifecycle": N, "busy": true or false, "state": {...}}``. A large state is compressed, since all
of ``driver_internal_info`` has 64 KiB on MySQL and shares them with Ironic's own step lists: then ``packed`` replaces
``state``.

Other keys are stored next to it. ``drift`` (reported last), ``certificate`` (issued last) and ``attached`` (what an instance
has got) stay readable for people. ``ways``, ``taken``, ``ramdisk``, ``bmcs``, ``met``, ``proven``, ``start_allowed``,
``untended``, ``shelf`` and ``regions`` are outside of the state so that older versions of this package ignore them; ``regions``
is also read by pools (:mod:`baremetal_acc.scheduling.regions`). ``seen``, always compressed, is the inventory that the next
read is compared with, and ``handed`` is how the node was handed over. Full inventories do not belong here: they are in Ironic's
inspection store, where others write, too.
"""

import base64
import json
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, ClassVar

from ironic.common import exception
from oslo_log import log

from baremetal_acc.errors import AccError, StaleJob
from baremetal_acc.execution.lifecycle import Remembered
from baremetal_acc.model.attach import Attached
from baremetal_acc.model.codec import decode, encode
from baremetal_acc.model.custody import NO_CUSTODY, BreakCause, Custody
from baremetal_acc.model.inventory import Inventory
from baremetal_acc.model.job import Flow, HeldOff
from baremetal_acc.model.lock import Engagement, LockUndoRecord, Scope, Way
from baremetal_acc.model.ref import AcceleratorId, Ref
from baremetal_acc.model.waiver import Waiver
from baremetal_acc.model.watched_resource import WatchedResource
from baremetal_acc.planning import custody
from baremetal_acc.planning.watch import Alarm
from baremetal_acc.policy.baseline import Exposure
from baremetal_acc.scheduling import regions
from baremetal_acc.scheduling.regions import Regions
from baremetal_acc.scheduling.schedulable import Place, slots
from baremetal_acc_ironic.authorization.requester import RequestContext

LOG = log.getLogger(__name__)

KEY = 'baremetal_acc'
FORMAT = 1

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
    'regions',
    'shelf',
    'attached',
    'proven',
    'start_allowed',
    'custody',
    'untended',
)
"""Fields of :class:`NodeState` that are stored next to the state, where older versions ignore them."""

SEEN_BYTES = 16 * 1024
"""Limit of the packed inventory that the next read is compared with. Measured: 16 GPUs with roots of trust and locks need 3.5
KiB, the recorded machine with 8 of them 2.3 KiB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A mark: locks are open, or may be. It fails every verification until all locks are engaged again.

    :ivar since: when they were opened, or found open.
    :ivar why: who has opened them, or which failure.
    :ivar held_off: the hosts that were left off with these locks open, as they were when they were read as off.
    :ivar accelerators: the cards that were not known to be locked then.
    :ivar found: no step has opened the locks; a step that wanted them closed has found them open.
    :ivar started: the operator's ramdisk ran on the host, or an operator allowed its start, and the host was not read as off
        since.
    """

    since: datetime
    why: str
    held_off: tuple[HeldOff, ...] = ()
    accelerators: frozenset[AcceleratorId] = frozenset()
    found: bool = False
    started: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Override:
    """Functions that a program step asked for; they come before the baseline's until the node comes back.

    :ivar functions: pairs of a pattern over SlotIds and a function, in order of precedence, the baseline's own among them.
    """

    device: AcceleratorId
    functions: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Granted:
    """A waiver that a step has given for the node; it holds until the node comes back, and no longer than it says itself.

    :ivar devices: the devices that it is for; empty: all of the node.
    """

    waiver: Waiver
    since: datetime
    devices: frozenset[AcceleratorId] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedState:
    """The drift that was reported last.

    :ivar since: when the inventory read began that this one was compared with.
    :ivar by: the step that read, or ``inspection``.
    :ivar more: how many changes there were besides these.
    """

    STORED_NAME: ClassVar = 'Told'

    at: datetime
    since: datetime
    by: str
    changes: tuple[str, ...]
    more: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """What the watch knows of a deployed node.

    :ivar lifecycle: lifecycle of the node that this is about; in any other it does not count.
    :ivar looked: when the last full inventory read began; None: there was none yet, so the first one is still due.
    :ivar witnesses: the resources that a round rereads; none while there are alarms, for then each round reads everything.
    :ivar alarms: what is not as it was handed over.
    """

    lifecycle: int
    looked: datetime | None
    witnesses: tuple[WatchedResource, ...] = ()
    alarms: tuple[Alarm, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptInventory:
    """A hand-over certificate of the node, and where else it is stored.

    :ivar lifecycle: of the node while it is handed over, as of :attr:`NodeState.lifecycle`.
    :ivar name: of the node when the certificate was issued.
    :ivar key: name of the key that it is signed with; ``digest`` is that of the signed bytes.
    :ivar where: the other places where it is stored.
    :ivar packed: the signed bytes, compressed and in base64; None where only the other places have them.
    :ivar superseded: the node has come back since; ``away``: the other places are marked so, too.
    """

    STORED_NAME: ClassVar = 'Kept'

    lifecycle: int
    deployment: str
    name: str
    issued: datetime
    key: str
    digest: str
    where: tuple[str, ...]
    packed: str | None
    superseded: bool = False
    away: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Withdrawn:
    """Nothing of a node is available in placement; what is claimed of it is wholly reserved.

    :ivar doubtful: publishing it again had begun, so that some of it may be available.
    """

    since: datetime
    why: str
    doubtful: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StartAllowed:
    """An operator's permission to start the host of a free node although nothing is proven.

    :ivar by: who has given it, for people.
    :ivar until: when it ends; it ends with the next automated cleaning or deploy at the latest.
    :ivar vouched: the operator answers for what boots; else the next cleaning writes the cards again once the host was started.
    """

    since: datetime
    until: datetime
    by: str
    why: str
    vouched: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Withdrawals:
    """What of a node is withdrawn from placement, and which of its slots a tenant has had.

    :ivar used: slots that a tenant has had, and that were not programmed since.
    :ivar unsorted: a tenant has had the node, and its slots were not read since.
    :ivar withdrawn: None: what is verified is available in placement, or nothing was published yet.
    """

    STORED_NAME: ClassVar = 'Shelf'

    used: frozenset[Place] = frozenset()
    unsorted: bool = False
    withdrawn: Withdrawn | None = None

    def had(self, inventory: Inventory) -> 'Withdrawals':
        """Return it with all slots of an inventory among those that a tenant has had."""
        return replace(self, used=self.used | slots(inventory), unsorted=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeState(Remembered):
    """Our stored state of a node, besides what is stored for every target.

    :ivar lifecycle: raised when the node is handed over and when it comes back; evidence of another value does not count.
    :ivar handed_over: somebody else's code may have run since.
    :ivar asked: who has begun the flow that the node is in, or was in last.
    :ivar job: the one that runs, or that has just ended and whose step has not been left yet.
    :ivar unplanned: the job still waits for the host to be off, or for what a BMC was doing before; its plan is made then.
    :ivar evidence: records of locks that we engaged.
    :ivar opened: the mark that locks are open; None: they are not, as far as we know.
    :ivar overrides: functions that program steps asked for.
    :ivar waivers: those that a step has given until the node comes back.
    :ivar exposure: what rules go by, whatever ``driver_info`` says now; None until an operator has accepted one.
    :ivar resource_class: what rules go by, whatever the node shows now; empty: none; None until an operator has accepted one.
    :ivar taken: traits that rules go by besides ours, whatever the node shows now; None until an operator has accepted them.
    :ivar ramdisk: digest of what ``driver_info`` said of Ironic's ramdisk when an operator accepted it last; None: never.
    :ivar bmcs: the same of the addresses of the node's BMCs.
    :ivar owned: a flow or periodic of ours has met the node with an owner; ``leased``: with a lessee.
    :ivar digest: of the last inventory that was stored.
    :ivar looked: when Ironic's own tables were last updated to the cards.
    :ivar traits: those of the node that we set, and may remove again.
    :ivar certificate: the last one that was issued.
    :ivar seen: the inventory that the next read is compared with, packed (:func:`last_look` unpacks it).
    :ivar drift: the drift that was reported last.
    :ivar unseen: digest of what the last read could not see, so that it is reported once.
    :ivar handed: how the node was handed over, packed (:func:`handed_over` unpacks it), until it has come back and was
        compared.
    :ivar watched: what the watch knows; None before its first read after the hand-over.
    :ivar exposed: devices whose locks were open, or that were written, while the node was deployed, or that somebody else may
        have written during a job: they are written again, whatever they report, or not used.
    :ivar anew: what cleaning writes whatever it reports: these, and devices that were handed over open and have images. It
        lasts until the whole path has written them, however often the node is handed over meanwhile.
    :ivar regions: what the node's slots were found to hold, and can be given; None: it has none, or was not read yet.
    :ivar shelf: what of it is withdrawn from placement, and which slots a tenant has had.
    :ivar attached: accelerators that an instance has got, or was to get, until cleaning has restored them.
    :ivar undos: what we have locked, for the step that unlocks. While there is a job, the job's record counts.
    :ivar proven: when the locks that the rules demand were last proven closed for the present deployment of the node; None:
        they were not, and nothing of Ironic starts the host for whoever has the node.
    :ivar start_allowed: an operator has allowed the host to be started all the same.
    :ivar custody: of its cards, as far as it reaches. While there is a job, the job's record counts.
    :ivar untended: alarms of an unused node, until a watch round finds them over.
    """

    STORED_NAME: ClassVar = 'Memory'

    format: int = FORMAT
    handed_over: bool = False
    asked: RequestContext | None = None
    unplanned: bool = False
    evidence: tuple[Engagement, ...] = ()
    opened: Opened | None = None
    overrides: tuple[Override, ...] = ()
    waivers: tuple[Granted, ...] = ()
    exposure: Exposure | None = None
    resource_class: str | None = None
    taken: frozenset[str] | None = None
    ramdisk: str | None = None
    bmcs: str | None = None
    owned: bool = False
    leased: bool = False
    digest: str | None = None
    looked: datetime | None = None
    traits: frozenset[str] = frozenset()
    certificate: KeptInventory | None = None
    seen: str | None = None
    drift: ReportedState | None = None
    unseen: str | None = None
    handed: str | None = None
    watched: Watched | None = None
    exposed: frozenset[AcceleratorId] = frozenset()
    regions: Regions | None = None
    shelf: Withdrawals = Withdrawals()
    attached: Attached | None = None
    undos: tuple[LockUndoRecord, ...] = ()
    proven: datetime | None = None
    start_allowed: StartAllowed | None = None
    custody: Custody = NO_CUSTODY
    untended: tuple[Alarm, ...] = ()

    @property
    def writing(self) -> bool:
        """Whether a job is between its first write and its end."""
        return self.job is not None and self.job.writing

    def came_back(self) -> 'NodeState':
        """Return the state of a node that has come back: nothing that was proven or asked for before counts any more."""
        return replace(
            self,
            lifecycle=self.lifecycle + 1,
            handed_over=False,
            evidence=(),
            overrides=(),
            waivers=(),
            watched=None,
            proven=None,
            shelf=replace(self.shelf, unsorted=True),
        )

    def given_away(self, now: datetime) -> 'NodeState':
        """Return the state of a node that is handed over: what was proven for it counts for no other deployment."""
        return replace(self, lifecycle=self.lifecycle + 1, handed_over=True, watched=None, proven=now, start_allowed=None)

    def proven_by(self, engagements: Iterable[Engagement]) -> 'NodeState':
        """Return the state with further evidence; a newer record of a place replaces an older one of the same card.

        Several cards may share one place, such as a root of trust, and each of them needs a record of its own.
        """
        new = tuple(engagements)
        places = {_proves(e) for e in new}
        return replace(self, evidence=(*(e for e in self.evidence if _proves(e) not in places), *new))

    def with_custody(self, kept: Custody) -> 'NodeState':
        """Return the state with this custody of its cards; a job that has not ended holds it, too, and its copy is stored."""
        job = self.job
        return replace(self, custody=kept, job=job if job is None or job.ended else replace(job, custody=kept))

    def without_evidence_of(self, flow: Flow) -> 'NodeState':
        """Return the state without what was engaged in one flow."""
        return replace(self, evidence=tuple(e for e in self.evidence if e.flow != flow))


def _proves(e: Engagement) -> tuple[tuple[str, Ref, str], AcceleratorId | None]:
    """What a lock record is about. A lock of a whole machine is engaged once for all of its cards."""
    return (e.place, None if e.scope is Scope.BMC else e.accelerator)


def load(node: Any) -> NodeState:
    """Load the state of a node; an empty one if nothing is stored.

    :raises StaleJob: the key cannot be read: another version of this package wrote it, or somebody changed it.
    """
    stored = (node.driver_internal_info or {}).get(KEY)
    if stored is None:
        return NodeState()
    if not isinstance(stored, dict) or stored.get('format') != FORMAT:
        raise StaleJob(
            f'node {node.uuid}: {PLACE} has another format than {FORMAT}',
            hint='finish the job with the version of baremetal-acc that began it, or remove the key and clean the node',
        )
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
        ramdisk=stored.get('ramdisk'),
        bmcs=stored.get('bmcs'),
        owned='owned' in met,
        leased='leased' in met,
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
        LOG.warning('Node %s: no pool counts its regions until they are looked at again: %s', node.uuid, exc)
        return None


def _custody(node: Any, packed: object) -> Custody:
    """Read the custody of the node's cards. If it cannot be read there is none: every card is written again."""
    if packed is None:
        return NO_CUSTODY
    try:
        return decode(Custody, _unpack(node, packed))
    except StaleJob as exc:
        LOG.warning('Node %s: the custody of its cards is lost: %s', node.uuid, exc)
        return NO_CUSTODY


def _untended(node: Any, stored: object) -> tuple[Alarm, ...]:
    """Read the alarms of an unused node. If they cannot be read they are reported again."""
    if stored is None:
        return ()
    try:
        return decode(tuple[Alarm, ...], stored)
    except StaleJob as exc:
        LOG.warning('Node %s: its alarms are told again: %s', node.uuid, exc)
        return ()


def store(node: Any, memory: NodeState) -> None:
    """Put the state into the node's fields and save the node.

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
    if memory.handed is not None:
        value['handed'] = memory.handed
    if memory.exposed:
        value['exposed'] = True
    if memory.ways:
        value['ways'] = encode(tuple(sorted(memory.ways)))
    if memory.taken is not None:
        value['taken'] = encode(memory.taken)
    value['proven'] = encode(memory.proven)
    if memory.start_allowed is not None:
        value['start_allowed'] = encode(memory.start_allowed)
    if memory.custody != NO_CUSTODY:
        value['custody'] = _pack(json.dumps(encode(memory.custody)))
    if memory.untended:
        value['untended'] = encode(memory.untended)
    if memory.ramdisk is not None:
        value['ramdisk'] = memory.ramdisk
    if memory.bmcs is not None:
        value['bmcs'] = memory.bmcs
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
            LOG.warning('Node %s: it has more regions than can be remembered, so that no pool counts them', node.uuid)
    size = len(json.dumps(value))
    if size > LIMIT_BYTES and value.pop('seen', None) is not None:
        LOG.warning('Node %s: what was last seen of its accelerators is dropped, for the job needs the room', node.uuid)
        size = len(json.dumps(value))
    if size > LIMIT_BYTES and value.pop('regions', None) is not None:
        LOG.warning('Node %s: no pool counts its regions until they are looked at again: the job needs the room', node.uuid)
        size = len(json.dumps(value))
    if size > LIMIT_BYTES and memory.certificate is not None and memory.certificate.where:
        LOG.warning('Node %s: its certificate is kept elsewhere only, for the job needs the room', node.uuid)
        value['certificate'] = encode(replace(memory.certificate, packed=None))
        size = len(json.dumps(value))
    if size > LIMIT_BYTES:
        raise AccError(
            f'node {node.uuid}: the job needs {size} bytes of {PLACE}, {LIMIT_BYTES} are allowed',
            hint="give the step fewer devices (argument 'devices')",
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
        raise exception.NodeLocked(node=node.uuid, host=reservation or 'another conductor, meanwhile')


def _ours(driver_internal_info: Any) -> Any:
    """Our key in the form in which the database returns it."""
    return json.loads(json.dumps((driver_internal_info or {}).get(KEY)))


def settled_before(state: NodeState) -> bool:
    """Whether an earlier version, which accepted no traits, has run a step on the node.

    The first step has always accepted the class.
    """
    return state.taken is None and state.resource_class is not None


def known(driver_internal_info: Any) -> bool:
    """Whether anything is stored of a node; cheap, for periodics."""
    return KEY in (driver_internal_info or {})


def busy(driver_internal_info: Any) -> bool:
    """Whether a job is stored; cheap, for the predicates of periodics."""
    stored = (driver_internal_info or {}).get(KEY)
    return isinstance(stored, dict) and bool(stored.get('busy'))


def proven(driver_internal_info: Any) -> bool:
    """Whether locks were proven closed for a deployment; cheap, for periodics."""
    stored = (driver_internal_info or {}).get(KEY)
    return isinstance(stored, dict) and _proven(stored) is not None


def certified(driver_internal_info: Any) -> bool:
    """Whether a certificate is stored that was not superseded; cheap, for periodics."""
    stored = (driver_internal_info or {}).get(KEY)
    kept = stored.get('certificate') if isinstance(stored, dict) else None
    return isinstance(kept, dict) and not kept.get('superseded')


def exposed(driver_internal_info: Any) -> bool:
    """Whether somebody may have written a card of a node since it was cleaned; cheap, for periodics."""
    stored = (driver_internal_info or {}).get(KEY)
    return isinstance(stored, dict) and stored.get('exposed') is True


def projects_met(driver_internal_info: Any) -> frozenset[str]:
    """Whether the node is known to have had an owner (``owned``), or a lessee (``leased``); cheap, for periodics."""
    stored = (driver_internal_info or {}).get(KEY)
    found = stored.get('met') if isinstance(stored, dict) else None
    return frozenset(found) if isinstance(found, list) else frozenset()


def withdrawn(driver_internal_info: Any) -> tuple[bool, bool]:
    """Whether we have withdrawn the node from placement, and whether that is doubtful; cheap, for periodics."""
    stored = (driver_internal_info or {}).get(KEY)
    shelf = stored.get('shelf') if isinstance(stored, dict) else None
    known = shelf.get('withdrawn') if isinstance(shelf, dict) else None
    return isinstance(known, dict), isinstance(known, dict) and bool(known.get('doubtful'))


def unwatched(driver_internal_info: Any) -> bool:
    """Whether the watch has not read the node since it was handed over; cheap, for periodics."""
    stored = (driver_internal_info or {}).get(KEY)
    return not isinstance(stored, dict) or stored.get('watched') is None or stored['watched'] != stored.get('lifecycle')


def given(driver_internal_info: Any) -> bool:
    """Whether it is stored how the node was handed over, until that is compared; cheap, for periodics."""
    stored = (driver_internal_info or {}).get(KEY)
    return isinstance(stored, dict) and stored.get('handed') is not None


def packed_look(node: Any, look: Inventory) -> str | None:
    """Pack the inventory that the next read is compared with, for :attr:`NodeState.seen`; None if it is too large."""
    text = _pack(json.dumps(encode(look)))
    if len(text) <= SEEN_BYTES:
        return text
    LOG.warning(
        'Node %s: its accelerators need %s bytes to be remembered, %s are allowed: drift is not told of this node',
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
        LOG.warning('Node %s: what was last seen of its accelerators is lost, so no drift is told now: %s', node.uuid, exc)
        return None


def handed_over(node: Any, memory: NodeState) -> Inventory | None:
    """Return how a node was handed over; None if that is not stored, or this version cannot read it."""
    if memory.handed is None:
        return None
    try:
        return decode(Inventory, _unpack(node, memory.handed))
    except StaleJob as exc:
        LOG.warning('Node %s: how it was handed over cannot be read: %s', node.uuid, exc)
        return None


def _short(attached: Attached) -> Any:
    """Encode an attachment readably for people; compressed where it is long."""
    value = encode(attached)
    plain = json.dumps(value)
    return value if len(plain) <= _ATTACHED_BYTES else _pack(plain)


def _pack(plain: str) -> str:
    return base64.b64encode(zlib.compress(plain.encode(), 9)).decode()


def _unpack(node: Any, packed: object) -> object:
    try:
        unpacker = zlib.decompressobj()
        data = unpacker.decompress(base64.b64decode(str(packed), validate=True), _UNPACKED_BYTES)
        if not unpacker.eof:
            raise ValueError('too long, or cut')
        return json.loads(data)
    except (ValueError, zlib.error) as exc:
        raise StaleJob(f'node {node.uuid}: {PLACE} cannot be read: {exc}') from exc
