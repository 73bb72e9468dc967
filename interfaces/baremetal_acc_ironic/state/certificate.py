# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Issue and store the hand-over certificate of an Ironic node, and check whether the certificate is valid now.

The verification of a deploy issues the certificate once everything is met. The certificate counts only after it was read back
from every place where it is stored: with the node, and in the folder that an option names. Without a valid certificate the step
fails.
"""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from ironic import objects
from ironic.common import exception
from oslo_log import log
from oslo_utils import uuidutils

from baremetal_acc.certificates import envelope, statement, validity
from baremetal_acc.certificates.envelope import Sealer
from baremetal_acc.certificates.folder import CertificateFolder
from baremetal_acc.config.options import GROUP
from baremetal_acc.errors import CertificateInvalid, StateError, UsageError
from baremetal_acc.execution import Tools
from baremetal_acc.model.certificate import Certificate, CertifiedNode, Paper, Reference
from baremetal_acc.model.inventory import Inventory
from baremetal_acc.model.job import Flow
from baremetal_acc.model.lock import Engagement
from baremetal_acc.model.verdict import Verdict
from baremetal_acc.policy.baseline_rules import Exposure, NodeFacts
from baremetal_acc.render import certificate_faults, findings
from baremetal_acc_ironic import settings
from baremetal_acc_ironic.authorization import rights
from baremetal_acc_ironic.state import node_store, provision_state
from baremetal_acc_ironic.state.node_state import KeptInventory, NodeState

LOG = log.getLogger(__name__)

KEPT_BYTES = 16 * 1024
"""Limit of a packed certificate that is stored with the node. Measured: 8 GPUs with roots of trust and locks need 3 KiB."""

_NO_KEY = 'create one with "openssl genpkey -algorithm ed25519 -out FILE", owned by the user of the conductor, with mode 0600'


def issue(
    task: Any,
    state: NodeState,
    tools: Tools,
    node: NodeFacts,
    inventory: Inventory,
    verdict: Verdict,
    evidence: Iterable[Engagement],
) -> NodeState:
    """Issue the certificate of what a deploy has proven: sign it, store it and read it back.

    :param state: state of the node before it is handed over: the certificate is for the next lifecycle.
    :returns: the node state, stored, with the certificate; without one if there is no key and the node is not for a tenant.
    :raises AccError: it could not be issued, signed, stored or read back: nothing may be handed over.
    """
    by = sealer()
    if by is None:
        if node.exposure is Exposure.TENANT:
            what = 'is not set, and without a certificate no node is handed over to a tenant'
            raise UsageError(argument=f'option [{GROUP}] certificate_key', what=what, hint=_NO_KEY)
        provision_state.told(
            task.node, f'no certificate is issued: option [{GROUP}] certificate_key is not set (exposure {node.exposure})'
        )
        return replace(state, certificate=None)
    lifecycle = state.lifecycle + 1
    occasion = _occasion(task, state, tools, by, lifecycle)
    seen = findings.with_measurements_compared(inventory, tools.catalogue, tools.references)
    certificate = statement.issue(seen, verdict, tools.baseline, node, evidence, occasion, findings.sentence)
    which = certificate.reference
    data = envelope.seal(certificate, by)
    if state.certificate is not None:
        # It may be of an attempt that ended between here and the hand-over; then it was not archived yet.
        state = _put_away(task, state, state.certificate)
    folder = _folder()
    node_store.held(task.node)
    before = state
    kept = KeptInventory(
        lifecycle=lifecycle,
        deployment=certificate.deployment,
        name=certificate.node.name,
        issued=certificate.issued,
        key=by.name,
        digest=envelope.digest(data),
        where=() if folder is None else (str(folder.path(which)),),
        packed=None,
    )
    if kept.where:
        # An attempt that ends between here and the hand-over leaves one behind: the next attempt archives it by this record.
        node_store.store(task.node, replace(state, certificate=replace(kept, superseded=True)))
    try:
        if folder is not None:
            path = folder.put(which, data)
            _same(certificate, folder.get(which), by, str(path))
        kept = replace(kept, packed=_packed(data, kept.where))
        state = replace(state, certificate=kept)
        node_store.store(task.node, state)
        _read_back(task, certificate, by, kept)
    except BaseException:
        done = _mark(which, folder)
        with suppress(exception.NodeLocked, exception.NodeNotFound):
            node_store.store(task.node, before if done else replace(before, certificate=replace(kept, superseded=True)))
        raise
    places = ', '.join(('with the node', *kept.where))
    provision_state.told(
        task.node,
        f'hand-over certificate of lifecycle {lifecycle}, deployment {which.deployment}, {kept.digest}, signed with the key '
        f'{by.name}; stored {places}',
    )
    return state


def of(node: Any, state: NodeState | None = None) -> Certificate:
    """Return the certificate of a node that is handed over, after checking its signature and that it is valid now.

    :param state: the node state, where it is at hand.
    :raises CertificateInvalid: there is none, or it is not valid; names each reason.
    :raises StateError: it is stored elsewhere, and cannot be read there now.
    :raises DocumentError: a key that certificates are checked with is missing or wrong.
    """
    state = node_store.load(node) if state is None else state
    kept = state.certificate
    if kept is None:
        raise CertificateInvalid('the node has no certificate: it was not handed over by a deploy that verified it')
    if state.ending and not kept.superseded:
        raise CertificateInvalid(f'the certificate of lifecycle {kept.lifecycle} has ended: an undeploy of the node has begun')
    if kept.superseded or kept.lifecycle < state.lifecycle:
        raise CertificateInvalid(f'the certificate of lifecycle {kept.lifecycle} has ended: the node has come back since')
    data = text(node, kept)
    if envelope.digest(data) != kept.digest:
        raise CertificateInvalid('the stored certificate is not the one that was issued')
    certificate = envelope.opened(data, trust())
    faults = validity.holds(
        certificate, node=node.uuid, lifecycle=state.lifecycle, deployment=kept.deployment, now=datetime.now(UTC)
    )
    if faults:
        raise CertificateInvalid('; '.join(map(certificate_faults.sentence, faults)))
    return certificate


def over(task: Any, state: NodeState) -> NodeState:
    """Return the node state with the certificate of an earlier lifecycle archived, wherever it is stored.

    The node's lifecycle alone ends a certificate: where the folder cannot be reached now, archiving is retried next time.
    """
    kept = state.certificate
    return state if kept is None or kept.lifecycle >= state.lifecycle else _put_away(task, state, kept)


def ended(task: Any, state: NodeState) -> NodeState:
    """Return the state of a node that nobody has any more, with its certificate archived.

    The cleaning that begins the next lifecycle of the node may have failed before it did so.
    """
    return state if state.certificate is None else _put_away(task, state, state.certificate)


def attempted(node: Any, state: NodeState) -> NodeState:
    """Return the state that a failed deploy is about to store, with its attempt's certificate if that is not archived yet."""
    stored = node_store.load(node).certificate
    return state if stored is None or stored.lifecycle <= state.lifecycle else replace(state, certificate=stored)


