# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The content of a hand-over certificate as rows of a table, which ``certificate show`` prints."""

from datetime import datetime
from typing import Any

from baremetal_acc.model.certificate import Certificate, CertifiedAccelerator, CertifiedCustody, CertifiedFunction
from baremetal_acc.model.custody import CardCustody, Chain
from baremetal_acc.model.measurement import MeasurementReading, MeasurementState
from baremetal_acc.render import custody


def rows(c: Certificate) -> list[tuple[Any, ...]]:
    """The content of a certificate as rows of a table."""
    found: list[tuple[Any, ...]] = [
        (c.node.name, 'node', c.node.uuid or f'{c.node.name}, a target without UUID', None),
        (c.node.name, 'instance', c.node.instance or 'none', None),
        (c.node.name, 'lifecycle', c.lifecycle, None),
        (c.node.name, 'deployment', c.deployment, None),
        (c.node.name, 'inspected', time(c.looked), None),
        (c.node.name, 'issued', time(c.issued), None),
        (c.node.name, 'expires', NO_END if c.expires is None else time(c.expires), None),
        (c.node.name, 'issuer', c.issuer, None),
        (c.node.name, 'key', c.key, None),
        (c.node.name, 'requester', c.requester or 'not known', None),
        (c.node.name, 'baseline', f'{c.baseline.name} ({c.baseline.digest})', None),
        (c.node.name, 'catalogue', f'{c.catalogue.name} ({c.catalogue.digest})', None),
        (c.node.name, 'exposure', c.exposure, None),
    ]
    for card in c.accelerators:
        found += [(card.label, 'serial number', card.serial or 'not shown', None), (card.label, 'id', card.id, None)]
        found += [(card.label, f'firmware {f.id or "of the device"}', f.version, f.rule or _NO_RULE) for f in card.firmware]
        found += [(card.label, f'function {f.slot or ""}'.rstrip(), *_function(f)) for f in card.functions]
        found += [
            (card.label, f'lock {p.path}', p.state, p.rule if p.demanded else f'not demanded ({p.rule})') for p in card.paths
        ]
        if card.custody is not None:
            said = card.custody
            found.append((card.label, 'custody', _custody(card, said, c.issued), f'{said.demand} ({said.rule})'))
        found += [(card.label, f'measured by {m.integrity}', _measured(m), None) for m in card.measurements]
        if not card.measurements:
            found.append((card.label, 'measured', 'no', None))
    found += [(w.label, f'waiver of {w.path}', f'{w.role} until {time(w.expires)}: {w.reason}', w.rule) for w in c.waivers]
    found += [(c.node.name, 'relaxed', r.text, r.rule) for r in c.relaxations]
    found += [(c.node.name, 'not read', f'{" ".join(filter(None, (str(g.ref), g.field)))}: {g.reason}', None) for g in c.gaps]
    return found


NO_END = 'at the end of the lifecycle; no date is set'

_NO_RULE = 'none: not compared with any rule'


def _function(f: CertifiedFunction) -> tuple[str, str]:
    return f.name or f.id or 'empty', f.rule or _NO_RULE


def _custody(card: CertifiedAccelerator, said: CertifiedCustody, at: datetime) -> str:
    """The chain of custody of a card in words, as ``custody show`` prints it."""
    if said.origin is None or said.begun is None:
        return custody.explain(CardCustody(accelerator=card.id), at)
    chain = Chain(
        accelerator=card.id,
        origin=said.origin,
        begun=said.begun,
        by=said.by,
        until=said.until,
        reason=said.reason,
        intervals=said.intervals,
        broken=said.broken,
        covers_own_processor=said.covers_own_processor,
    )
    return custody.explain(CardCustody(accelerator=card.id, chain=chain), at)


def _measured(m: MeasurementReading) -> str:
    """The state of a measurement, and the reason for it. Certificates of earlier versions have no reason."""
    why = m.reason or ('what it was compared with is not recorded' if m.state is MeasurementState.PROVEN else '')
    return ': '.join(filter(None, (m.state, why)))


def time(at: datetime) -> str:
    return f'{at:%Y-%m-%d %H:%M:%S}Z'
