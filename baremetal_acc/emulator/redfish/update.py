# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""UpdateService of one emulated BMC: FirmwareInventory, SoftwareInventory, and the checks of an update request.

Source: DSP8010 UpdateService v1_14, SoftwareInventory v1_12; the task and its monitor answer as those of OpenBMC do.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from urllib.parse import urlsplit

from baremetal_acc.emulator.fault import Fault
from baremetal_acc.emulator.image import BadImage, ImageFormat
from baremetal_acc.emulator.parts import Task, WriteRefused
from baremetal_acc.emulator.pldm import PackageMaker
from baremetal_acc.emulator.redfish.errors import RedfishError, busy
from baremetal_acc.emulator.redfish.resource import (
    ROOT,
    Body,
    Outcome,
    Parameter,
    Resource,
    ResourceAction,
    Writable,
    Writables,
    body_of,
    collection,
    ref,
    refs,
    status,
)
from baremetal_acc.emulator.redfish.tasks import (
    RETRY_AFTER_SECONDS,
    monitor_uri,
    task_resource,
    with_monitor_alone,
    without_tasks,
)
from baremetal_acc.emulator.redfish.view import Tray, View
from baremetal_acc.emulator.upload import Upload

SERVICE = f'{ROOT}/UpdateService'
FIRMWARE = f'{SERVICE}/FirmwareInventory'
SOFTWARE = f'{SERVICE}/SoftwareInventory'
PUSH = f'{SERVICE}/update-multipart'
PLAIN_PUSH = f'{SERVICE}/update'
PLAIN_TARGETS = f'{SERVICE}/HttpPushUriTargets'
PLAIN_LOCKS = ('HttpPushUriTargetsBusy', 'HttpPushUriOptionsBusy')
PLAIN_FORCE = f'{SERVICE}/HttpPushUriOptions/ForceUpdate'
PLAIN_TIME = f'{SERVICE}/HttpPushUriOptions/HttpPushUriApplyTime'
SIMPLE_UPDATE = f'{SERVICE}/Actions/UpdateService.SimpleUpdate'
START_UPDATE = f'{SERVICE}/Actions/UpdateService.StartUpdate'
APPLY_TIMES = ('Immediate', 'OnReset')
ON_START = 'OnStartUpdateRequest'
APPLY_TIME = '@Redfish.OperationApplyTime'
# The longest ImageURI that is accepted.
MAX_URI = 2048