def wanted(node: NodeFacts, state: NodeState) -> bool:
    """Whether the node must have a certificate: a tenant's node always, any other node if one was issued."""
    return node.exposure is Exposure.TENANT or state.certificate is not None


def text(node: Any, kept: KeptInventory) -> bytes:
    """Read the signed certificate from where it is stored.

    :raises CertificateInvalid: the copy that is stored with the node cannot be read.
    :raises StateError: it is stored elsewhere, and cannot be read there now.
    """
    if kept.packed is not None:
        return envelope.unpacked(kept.packed)
    which, folder = _reference(node, kept), _folder()
    if folder is not None:
        try:
            return folder.get(which).removesuffix(b'\n')
        except StateError:
            if not _outside(kept, folder):
                raise
    raise StateError(
        f'the certificate is stored only at {", ".join(kept.where)}, outside of the folder of option [{GROUP}] '
        'certificate_folder',
        hint=(
            f'copy it to {node.uuid}/{kept.lifecycle}-{kept.deployment}.json in that folder (containers of an object store are '
            'not read any more), or deploy the node again'
        ),
    )


def sealer() -> Sealer | None:
    """Load the key that certificates are signed with; None if the option is not set.

    :raises DocumentError: the key is missing or wrong.
    """
    path = settings.core().certificate_key
    return None if path is None else envelope.load(path)


def trust() -> dict[str, Any]:
    """Return the keys whose signatures are accepted: our own, and those that options name.

    :raises DocumentError: one is missing or wrong.
    """
    by = sealer()
    return ({} if by is None else by.trust) | envelope.trusted(settings.core().certificate_trust)


