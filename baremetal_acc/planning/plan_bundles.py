# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Plan what a bundle writes besides what was demanded, and refuse bundles that are not safe."""

from collections.abc import Iterable
from dataclasses import replace

from baremetal_acc.model import note as n
from baremetal_acc.model import refusal as r
from baremetal_acc.model import subject as subjects
from baremetal_acc.model.action import Flash
from baremetal_acc.model.inventory import UploadWay
from baremetal_acc.model.note import Note
from baremetal_acc.model.ref import AcceleratorId, BmcName
from baremetal_acc.model.subject import Subject, SubjectKind
from baremetal_acc.planning import bundles, image_selection
from baremetal_acc.planning.plan_draft import PlanDraft, PlannedWrite
from baremetal_acc.planning.plan_writes import other_staged, plan_write
from baremetal_acc.planning.verify import components_wanted
from baremetal_acc.policy.baseline_rules import Baseline, NodeFacts
from baremetal_acc.policy.device_demands import demands


def remember_demands(draft: PlanDraft, baseline: Baseline, node: NodeFacts) -> None:
    """Record the demands on every device: a bundle is written to all devices that it fits."""
    for accelerator in draft.inventory.accelerators:
        wanted = draft.wanted[accelerator.id] = demands(baseline, accelerator, node)
        for component, _, version in components_wanted(accelerator, wanted):
            if component is not None:
                draft.demanded[accelerator.id, component.ref] = version


def complete_bundles(draft: PlanDraft, chosen: set[AcceleratorId]) -> None:
    """Plan everything else that a bundle writes, demanded or not. The whole bundle is sent with force, or without."""
    uploads = sorted({a.upload for w in draft.writes if isinstance(a := w.action, Flash) and a.upload is not None})
    for name, bmc in uploads:
        found = bundles.reached(draft.catalogue, name, bmc, draft.inventory)
        if not _is_upload_forced(draft, (name, bmc)):
            for one in found:
                _complete(draft, (name, bmc), one, chosen, forced=False)
        if _is_upload_forced(draft, (name, bmc)):
            for one in found:
                _complete(draft, (name, bmc), one, chosen, forced=True)
            draft.writes = [_with_force(w, (name, bmc)) for w in draft.writes]
        _refuse_unsafe_bundle(draft, name, bmc)
        _tell_bundle(draft, name, bmc, found)


def _is_upload_forced(draft: PlanDraft, upload: tuple[str, BmcName]) -> bool:
    return any(isinstance(a := w.action, Flash) and a.upload == upload and a.forced for w in draft.writes)


def _with_force(write: PlannedWrite, upload: tuple[str, BmcName]) -> PlannedWrite:
    if not isinstance(write.action, Flash) or write.action.upload != upload:
        return write
    return replace(write, action=replace(write.action, forced=True))


def _complete(
    draft: PlanDraft, upload: tuple[str, BmcName], one: bundles.Reached, chosen: set[AcceleratorId], *, forced: bool
) -> None:
    """Plan the write of a bundle to one more component that it reaches, although no rule demands it.

    :param forced: a component that has the version already is written, too.
    """
    name, accelerator, component = upload[0], one.accelerator, one.component
    subject = subjects.firmware(str(component.id))
    others = [w.action for w in draft.writes if (w.action.accelerator, w.action.ref) == one.place]
    if any(isinstance(a, Flash) and a.upload == upload for a in others):
        return
    if len(one.images) > 1:
        reason = r.SeveralOfBundle(bundle=name, images=tuple(i.name for i in one.images))
        draft.refuse(accelerator, subject, reason)
        return
    image = one.images[0]
    if others:
        also = r.AlsoWritten(bundle=name, version=image.version, images=tuple(a.image for a in others))
        draft.refuse(accelerator, subject, also)
        return
    runs = image_selection.same_version(component.version, image.version) and not other_staged(component, image.version)
    if runs and not forced:
        draft.note(accelerator, n.LeftByBundle(subject=subject, bundle=name, version=image.version))
        return
    demanded = draft.demanded.get(one.place)
    if accelerator.id not in chosen:
        draft.refuse(accelerator, subject, r.BundleReachesDevice(bundle=name))
        return
    if demanded is not None and not image_selection.same_version(demanded, image.version):
        rule = draft.wanted[accelerator.id].firmware_rule
        against = r.BundleAgainstRule(bundle=name, version=image.version, rule=rule, demanded=demanded)
        draft.refuse(accelerator, subject, against)
        return
    draft.note(accelerator, n.WrittenByBundle(subject=subject, bundle=name, version=image.version, again=runs))
    plan_write(draft, accelerator, draft.wanted[accelerator.id], component, image, over=component.version, before=())


def _refuse_unsafe_bundle(draft: PlanDraft, name: str, bmc: BmcName) -> None:
    """Refuse a bundle as a whole if its BMC serves several machines or takes one component at a time, or an image is denied."""
    if bmc in draft.inventory.several:
        draft.refuse(None, Subject(kind=SubjectKind.BUNDLE, name=name), r.BundleReachesMachines(bmc=bmc))
    facts = draft.inventory.bmc(bmc)
    sending = None if facts is None or facts.update is None else facts.update.sending
    if sending is not None and sending.way is UploadWay.HPM_1:
        draft.refuse(None, Subject(kind=SubjectKind.BUNDLE, name=name), r.OneComponentAtATime(bmc=bmc))
    for image in bundles.of(draft.catalogue, name):
        if image.denied is not None:
            denied = r.PartDenied(component=image.component, version=image.version, denial=image.denied)
            draft.refuse(None, Subject(kind=SubjectKind.BUNDLE, name=name), denied)


def _tell_bundle(draft: PlanDraft, name: str, bmc: BmcName, found: Iterable[bundles.Reached]) -> None:
    """Note what is sent where, which parts of the bundle are not shown here, and what happens if a part fails."""
    members = bundles.of(draft.catalogue, name)
    bundle = next((i.bundle for i in members if i.bundle is not None), None)
    if bundle is None:
        return
    found = tuple(found)
    flashes = [a for w in draft.writes if isinstance(a := w.action, Flash) and a.upload == (name, bmc)]
    again = sum(image_selection.same_version(a.expects, a.version) for a in flashes)
    shown = {image.name for one in found for image in one.images}
    unseen_ones = tuple((i.component, i.version) for i in members if i.name not in shown)
    older = next((o.bundle.name for i in members if (o := draft.image(i.restore)) is not None and o.bundle is not None), None)
    tell: list[n.Content] = [
        n.BundleSent(
            bundle=name,
            targets=bundle.targets,
            change=len(flashes) - again,
            again=again,
            left=len(found) - len(flashes),
        ),
        n.BundleIfItFails(bundle=name, alone=bool(bundle.component_targets), older=older),
    ]
    tell += [n.BundleHoldsMore(bundle=name, parts=unseen_ones)] if unseen_ones else ()
    by_name = [one for one in found if not any(image_selection.identified(i, one.component) for i in one.images)]
    if by_name:
        ids = tuple(sorted({one.component.id or '' for one in by_name}))
        tell.append(n.KnownByName(bundle=name, components=ids))
    draft.notes += (Note(label=draft.inventory.target, content=content) for content in tell)