def add_update_service(view: View) -> None:
    """Add UpdateService and its inventory collections; items join these by :func:`add_item`."""
    options = view.options
    if not options.update_service:
        return

    def render() -> Body:
        body: Body = {
            'Id': 'UpdateService',
            'Name': 'Update Service',
            'Status': status('Updating' if _says_updating(view) else 'Enabled'),
            'ServiceEnabled': True,
            'MaxImageSizeBytes': options.max_image_bytes,
            'FirmwareInventory': ref(FIRMWARE),
            'SoftwareInventory': ref(SOFTWARE),
        }
        if options.push:
            body['MultipartHttpPushUri'] = PUSH
            body[f'MultipartHttpPushUri{APPLY_TIME}Support'] = _support(view)
        if options.plain_push:
            body['HttpPushUri'] = PLAIN_PUSH
            body['HttpPushUriTargets'] = _plain_targets(view)
            body['HttpPushUriOptions'] = {
                'ForceUpdate': view.machine.shown(PLAIN_FORCE),
                'HttpPushUriApplyTime': {
                    'ApplyTime': _plain_time(view),
                    'ApplyTime@Redfish.AllowableValues': list(_apply_times(view)),
                },
            }
        if options.plain_push and options.plain_lock:
            body |= {name: view.machine.shown(f'{SERVICE}/{name}') for name in PLAIN_LOCKS}
        return body

    if options.plain_push:
        for key, value in ((PLAIN_TARGETS, '[]'), (PLAIN_FORCE, False), (PLAIN_TIME, APPLY_TIMES[0])):
            view.machine.add_setting(key, value, bmc=view.name, uri=SERVICE)
    if options.plain_push and options.plain_lock:
        for name in PLAIN_LOCKS:
            view.machine.add_setting(f'{SERVICE}/{name}', value=False, bmc=view.name, uri=SERVICE)

    actions: tuple[ResourceAction, ...] = ()
    if options.pull:
        actions = (
            ResourceAction(
                name='#UpdateService.SimpleUpdate',
                target=SIMPLE_UPDATE,
                privilege='ConfigureManager',
                parameters=(
                    Parameter(name='ImageURI', required=True),
                    Parameter(name='TransferProtocol', allowed=('HTTP', 'HTTPS')),
                    Parameter(name='Targets', types=(list,)),
                    Parameter(name='ForceUpdate', types=(bool,)),
                    Parameter(
                        name=APPLY_TIME,
                        allowed=(*APPLY_TIMES, ON_START),
                        show_allowed=False,
                        refused=lambda: frozenset({*APPLY_TIMES, ON_START}) - frozenset(_apply_times(view)),
                    ),
                ),
                extra=lambda: {f'{APPLY_TIME}Support': _support(view)},
                invoke=lambda caller, body: _simple_update(view, body),
            ),
        )
    actions += (
        ResourceAction(
            name='#UpdateService.StartUpdate',
            target=START_UPDATE,
            privilege='ConfigureManager',
            parameters=(),
            is_offered=lambda: _start_rule(view) is not None,
            invoke=lambda caller, body: _start_update(view),
        ),
    )
    view.tree.add(
        Resource(
            uri=SERVICE,
            type='#UpdateService.v1_14_1.UpdateService',
            render=render,
            writable=(lambda: _plain_writable(view)) if options.plain_push else None,
            actions=actions,
            privilege='ConfigureManager',
        ),
        collection(FIRMWARE, 'SoftwareInventory', view.tree.joined(FIRMWARE), name='Firmware Inventory Collection'),
        collection(SOFTWARE, 'SoftwareInventory', view.tree.joined(SOFTWARE), name='Software Inventory Collection'),
    )


def _plain_targets(view: View) -> list[str]:
    """HttpPushUriTargets. It is stored as JSON, since a setting of the machine holds one value."""
    found = json.loads(str(view.machine.settings[PLAIN_TARGETS].value))
    return [str(one) for one in found]


def _plain_time(view: View) -> str:
    """ApplyTime of HttpPushUriOptions: the configured value where it is offered at present, else the first offered one."""
    found, offered = str(view.machine.settings[PLAIN_TIME].value), _apply_times(view)
    return found if found in offered else offered[0]


def _plain_writable(view: View) -> Writables:
    def set_targets(value: list[object]) -> None:
        if not all(isinstance(one, str) for one in value):
            raise RedfishError(400, 'PropertyValueTypeError', json.dumps(value)[:80], 'HttpPushUriTargets')
        view.machine.configure(PLAIN_TARGETS, json.dumps(value))

    locks = PLAIN_LOCKS if view.options.plain_lock else ()
    return {
        **{name: view.setting(f'{SERVICE}/{name}', (bool,)) for name in locks},
        'HttpPushUriTargets': Writable(types=(list,), write=set_targets),
        'HttpPushUriOptions': {
            'ForceUpdate': view.setting(PLAIN_FORCE, (bool,)),
            'HttpPushUriApplyTime': {'ApplyTime': view.setting(PLAIN_TIME, (str,), _apply_times(view))},
        },
    }


def plain_parameters(view: View) -> Body:
    """The equivalent of UpdateParameters for an image that is pushed to HttpPushUri."""
    settings = view.machine.settings
    return {
        'Targets': _plain_targets(view),
        'ForceUpdate': settings[PLAIN_FORCE].value is True,
        APPLY_TIME: _plain_time(view),
    }