def _put_away(task: Any, state: NodeState, kept: KeptInventory) -> NodeState:
    if kept.away:
        return state
    node, folder = task.node, _folder()
    if not _mark(_reference(node, kept), folder if kept.where else None):
        return replace(state, certificate=replace(kept, superseded=True))
    what = f'hand-over certificate of lifecycle {kept.lifecycle}, deployment {kept.deployment}, is archived'
    left = _outside(kept, folder)
    provision_state.told(node, f'{what}; its copy at {", ".join(left)} stays as it is' if left else what)
    return replace(state, certificate=replace(kept, superseded=True, away=True))


def _outside(kept: KeptInventory, folder: CertificateFolder | None) -> tuple[str, ...]:
    """The places outside of the folder where it was stored, such as a container of an object store, as earlier versions had."""
    return tuple(place for place in kept.where if folder is None or not Path(place).is_relative_to(folder.root))


def _reference(node: Any, kept: KeptInventory) -> Reference:
    return Reference(node=CertifiedNode(uuid=node.uuid, name=kept.name), lifecycle=kept.lifecycle, deployment=kept.deployment)


def _occasion(task: Any, state: NodeState, tools: Tools, by: Sealer, lifecycle: int) -> statement.Occasion:
    node = task.node
    baseline, catalogue = tools.papers or (Paper(name='', digest=''),) * 2
    return statement.Occasion(
        node=CertifiedNode(uuid=node.uuid, name=node.name or node.uuid, instance=node.instance_uuid),
        lifecycle=lifecycle,
        proven_in=state.lifecycle,
        flow=Flow.DEPLOY,
        deployment=uuidutils.generate_uuid(),
        issued=datetime.now(UTC),
        issuer=f'baremetal-acc {metadata.version("baremetal-acc")} at {settings.ironic().host}',
        key=by.name,
        requester=rights.begun_by(task, state, Flow.DEPLOY).by,
        baseline=baseline,
        catalogue=catalogue,
        known=state.known,
        custody=state.custody,
    )


def _folder() -> CertificateFolder | None:
    path = settings.core().certificate_folder
    return None if path is None else CertificateFolder(root=path)


def _mark(which: Reference, folder: CertificateFolder | None) -> bool:
    """Archive the certificate in the folder, if there is one; a failure is logged.

    :returns: nothing failed.
    """
    try:
        if folder is not None:
            folder.put_away(which)
    except StateError as exc:
        LOG.warning('Node %s: its certificate of lifecycle %s cannot be archived: %s', which.node.uuid, which.lifecycle, exc)
        return False
    return True


def _same(certificate: Certificate, data: bytes, by: Sealer, where: str) -> None:
    """Check that the stored bytes are this certificate under our own signature.

    :raises StateError: they are not.
    """
    try:
        found = envelope.opened(data, by.trust)
    except CertificateInvalid as exc:
        raise StateError(f'{where}: what was read back is not a valid certificate: {exc}') from exc
    if found != certificate:
        raise StateError(f'{where}: another certificate was read back')


def _read_back(task: Any, certificate: Certificate, by: Sealer, kept: KeptInventory) -> None:
    """Check that the database returns this certificate with the node, and that it is valid for the node's next lifecycle.

    :raises StateError: it does not, or it is not.
    """
    node = objects.Node.get_by_uuid(task.context, task.node.uuid)
    found = node_store.load(node).certificate
    where = f'{node_store.PLACE} of node {node.uuid}'
    if found != kept:
        raise StateError(f'{where}: another certificate was read back')
    if kept.packed is not None:
        _same(certificate, envelope.unpacked(kept.packed), by, where)
    faults = validity.holds(
        certificate, node=node.uuid, lifecycle=kept.lifecycle, deployment=kept.deployment, now=certificate.issued
    )
    if faults:
        raise StateError(f'{where}: the certificate is not valid: {"; ".join(map(certificate_faults.sentence, faults))}')


def _packed(data: bytes, where: tuple[str, ...]) -> str | None:
    """Return the bytes in the form that is stored with the node; None where they are too large for that and stored elsewhere.

    :raises StateError: they are too large, and stored nowhere else.
    """
    made = envelope.packed(data)
    if len(made) <= KEPT_BYTES:
        return made
    if where:
        return None
    raise StateError(
        f'the certificate has {len(made)} bytes; at most {KEPT_BYTES} can be stored with the node',
        hint=f'set option [{GROUP}] certificate_folder, where it may be larger',
    )
