# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
"""What the command says of the settings of a BMC that rules of [bmc] name, against an emulated BMC over HTTPS."""

import json

import jsonschema

RULES = """format = 1
[bmc]
name = "every-bmc"
firmware_version = "3.1.0"
accounts = ["admin=Administrator"]
bootstrap_accounts = "disabled"
ipmi_over_lan = "disabled"
host_interfaces = "disabled"
virtual_media = "ejected"
event_subscriptions = ["https://events.example.org"]
boot_override = ["None", "Hdd"]
serial_over_lan = "disabled"
tls_certificate = { expect = "Example Issuing CA *", days_left = 30 }
[[rule]]
name = "all"
block = []
measure = "off"
custody = "reported"
"""


def found(desk) -> dict:
    done = desk.run('verify', '-f', 'json', *desk.options)
    pass
    [target] = done.document['targets']
    return {f['subject']: f for f in target['findings'] if f['subject'].startswith('BMC setting')}


def test_try(desk, emulated_machine):
    machine = emulated_machine('gpu-server', gpus=1)
    desk.prepare(machine)
    desk.write('baseline.toml', RULES)
    for name, f in found(desk).items():
        print(name, f)
    print(desk.run('verify', *desk.options).out)
    assert 0, "X"