def _says_updating(view: View) -> bool:
    """Whether the service shows the state Updating: only where no task shows the update."""
    rule = without_tasks(view)
    is_busy = any(task.is_open for task in view.machine.bmcs[view.name].tasks.values())
    return rule is not None and bool(rule.parameters['service_says']) and is_busy


def _start_rule(view: View) -> Fault | None:
    """The fault rule by which images wait for StartUpdate."""
    return view.machine.faults.find('task-waits-for-start', bmc=view.name, use=False)


def _apply_times(view: View) -> tuple[str, ...]:
    """The OperationApplyTime values that are accepted at present."""
    rule = _start_rule(view)
    return APPLY_TIMES if rule is None or not rule.parameters['asked'] else (ON_START,)


def _support(view: View) -> Body:
    return {
        '@odata.type': '#Settings.v1_4_0.OperationApplyTimeSupport',
        'SupportedValues': list(_apply_times(view)),
    }


def _start_update(view: View) -> Outcome:
    """Start every update that waits for StartUpdate.

    :raises RedfishError: 400 where none waits; 503.
    """
    try:
        started = view.machine.start_updates(view.name)
    except WriteRefused as why:
        raise busy(RETRY_AFTER_SECONDS) from why
    if not started:
        raise RedfishError(400, 'GeneralError', text='No update waits for StartUpdate.')
    return accepted(view, started[0])


def add_item(
    view: View,
    key: str,
    *,
    name: str,
    description: str,
    manufacturer: str,
    related: Sequence[str],
    software_id: str | None = None,
    pad_to: int = 0,
    oem: Callable[[], Body] | None = None,
    follows: bool = False,
) -> None:
    """Add the SoftwareInventory item of a component.

    :param pad_to: real BMCs pad a version with blanks to the width of the field in the device: GH200 to 16 characters.
    :param follows: its WriteProtected shows the value of another lock and cannot be written.
    """
    if not view.options.update_service:
        return
    machine = view.machine
    component = machine.components[key]
    uri = component.uri

    def shown_version() -> str | None:
        return None if machine.lateness(component) is not None else machine.shown_version(key, by_item=True).ljust(pad_to)

    def render() -> Body:
        body: Body = {
            'Id': uri.rsplit('/', 1)[-1],
            'Name': name,
            'Description': description,
            'Manufacturer': manufacturer,
            'Version': shown_version(),
            'Updateable': component.updateable,
            'Active': component.active is not None,
            'ResetRequiredOnUpdate': component.activates is not None,
            'RelatedItem': refs(related),
            'RelatedItem@odata.count': len(related),
            'Status': status(),
        }
        if software_id is not None:
            body['SoftwareId'] = software_id
        if component.write_protect is not None:
            body['WriteProtected'] = machine.shown(component.write_protect)
        if oem is not None:
            body['Oem'] = oem()
        return body

    def writable() -> Writables:
        protect = component.write_protect
        return {} if protect is None or follows else {'WriteProtected': view.setting(protect, (bool,))}

    view.tree.add(
        Resource(
            uri=uri,
            type='#SoftwareInventory.v1_12_0.SoftwareInventory',
            render=render,
            writable=writable,
            device=component.device or None,
            is_missing=lambda: view.is_missing(component),
            privilege='ConfigureManager',
        )
    )
    view.tree.join(uri.rsplit('/', 1)[0], uri)


