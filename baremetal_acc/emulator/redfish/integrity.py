# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""ComponentIntegrity resources of an emulated BMC: SPDM signed measurements of roots of trust, and device certificates.

The target of each resource is the root of trust, and the component that it protects is the device, as on GH200.

Source: DSP8010 2025.4, ComponentIntegrity v1_3_2, Certificate v1_9; recording nvidia/gh200.
"""

import base64
import secrets
from collections.abc import Callable, Sequence

from baremetal_acc.emulator import spdm
from baremetal_acc.emulator.fault import Fault
from baremetal_acc.emulator.redfish.errors import RedfishError
from baremetal_acc.emulator.redfish.resource import (
    ROOT,
    Body,
    Caller,
    Outcome,
    Parameter,
    Resource,
    ResourceAction,
    collection,
    ref,
    refs,
    status,
)
from baremetal_acc.emulator.redfish.view import View
from baremetal_acc.emulator.spdm import Authority, MeasurementBlock, SpdmIdentity

COLLECTION = f'{ROOT}/ComponentIntegrity'
ACTION = '#ComponentIntegrity.SPDMGetSignedMeasurements'
NONCE_BYTES = 32


def add_integrity(
    view: View,
    name: str,
    *,
    authority: Authority,
    target: str,
    protects: Sequence[str],
    requester: str,
    device: str,
    blocks: Callable[[], tuple[MeasurementBlock, ...]],
    version: str = '1.2',
    opaque: Callable[[], bytes] = bytes,
) -> None:
    """Add the ComponentIntegrity of a root of trust, with the certificates of the device.

    :param target: the root of trust's own resource; ``protects`` the protected components; ``requester`` the Manager that
        requests the measurements.
    :param blocks: the measurement blocks now, without that of the device mode; ``opaque`` is the opaque data with them.
    """
    uri = f'{COLLECTION}/{name}'
    certificates = f'{target}/Certificates'
    responder = _Responder(
        view=view, authority=authority, name=name, uri=uri, device=device, blocks=blocks, version=version, opaque=opaque
    )
    if not view.tree.has(COLLECTION):
        view.tree.add(collection(COLLECTION, 'ComponentIntegrity', view.tree.joined(COLLECTION)))
    view.tree.add(
        Resource(
            uri=uri,
            type='#ComponentIntegrity.v1_3_2.ComponentIntegrity',
            render=lambda: {
                'Id': name,
                'Name': f'SPDM Integrity for {name}',
                'Status': status(),
                'ComponentIntegrityType': 'SPDM',
                'ComponentIntegrityTypeVersion': f'{version}.0',
                'ComponentIntegrityEnabled': True,
                'TargetComponentURI': target,
                'Links': {'ComponentsProtected': refs(protects)},
                'SPDM': {
                    'Requester': ref(requester),
                    'IdentityAuthentication': {
                        'ResponderAuthentication': {'ComponentCertificate': ref(f'{certificates}/CertChain')}
                    },
                },
            },
            actions=(
                ResourceAction(
                    name=ACTION,
                    target=f'{uri}/Actions/ComponentIntegrity.SPDMGetSignedMeasurements',
                    parameters=(
                        Parameter(name='Nonce'),
                        Parameter(name='SlotId', types=(int,)),
                        Parameter(name='MeasurementIndices', types=(list,)),
                    ),
                    invoke=lambda caller, given: responder.answer(caller, given, ref(f'{certificates}/CertChain')),
                ),
            ),
            device=device,
        ),
        collection(certificates, 'Certificate', [f'{certificates}/CertChain'], device=device),
        Resource(
            uri=f'{certificates}/CertChain',
            type='#Certificate.v1_8_0.Certificate',
            render=lambda: {
                'Id': 'CertChain',
                'Name': f'Certificate chain of {name}',
                'CertificateType': 'PEMchain',
                'CertificateUsageTypes': ['Device'],
                'CertificateString': responder.identity().certificate_string(),
                'SPDM': {'SlotId': 0},
            },
            device=device,
        ),
    )
    view.tree.join(COLLECTION, uri)


class _Responder:
    """A root of trust as reached through its BMC."""

    def __init__(
        self,
        *,
        view: View,
        authority: Authority,
        name: str,
        uri: str,
        device: str,
        blocks: Callable[[], tuple[MeasurementBlock, ...]],
        version: str,
        opaque: Callable[[], bytes],
    ) -> None:
        self._view = view
        self._authority = authority
        self._name = name
        self._uri = uri
        self._device = device
        self._blocks = blocks
        self._version = version
        self._opaque = opaque
        self._identities: dict[str, SpdmIdentity] = {}
        self._last: bytes | None = None

    def answer(self, caller: Caller, given: Body, certificate: Body) -> Outcome:
        """Answer the action SPDMGetSignedMeasurements."""
        nonce = _nonce(given.get('Nonce'))
        indices = given.get('MeasurementIndices', [spdm.ALL])
        if given.get('SlotId', 0) != 0:
            raise RedfishError(400, 'ActionParameterValueNotInList', str(given['SlotId']), 'SlotId', ACTION.lstrip('#'))
        if indices != [spdm.ALL]:
            raise RedfishError(400, 'ActionParameterValueNotInList', str(indices), 'MeasurementIndices', ACTION.lstrip('#'))
        rule = self._rule(use=True)
        how = rule.parameters['how'] if rule is not None else None
        said = self._said(how, nonce)
        self._last = said
        encoded = base64.b64encode(said).decode()
        body = {
            'SignedMeasurements': encoded,
            'Certificate': certificate,
            'Version': self._version,
            'HashingAlgorithm': spdm.HASHING,
            'SigningAlgorithm': spdm.SIGNING,
        }
        return Outcome(status=200, body=body)

    def _said(self, how: str | None, nonce: bytes) -> bytes:
        """The SPDM transcript, with the fault that applies."""
        if how == 'replayed' and self._last is not None:
            return self._last
        identity = self.identity()
        if how == 'other-key':
            identity = SpdmIdentity(key=self._made('another key', self._authority).key, chain=identity.chain)
        said = spdm.transcript(
            identity,
            (*self._blocks(), spdm.mode(debug=how == 'debug-mode')),
            nonce=secrets.token_bytes(NONCE_BYTES) if how in ('stale-nonce', 'replayed') else nonce,
            version=self._version,
            signed=how != 'unsigned',
            opaque=self._opaque(),
        )
        return said[: len(said) // 2] if how == 'truncated' else said

    def identity(self) -> SpdmIdentity:
        """The identity that the device presents now."""
        rule = self._rule(use=False)
        match rule.parameters['how'] if rule is not None else None:
            case 'other-root':
                return self._made('other root', Authority('Another maker'))
            case 'expired':
                return self._made('expired', self._authority, expired=True)
            case 'other-device':
                return self._authority.elsewhere
            case _:
                return self._made('own', self._authority)

    def _made(self, what: str, authority: Authority, *, expired: bool = False) -> SpdmIdentity:
        if what not in self._identities:
            self._identities[what] = authority.device(f'Emulated device {self._name}', expired=expired)
        return self._identities[what]

    def _rule(self, *, use: bool) -> Fault | None:
        faults = self._view.machine.faults
        return faults.find('measurement-wrong', bmc=self._view.name, device=self._device, uri=self._uri, use=use)


def _nonce(given: object) -> bytes:
    if given is None:
        return secrets.token_bytes(NONCE_BYTES)
    try:
        found = bytes.fromhex(str(given))
    except ValueError:
        found = b''
    if len(found) != NONCE_BYTES:
        raise RedfishError(400, 'ActionParameterValueFormatError', str(given), 'Nonce', ACTION.lstrip('#'))
    return found
