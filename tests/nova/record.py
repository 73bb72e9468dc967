# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""Record the notifications that Nova sends of a boot that found no host. Written by Nova's own code, for the tests of demand.

Run it with a Python that has nova 34.0.0, which is no dependency of this project, and name the file to write::

    python3 -m venv /tmp/nova && /tmp/nova/bin/pip install nova==34.0.0
    /tmp/nova/bin/python tests/nova/record.py tests/nova/notifications.json

It makes a flavor, an image and a RequestSpec, calls ``nova.scheduler.utils.set_vm_state_and_notify`` as nova-conductor does
when the scheduler has found no host, and keeps what a listener of oslo.messaging hears of it, in both formats. Nothing of Nova
is replaced but its database: the instance is not saved, and no fault is stored.
"""

import json
import sys
import time
from unittest import mock

import oslo_messaging
from nova import context, exception, objects, rpc
from nova.conf import CONF
from nova.scheduler import utils
from oslo_messaging._drivers import common

MACHINE = {'resources:CUSTOM_BAREMETAL_GOLD': '1', 'resources:VCPU': '0', 'resources:MEMORY_MB': '0', 'resources:DISK_GB': '0'}
BOOTS = {
    'class': MACHINE | {'resources_ACC:CUSTOM_ACC_FN_AES': '1'},
    'trait': MACHINE | {'resources_ACC:FPGA': '1', 'trait_ACC:CUSTOM_ACC_FN_AES': 'required'},
    'image': MACHINE,
    'three': MACHINE | {'resources_ACC:CUSTOM_ACC_FN_AES': '1'},
    'plain': {'hw:cpu_policy': 'dedicated'},
    'retries': MACHINE | {'resources_ACC:CUSTOM_ACC_FN_AES': '1'},
}
INSTANCE = '6c9f3a02-5b8d-4c4e-9a57-0f2d1e3b4a51'
PROJECT = '1f0e2d3c4b5a69788796a5b4c3d2e1f0'
USER = '7d' * 16


class Heard:
    """A listener that keeps what it hears."""

    def __init__(self):
        self.messages = []

    def error(self, ctxt, publisher_id, event_type, payload, metadata):
        """Called by oslo.messaging."""
        names = ('ctxt', 'publisher_id', 'event_type', 'payload', 'metadata')
        self.messages.append(dict(zip(names, (ctxt, publisher_id, event_type, payload, metadata), strict=True)))


def request_spec(ctxt, name, extra_specs):
    """A boot request as nova-api makes it."""
    flavor = objects.Flavor(
        ctxt, id=1, flavorid='bm.gold.aes', name='bm.gold.aes', memory_mb=1024, vcpus=1, root_gb=10, ephemeral_gb=0, swap=0,
        rxtx_factor=1.0, vcpu_weight=0, disabled=False, is_public=True, extra_specs=extra_specs, description=None, projects=[],
    )  # fmt: skip
    required = ['CUSTOM_ACC_FN_GZIP'] if name == 'image' else []
    image = objects.ImageMeta(
        id='155d900f-4e14-4e4c-a73d-069cbf4541e6', name='debian-12', status='active', visibility='public', protected=False,
        checksum='5' * 32, owner=PROJECT, size=1, container_format='bare', disk_format='raw', min_ram=0, min_disk=0,
        properties=objects.ImageMetaProps(traits_required=required),
    )  # fmt: skip
    made = objects.RequestSpec(
        ctxt, instance_uuid=INSTANCE, flavor=flavor, image=image, project_id=PROJECT, user_id=USER, availability_zone='nova',
        num_instances=3 if name == 'three' else 1, numa_topology=None, security_groups=objects.SecurityGroupList(objects=[]),
        pci_requests=objects.InstancePCIRequests(instance_uuid=INSTANCE, requests=[]),
    )  # fmt: skip
    made.obj_set_defaults()
    return made


def from_scheduler():
    """The exception as nova-conductor gets it: by RPC, which makes a class of its own of it."""
    try:
        raise exception.NoValidHost(reason='')
    except exception.NoValidHost:
        told = common.serialize_remote_exception(sys.exc_info())
    return common.deserialize_remote_exception(told, rpc.get_allowed_exmods())


def record(name, extra_specs, heard):
    """What is heard of one failed boot."""
    heard.messages = []
    ctxt = context.RequestContext(USER, PROJECT, request_id=f'req-{name}')
    ex = exception.MaxRetriesExceeded(reason='all hosts failed') if name == 'retries' else from_scheduler()
    updates = {'vm_state': 'error', 'task_state': None}
    try:
        raise ex
    except exception.NovaException as caught:
        spec = request_spec(ctxt, name, extra_specs)
        utils.set_vm_state_and_notify(ctxt, INSTANCE, 'compute_task', 'build_instances', updates, caught, spec)
    until = time.monotonic() + 10
    while len(heard.messages) < 2 and time.monotonic() < until:
        time.sleep(0.05)
    return sorted(heard.messages, key=lambda m: m['event_type'])


def main(path):
    """Write the file."""
    CONF([], project='nova', version='34.0.0', default_config_files=[])
    CONF.set_override('host', 'conductor-1')
    CONF.set_override('notification_format', 'both', group='notifications')
    oslo_messaging.set_transport_defaults('nova')
    heard = Heard()
    transport = oslo_messaging.get_notification_transport(CONF, url='fake:/')
    CONF.set_override('driver', ['messagingv2'], group='oslo_messaging_notifications')
    CONF.set_override('transport_url', 'fake:/')
    rpc.init(CONF)
    topics = ('notifications', 'versioned_notifications')
    targets = [oslo_messaging.Target(topic=topic, exchange='nova') for topic in topics]
    listener = oslo_messaging.get_notification_listener(transport, targets, [heard], executor='threading')
    listener.start()
    objects.register_all()
    with (
        mock.patch.object(objects.Instance, 'save'),
        mock.patch('nova.compute.utils.add_instance_fault_from_exc'),
    ):
        boots = {name: record(name, extra_specs, heard) for name, extra_specs in BOOTS.items()}
    listener.stop()
    listener.wait()
    with open(path, 'w', encoding='utf-8') as stream:
        json.dump({'nova': '34.0.0', 'made by': 'tests/nova/record.py', 'boots': boots}, stream, indent=1, sort_keys=True)
        stream.write('\n')


if __name__ == '__main__':
    main(sys.argv[1])