def read_parameters(view: View, text: bytes) -> Body:
    """Parse the part UpdateParameters.

    :raises RedfishError: 400, naming what is wrong.
    """
    try:
        parameters = json.loads(text)
    except ValueError as exc:
        raise RedfishError(400, 'MalformedJSON', text='The part UpdateParameters is not JSON.') from exc
    if not isinstance(parameters, dict):
        raise RedfishError(400, 'MalformedJSON', text='The part UpdateParameters is not a JSON object.')
    rules: Mapping[str, tuple[type, ...]] = {
        'Targets': (list,),
        'ForceUpdate': (bool,),
        'Stage': (bool,),
        'Oem': (dict,),
        APPLY_TIME: (str,),
    }
    for name, value in parameters.items():
        if name not in rules:
            raise RedfishError(400, 'PropertyUnknown', name)
        if not isinstance(value, rules[name]):
            raise RedfishError(400, 'PropertyValueTypeError', json.dumps(value), name)
    if parameters.get(APPLY_TIME, _apply_times(view)[0]) not in _apply_times(view):
        raise RedfishError(400, 'PropertyValueNotInList', parameters[APPLY_TIME], APPLY_TIME)
    return parameters


def check_targets(view: View, parameters: Body) -> tuple[str, ...]:
    """The components that a request updates; empty: all that the image fits (only where the BMC allows it).

    :raises RedfishError: 400, naming the target; 503 when one of them is being updated or the BMC is at its limit of updates.
    """
    if view.trays:
        return _tray_targets(view, parameters)
    given = parameters.get('Targets', [])
    strict = view.options.strict_targets
    if not given and strict:
        raise RedfishError(400, 'PropertyMissing', 'Targets', text='This BMC updates exactly one Target per request.')
    if len(given) > 1 and strict:
        raise RedfishError(400, 'ArraySizeTooLong', 'Targets', '1', text='Send one request per Target.')
    by_uri = {one.uri: one for one in view.machine.components.values() if one.bmc == view.name}
    keys = []
    for target in given:
        component = by_uri.get(target) if isinstance(target, str) else None
        if component is None or view.is_absent(component.device) or _is_refused(view, component.uri):
            raise RedfishError(
                400,
                'PropertyValueNotInList',
                str(target),
                'Targets',
                text="The target is not an item of this BMC's inventories.",
            )
        if not component.updateable:
            raise RedfishError(400, 'PropertyValueNotInList', target, 'Targets', text='The target is not updateable.')
        keys.append(component.key)
    refuse_if_busy(view, keys)
    return tuple(keys)


def _is_refused(view: View, target: str) -> bool:
    """Whether a fault refuses this target."""
    return view.machine.faults.find('target-refused', bmc=view.name, uri=target) is not None


def _tray_targets(view: View, parameters: Body) -> tuple[str, ...]:
    """The components of the named tray, of the tray that a request without Targets updates, or those named one by one.

    :raises RedfishError: 400, naming the target; also where Targets name two trays, which are updated by two BMCs.
    """
    found = [_named(view, target) for target in parameters.get('Targets', [])]
    if not found:
        found = [(tray, tray.keys) for tray in view.trays if tray.target is None]
    if any(tray is not found[0][0] for tray, _ in found):
        raise RedfishError(400, 'ActionParameterValueConflict', 'Targets', ', '.join(parameters['Targets'])[:MAX_URI])
    keys = tuple(dict.fromkeys(key for _, those in found for key in those))
    refuse_if_busy(view, keys)
    return keys


def _named(view: View, target: object) -> tuple[Tray, tuple[str, ...]]:
    """The tray that a target names or that contains it, and the components that the target means.

    :raises RedfishError: 400, naming the target.
    """
    if isinstance(target, str) and not _is_refused(view, target):
        for tray in view.trays:
            if tray.target == target:
                return tray, tray.keys
            for key in tray.keys:
                component = view.machine.components[key]
                if component.uri == target and component.updateable and not view.is_absent(component.device):
                    return tray, (key,)
    raise _wrong_target(view, str(target))


def _wrong_target(view: View, target: str) -> RedfishError:
    if view.wrong_target is not None:
        return RedfishError(400, 'PropertyValueNotInList', form=view.wrong_target.dress(target[:MAX_URI], ''))
    return RedfishError(
        400, 'PropertyValueNotInList', target[:MAX_URI], 'Targets', text='The target cannot be updated by this BMC.'
    )


