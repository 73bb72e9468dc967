# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Periodic: withdraw from placement the accelerators that run what the deny list of the catalogue means, within a minute.

The file of the catalogue is examined by ``stat`` in each round. When it has changed, and once in a while besides, a worker
compares the stored inventories of this conductor's nodes with the deny list: no BMC is asked. The withdrawal has two parts. A
sweep (:mod:`baremetal_acc.placement.provider_sweep`) first empties the providers of all nodes that are affected, in few
requests and without their locks. Then each node is settled under its lock: what a consumer holds is reserved, the devices are
stored with the node, and the node's history, the log and a notification say why. No later publication offers them, since a
verification finds the same denial.

Once the deny list does not mean a device any more, or the node's last inventory shows other firmware, what the last inventory
verifies is published again from that stored inventory. Where it does not suffice, the node is read again first
(:mod:`baremetal_acc_ironic.periodics.availability`). The root provider, which is Nova's, is never written.
"""

import threading
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from typing import Any
from weakref import WeakKeyDictionary

from ironic.common import exception, metrics_utils
from ironic.conductor import task_manager
from oslo_log import log

from baremetal_acc import bootstrap, execution
from baremetal_acc.errors import AccError, InventoryInUse, PlacementError, StaleJob
from baremetal_acc.model.image import Image
from baremetal_acc.model.inventory import Inventory
from baremetal_acc.model.ref import AcceleratorId
from baremetal_acc.placement.provider_sweep import SweepReadings
from baremetal_acc.planning import remembered_inventory
from baremetal_acc.render import denied as words
from baremetal_acc.scheduling import denied_devices
from baremetal_acc.scheduling.denied_devices import DeniedDevice, WithheldDevice
from baremetal_acc.scheduling.node_availability import AVAILABLE, unfit
from baremetal_acc.scheduling.schedulable import supply
from baremetal_acc_ironic import opts, placement, settings
from baremetal_acc_ironic.periodics import availability
from baremetal_acc_ironic.placement_setup import state_of_files
from baremetal_acc_ironic.reporting import denial, record
from baremetal_acc_ironic.state import node_store, provision_state
from baremetal_acc_ironic.state.node_state import NodeState, Withdrawn
from baremetal_acc_ironic.state.target import target as target_of
from baremetal_acc_ironic.steps.job_context import tools as tools_of

LOG = log.getLogger(__name__)
METRICS = metrics_utils.get_metrics_logger(__name__)

RESCAN = 60.0
"""Seconds after which the stored inventories are compared although the catalogue is unchanged: a node was read again, or has
come from another conductor."""

NODES_AT_A_TIME = 50
"""Nodes whose providers are emptied together."""

SWEEPERS = 4
"""Threads that ask placement in a sweep. More gain nothing where placement has as few processes."""

LANES = 4
"""Workers of Ironic that settle nodes at the same time."""

_FIELDS = ('firmware_interface', 'driver_internal_info')


@dataclass(frozen=True, slots=True, kw_only=True)
class ScannedNode:
    """What a scan has found of one node.

    :ivar seen: its stored inventory, packed, as the node's fields hold it.
    :ivar denied: the devices that run what is denied; None where the inventory could not be read.
    """

    seen: str | None
    denied: frozenset[AcceleratorId] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClosedNode:
    """A node whose denied devices a sweep has withdrawn.

    :ivar seen: its stored inventory then. Whatever publishes the node stores a new one.
    """

    seen: str | None
    devices: frozenset[AcceleratorId]


@dataclass(slots=True)
class DenyListRounds:
    """What one conductor keeps in memory about its deny list.

    :ivar files: the state of the catalogue's file when it was last read.
    :ivar images: the denied images; None until a catalogue was read.
    :ivar error: why the catalogue could not be read last.
    :ivar due: when the next scan is due, by the monotonic clock.
    :ivar scanned: the nodes of the last scan.
    :ivar closed: nodes that a sweep has withdrawn, and that are not settled yet.
    :ivar waiting: nodes to be settled, in this order.
    :ivar late: why a node could not be settled last.
    :ivar scanning: held while a worker scans. ``lanes``: how many workers settle nodes. ``guard``: held while ``waiting`` or
        ``lanes`` is read or changed.
    """

    files: object = None
    images: tuple[Image, ...] | None = None
    error: str | None = None
    due: float = 0.0
    scanned: dict[str, ScannedNode] = field(default_factory=dict)
    closed: dict[str, ClosedNode] = field(default_factory=dict)
    waiting: dict[str, None] = field(default_factory=dict)
    late: dict[str, str] = field(default_factory=dict)
    scanning: threading.Lock = field(default_factory=threading.Lock)
    guard: threading.Lock = field(default_factory=threading.Lock)
    lanes: int = 0


_CONDUCTORS: 'WeakKeyDictionary[Any, DenyListRounds]' = WeakKeyDictionary()


def rounds_of(manager: Any) -> DenyListRounds:
    """Return the rounds of one conductor."""
    return _CONDUCTORS.setdefault(manager, DenyListRounds())


def tick() -> float:
    """Return the seconds between two rounds."""
    return settings.guest().deny_list_interval.total_seconds() or 60.0


def on() -> bool:
    """Whether the periodic is enabled: publishing is on, and its interval is not 0."""
    return placement.is_wanted() and bool(settings.guest().deny_list_interval)


def hand_out(manager: Any, context: Any) -> None:
    """Begin what is due, in workers. This examines the file of the catalogue, and asks nothing else."""
    if not on():
        return
    rounds = rounds_of(manager)
    is_changed = rounds.error is not None or state_of_files(settings.core().catalogue) != rounds.files
    if (is_changed or time.monotonic() >= rounds.due) and rounds.scanning.acquire(blocking=False):
        _spawn(manager, _scan, rounds.scanning.release, manager, rounds)
    if rounds.scanning.locked():
        return  # what can still be allocated comes first
    with rounds.guard:
        wanted = min(LANES, len(rounds.waiting)) - rounds.lanes
        rounds.lanes += max(0, wanted)
    for _ in range(wanted):
        _spawn(manager, _settle_all, partial(_lane_ends, rounds), manager, context, rounds)


def _spawn(manager: Any, work: Any, ends: Any, *arguments: Any) -> None:
    """Let a worker do something; ``ends`` is called afterwards, and where there is no worker."""

    def run() -> None:
        try:
            work(*arguments)
        finally:
            ends()

    try:
        manager._spawn_worker(run, _allow_reserved_pool=False)
    except exception.NoFreeConductorWorker:
        ends()
        LOG.warning('No worker of Ironic is free for the deny list of the catalogue: the next round retries')


def _lane_ends(rounds: DenyListRounds) -> None:
    with rounds.guard:
        rounds.lanes -= 1


# ------------------------------------------------------------------------------------------------------------- all nodes


def _scan(manager: Any, rounds: DenyListRounds) -> None:
    """Read the catalogue, compare all nodes with its deny list, and empty the providers of what is newly denied."""
    try:
        before = rounds.images
        images = _images(rounds)
        if images is None or (images == before and time.monotonic() < rounds.due):
            return
        rounds.due = time.monotonic() + RESCAN
        with ThreadPoolExecutor(SWEEPERS, thread_name_prefix='deny-list') as pool:
            denied = _newly_denied(manager, rounds, images)
            sweeps, known = [], SweepReadings()
            while part := tuple(islice(denied, NODES_AT_A_TIME)):
                sweeps.append(pool.submit(_sweep, rounds, part, known))
            for one in sweeps:
                one.result()
    except Exception:
        LOG.exception('The deny list of the catalogue could not be applied: the next round retries')
        rounds.due = 0.0


def _images(rounds: DenyListRounds) -> tuple[Image, ...] | None:
    """Return the denied images; where the catalogue cannot be read, those of the last one that could; None if none could."""
    files = state_of_files(settings.core().catalogue)
    try:
        settings.check_names()
        known = settings.core()
        loaded = bootstrap.catalogue(known, bootstrap.trusting(known), datetime.now(UTC))
    except AccError as exc:
        if str(exc) != rounds.error:
            kept = 'no deny list is in force' if rounds.images is None else 'the last deny list stays in force'
            LOG.error('The catalogue cannot be used, so that %s, and no new entry of it is: %s', kept, exc)
            METRICS.send_counter(METRICS.get_metric_name('baremetal_acc.alarms.catalogue'), 1)
        rounds.error = str(exc)
        return rounds.images
    if rounds.error is not None:
        LOG.info('The catalogue can be used again')
    rounds.error = None
    images = denied_devices.denied_images(loaded.catalogue.images)
    if images != rounds.images:
        LOG.info('The deny list of %s means %d of its images', loaded.catalogue.path, len(images))
        rounds.scanned = {}
    rounds.files, rounds.images = files, images
    return images


def _newly_denied(manager: Any, rounds: DenyListRounds, images: tuple[Image, ...]) -> Iterator['_Denied']:
    """Yield the nodes on which devices are newly denied and may be available; all that have to be settled wait for it."""
    before, rounds.scanned = rounds.scanned, {}
    for uuid, _driver, _group, name, info in list(manager.iter_nodes(fields=list(_FIELDS))):
        if name not in opts.HARDWARE_TYPES or not node_store.known(info):
            continue
        try:
            found, inventory = _compared(uuid, info, before.get(uuid), images)
            rounds.scanned[uuid] = found
            marked = node_store.denied(info)
            # Where the node holds no inventory, Ironic's inspection store may have one.
            is_same = found == before.get(uuid) if found.denied is None else found.denied == marked
            if is_same and uuid not in rounds.closed:
                continue
            with rounds.guard:
                rounds.waiting.setdefault(uuid, None)
            is_withdrawn, is_doubtful = node_store.withdrawn(info)
            if not found.denied or found.denied <= marked or (is_withdrawn and not is_doubtful):
                continue
            if rounds.closed.get(uuid) == ClosedNode(seen=found.seen, devices=found.denied) or found.seen is None:
                continue
            inventory = inventory or node_store.unpacked(uuid, found.seen)
            providers = denied_devices.offering(inventory, found.denied, uuid)
        except Exception:
            LOG.exception('Node %s: its stored inventory could not be compared with the deny list', uuid)
            continue
        yield _Denied(uuid=uuid, providers=providers, devices=found.denied, seen=found.seen, is_busy=node_store.busy(info))
    for uuid in rounds.closed.keys() - rounds.scanned.keys():
        rounds.closed.pop(uuid, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Denied:
    """A node with devices that are newly denied.

    :ivar providers: UUIDs of the providers that may offer them.
    :ivar is_busy: a job runs, which may have read the catalogue before it was changed, and may publish.
    """

    uuid: str
    providers: frozenset[str]
    devices: frozenset[AcceleratorId]
    seen: str
    is_busy: bool


def _compared(
    uuid: str, info: Any, before: ScannedNode | None, images: tuple[Image, ...]
) -> tuple[ScannedNode, Inventory | None]:
    """Compare the stored inventory of a node, unless that is the one of the last scan."""
    seen = node_store.packed_seen(info)
    if before is not None and before.seen == seen:
        return before, None
    if not images:
        return ScannedNode(seen=seen, denied=frozenset()), None
    if seen is None:
        return ScannedNode(seen=None, denied=None), None
    try:
        inventory = node_store.unpacked(uuid, seen)
    except StaleJob as exc:
        LOG.warning('Node %s: its stored inventory cannot be compared with the deny list: %s', uuid, exc)
        return ScannedNode(seen=seen, denied=None), None
    found = frozenset(d.accelerator for d in denied_devices.denied_devices(inventory, images))
    return ScannedNode(seen=seen, denied=found), inventory


def _sweep(rounds: DenyListRounds, part: tuple[_Denied, ...], known: SweepReadings) -> None:
    """Empty the providers of the denied devices of some nodes. What an operator has reserved of them is noted first."""
    nodes = {one.uuid: one for one in part}
    try:
        found = placement.sweep({one.uuid: one.providers for one in part}, known)
    except PlacementError as exc:
        LOG.warning('The devices that the catalogue denies cannot be withdrawn yet, the next round retries: %s', exc)
        rounds.due = 0.0
        return
    for one in found:
        node = nodes[one.root]
        if one.is_done and not node.is_busy:
            rounds.closed[one.root] = ClosedNode(seen=node.seen, devices=node.devices)
        elif one.kept:
            with rounds.guard:  # a consumer holds a part: what it does not hold is reserved first
                rounds.waiting = {one.root: None} | {u: None for u in rounds.waiting if u != one.root}
    failed = [one for one in found if one.error is not None]
    if failed:
        LOG.warning(
            'Placement does not withdraw the devices that the catalogue denies of %d nodes yet, the next round retries: %s',
            len(failed),
            failed[0].error,
        )
        rounds.due = 0.0


# -------------------------------------------------------------------------------------------------------------- one node


def _settle_all(manager: Any, context: Any, rounds: DenyListRounds) -> None:
    """Settle nodes until none is left, or a scan begins. One that is locked, has a job, or fails is tried in the next round."""
    tried: set[str] = set()
    while not rounds.scanning.locked():
        with rounds.guard:
            uuid = next((u for u in rounds.waiting if u not in tried), None)
            if uuid is None:
                return
            rounds.waiting.pop(uuid)
        tried.add(uuid)
        images = rounds.images
        if images is not None and not _settle(context, uuid, rounds, images):
            with rounds.guard:
                rounds.waiting.setdefault(uuid, None)


def _settle(context: Any, uuid: str, rounds: DenyListRounds, images: tuple[Image, ...]) -> bool:
    """Settle one node; False if it has to be tried again."""
    try:
        with task_manager.acquire(context, uuid, purpose='the deny list of the catalogue', shared=True) as task:
            if task.node.firmware_interface not in opts.HARDWARE_TYPES:
                return True
            if node_store.busy(task.node.driver_internal_info):
                return False
            task.upgrade_lock(retry=False)
            done = settle(task, rounds, images)
    except exception.NodeNotFound:
        return True
    except exception.NodeLocked:
        LOG.debug('Node %s is locked: the deny list is applied to it later', uuid)
        return False
    except Exception as exc:
        if rounds.late.get(uuid) != str(exc):
            is_ours = isinstance(exc, AccError)
            LOG.warning('Node %s: the deny list cannot be applied yet: %s', uuid, exc, exc_info=not is_ours)
        rounds.late[uuid] = str(exc)
        return False
    rounds.late.pop(uuid, None)
    return done


def settle(task: Any, rounds: DenyListRounds, images: tuple[Image, ...]) -> bool:
    """Withdraw or release devices of one node, and store and report that. The task holds the node exclusively.

    :returns: False if a job runs, which has to end first.
    :raises AccError: placement cannot be asked or refuses, or the node's state cannot be read.
    """
    node = task.node
    state = node_store.load(node)
    if state.job is not None:
        return False
    inventory = _last_inventory(task, state)
    if inventory is None and images:
        LOG.warning('Node %s: no inventory of it is stored, so that the deny list cannot be applied to it; clean it', node.uuid)
        return True
    found = () if inventory is None else denied_devices.denied_devices(inventory, images)
    denied, marked = frozenset(d.accelerator for d in found), frozenset(d.accelerator for d in state.denied)
    rounds.scanned[node.uuid] = ScannedNode(seen=state.seen, denied=denied)
    swept = rounds.closed.pop(node.uuid, None)
    closed = frozenset() if swept is None or swept.seen != state.seen else swept.devices
    new, over = denied - marked, (marked | closed) - denied
    if not new and not over:
        return True
    now = datetime.now(UTC)
    shelf = state.shelf.withdrawn
    is_offered = shelf is None or shelf.doubtful
    held = _withdraw(task, denied) if new and is_offered and not denied <= closed else None
    kept = _kept(state, found, now)
    ended = tuple(d for d in state.denied if d.accelerator in over)
    state = replace(state, denied=kept)
    is_fit = is_offered and node.provision_state == AVAILABLE and unfit(availability.standing_of(node)) is None
    is_shared = bool(new) and inventory is not None and denied_devices.counted_with(inventory, denied, node.uuid)
    published = False
    if is_fit and (over or is_shared):
        published = _publish(task, state, denied)
        if not published and availability.on():
            why = 'the deny list has changed what may be available of it'
            state = availability.told(state, Withdrawn(since=now, why=why, doubtful=True))
    node_store.store(node, state)
    _report(task, tuple(d for d in kept if d.accelerator in new), ended, held, published=published, now=now)
    return True


def _last_inventory(task: Any, state: NodeState) -> Inventory | None:
    """Return the inventory that was stored last: in full from the inspection store, else what the node itself holds of it."""
    look = node_store.last_look(task.node, state)
    return _full_inventory(task, state, look) or look


def _full_inventory(task: Any, state: NodeState, look: Inventory | None) -> Inventory | None:
    """Return the inventory of the inspection store if it is the last one."""
    kept = record.kept_inventory(task, state)
    return kept if kept is not None and (look is None or kept.at >= look.at) else None


def _withdraw(task: Any, devices: frozenset[AcceleratorId]) -> str | None:
    """Withdraw devices; return who holds some of it, which is reserved then."""
    node = task.node
    try:
        placement.withdraw_devices(node.uuid, devices, node.instance_uuid, partial(node_store.held, node))
    except InventoryInUse as exc:
        return exc.message
    return None


def _kept(state: NodeState, found: Iterable[DeniedDevice], now: datetime) -> tuple[WithheldDevice, ...]:
    """Return the denied devices as they are stored: since when stays as it is."""
    since = {d.accelerator: d.since for d in state.denied}
    return tuple(words.recorded(d, since.get(d.accelerator, now)) for d in found)


def _publish(task: Any, state: NodeState, denied: frozenset[AcceleratorId]) -> bool:
    """Publish what the last full inventory verifies; False if it does not suffice: then the node has to be read again.

    :param denied: the devices that are denied now; all others have to be verified.
    :raises PlacementError: placement cannot be asked, or refuses.
    """
    node = task.node
    look = node_store.last_look(node, state)
    inventory = _full_inventory(task, state, look)
    if look is None or inventory is None or any(gap.hides for gap in inventory.gaps):
        return False
    inventory = remembered_inventory.as_read(inventory, look)
    try:
        availability.refuse_uncleaned(state)
        tools, target = tools_of(task, state), target_of(task)
        if tools.placement is None or availability.contested(task, state, tools):
            return False
        verdict = execution.compare(inventory, target, tools, state.evidence, lifecycle=state.lifecycle)
        if any(f.accelerator not in denied for f in verdict.unmet):
            return False  # what was verified by other means, such as measurements, would be withdrawn
        made = supply(inventory, verdict, tools.baseline, target.node, tools.catalogue, left=tools.left)
        tools.placement.publish(inventory, verdict, made)
    except InventoryInUse as exc:
        LOG.info('Node %s: part of it is claimed, and is published once it is free: %s', node.uuid, exc)
    except PlacementError:
        raise
    except AccError as exc:
        LOG.info('Node %s: it is not published from its stored inventory: %s', node.uuid, exc)
        return False
    return True


def _report(
    task: Any,
    new: tuple[WithheldDevice, ...],
    ended: tuple[WithheldDevice, ...],
    held: str | None,
    *,
    published: bool,
    now: datetime,
) -> None:
    node = task.node
    if new:
        text = words.withheld(new) + (f'; {held}' if held else '')
        LOG.warning('Node %s: %s', node.uuid, text)
        provision_state.told(node, text)
        denial.begun(task, new, text, now)
    if ended:
        text = words.released(ended, published=published)
        LOG.info('Node %s: %s', node.uuid, text)
        provision_state.told(node, text)
        denial.over(task, ended, text, now)
