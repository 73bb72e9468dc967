#!/bin/busybox sh
# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
#
# The host of a tenant: each line that comes on its second serial port is executed by root, and is answered by what that prints and
# a last line with the exit code. The kernel's messages are on the first port.
/bin/busybox --install -s /bin
mount -t devtmpfs none /dev
mount -t proc none /proc
mount -t sysfs none /sys
for module in ipmi_msghandler ipmi_devintf ipmi_si; do insmod "/modules/$module.ko"; done
tries=0
until [ -c /dev/ipmi0 ] || [ "$tries" = 300 ]; do sleep 0.1; tries=$((tries + 1)); done
ls -l /dev/ipmi0
stty -F /dev/ttyS1 raw -echo
exec </dev/ttyS1 >/dev/ttyS1 2>&1
printf '\n=== up\n'
while read -r line; do
    (eval "$line") </dev/null
    echo "=== $?"
done