def deliver(view: View, task: Task, upload: Upload) -> None:
    """Pass an upload to the machine. A BMC takes either packages or images for one component."""
    machine = view.machine
    if isinstance(upload, PackageMaker) and view.trays:
        machine.package_arrived(task, upload)
    elif view.trays:
        text = str(upload) if isinstance(upload, BadImage) else 'The upload is not a PLDM package'
        machine.refuse_package(task, 'bad-package', text)
    elif isinstance(upload, PackageMaker):
        machine.image_arrived(task, BadImage('this BMC does not accept packages: send an image for one component'))
    else:
        machine.image_arrived(task, upload)


def refuse_if_busy(view: View, keys: Sequence[str]) -> None:
    """Refuse an update of these components while it cannot begin.

    :raises RedfishError: 503 with Retry-After; 400 while the root of trust of one of them copies the last image.
    """
    machine = view.machine
    # A device that gets a component of a package reports this in the task.
    if not view.trays and any(machine.copy_seconds(machine.components[key].device) for key in keys):
        raise RedfishError(400, 'ResourceInUse', text='The root of trust copies the image in the background.')
    for key in keys or ('',):
        component = machine.components.get(key)
        rule = machine.faults.find(
            'update-503',
            bmc=view.name,
            device=component.device if component else None,
            uri=component.uri if component else '',
        )
        if rule is not None:
            raise busy(float(rule.parameters['retry_after']))
    if machine.busy(view.name, keys) is not None:
        due = machine.next_due()
        raise busy(RETRY_AFTER_SECONDS if due is None else due)


def fitting(view: View, kind: ImageFormat, model: str, component: str) -> tuple[str, ...]:
    """All components of this BMC that such an image fits, which a request without Targets updates."""
    return tuple(
        one.key
        for one in view.machine.components.values()
        if (one.bmc, one.kind, one.model, one.component) == (view.name, kind, model, component)
        and one.updateable
        and not view.is_absent(one.device)
    )


def begin(view: View, keys: Sequence[str], parameters: Body) -> Task:
    """Create the task of an update.

    :raises RedfishError: 503.
    """
    try:
        forced = parameters.get('ForceUpdate') is True
        return view.machine.begin_update(view.name, keys, on_reset=parameters.get(APPLY_TIME) == 'OnReset', forced=forced)
    except WriteRefused as why:
        raise busy(RETRY_AFTER_SECONDS) from why


def accepted(view: View, task: Task) -> Outcome:
    """The answer 202 with the Task as body and its monitor in Location, as OpenBMC answers; faults leave out parts of it."""
    if without_tasks(view, use=True) is not None:
        return Outcome(status=200)
    is_short = with_monitor_alone(view, use=True) is not None
    is_short = is_short or view.machine.faults.find('monitor-empty', bmc=view.name, use=False) is not None
    return Outcome(
        status=202,
        body=None if is_short else body_of(task_resource(view, task)),
        headers={'Location': monitor_uri(view, task), 'Retry-After': str(RETRY_AFTER_SECONDS)},
    )


def _simple_update(view: View, body: Body) -> Outcome:
    uri = str(body['ImageURI'])
    parts = urlsplit(uri)
    protocol = str(body.get('TransferProtocol', parts.scheme.upper()))
    if len(uri) > MAX_URI or parts.scheme not in ('http', 'https') or not parts.hostname:
        raise RedfishError(400, 'ActionParameterValueFormatError', uri[:80], 'ImageURI', 'UpdateService.SimpleUpdate')
    if protocol.lower() != parts.scheme:
        raise RedfishError(400, 'ActionParameterValueNotInList', protocol, 'TransferProtocol', 'UpdateService.SimpleUpdate')
    keys = check_targets(view, body)
    task = begin(view, keys, body)
    if view.fetch is not None:
        view.fetch(task, uri)
    return accepted(view, task)
