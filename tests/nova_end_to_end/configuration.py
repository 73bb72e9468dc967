# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""The configuration files of the services of a cloud: Keystone, placement, Nova, and what Ironic has besides that of the demo.

All files hold passwords, and have to have mode 0600.
"""

KEYSTONE = """\
[DEFAULT]
log_file = {state}/keystone.log
[database]
connection = sqlite:///{state}/keystone.sqlite
[fernet_tokens]
key_repository = {state}/fernet
[fernet_receipts]
key_repository = {state}/fernet
[credential]
key_repository = {state}/credential
[token]
provider = fernet
expiration = 43200
"""

TOKENS = """\
[keystone_authtoken]
www_authenticate_uri = {keystone}
interface = public
service_token_roles_required = true
"""

LOGIN = """\
auth_type = password
auth_url = {keystone}
username = {user}
password = {password}
project_name = service
user_domain_name = Default
project_domain_name = Default
region_name = RegionOne
valid_interfaces = public
"""

PLACEMENT = """\
[DEFAULT]
log_options = false
[api]
auth_strategy = keystone
[placement]
# With 16.0.0 and more than one try, a claim can be taken that has no room.
allocation_conflict_retry_count = 1
[placement_database]
connection = {database}
sync_on_startup = true
"""

IRONIC = """\
[DEFAULT]
auth_strategy = keystone
# Nova's user acts in the project service, with the role service.
rbac_service_role_elevated_access = true
[database]
connection = {database}
[oslo_policy]
policy_dirs = {state}/policy.d
"""

NOVA = """\
[DEFAULT]
host = compute
my_ip = 127.0.0.1
state_path = {state}/nova
log_options = false
compute_driver = ironic.IronicDriver
transport_url = {bus}
# 60 by default: how soon Nova notices that a machine is available again.
update_resources_interval = 4
# 60 by default: how long nova-compute may wait after its start before it looks for nodes.
periodic_fuzzy_delay = 0
heal_instance_info_cache_interval = -1
[api_database]
connection = {api}
[database]
connection = {cell}
[conductor]
workers = 1
[scheduler]
workers = 1
discover_hosts_in_cells_interval = 2
[notifications]
notification_format = versioned
[oslo_concurrency]
lock_path = {state}/nova/lock
[oslo_messaging_notifications]
driver = messagingv2
[vnc]
enabled = false
"""

NOVA_IRONIC = """\
api_max_retries = 60
api_retry_interval = 1
"""

DATABASES = ('nova_api', 'nova_cell0', 'nova', 'placement')
"""Besides Ironic's."""
