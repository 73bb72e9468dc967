#!/usr/bin/env bash
# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
#
# Install programs of Debian that tests run: tests/tools/programs.sh mariadb postgresql rabbitmq ipmitool qemu guest
#
# A program that is there is left alone. Without root, or on another system, the packages to install are named, and the exit code
# is 1; for ipmitool it is 0, since the tests that need it are skipped without it, and say so.
set -euo pipefail

# Debian keeps servers there, and not every PATH has it.
PATH="$PATH:/usr/sbin"

can_install() { [[ "$(id -u)" == 0 ]] && has apt-get; }
install() {
    echo "Installing $*"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends -o Dpkg::Options::=--force-confold "$@" >/dev/null
}
has() { local name; for name; do type -P "$name" >/dev/null || return 1; done; }
missing() { echo "$1: apt-get install ${*:2}" >&2; return 1; }

# Tests start the server in a folder of theirs; these packages start none, as mariadb-server would.
mariadb() {
    local packages=(mariadb-server-core mariadb-client-core)
    if has mariadbd mariadb-install-db; then return; fi
    if can_install; then install "${packages[@]}"; else missing 'mariadbd is not here' "${packages[@]}"; fi
}

# Debian's package makes a cluster and starts it, unless it is told not to.
postgresql() {
    if has initdb || compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null; then return; fi
    if can_install; then
        mkdir -p /etc/postgresql-common
        [[ -e /etc/postgresql-common/createcluster.conf ]] || echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.conf
        install postgresql
    else
        missing 'initdb is not here' postgresql
    fi
}

# Debian's packages start a broker and the port mapper of Erlang where systemd runs, unless the policy of the machine says no, and
# at each start of the machine, unless their units are disabled. What was there before is left as it was.
rabbitmq() {
    if [[ -x /usr/lib/rabbitmq/bin/rabbitmq-server ]] && has epmd; then return; fi
    if ! can_install; then missing 'rabbitmq-server is not here' rabbitmq-server; return; fi
    local policy=/usr/sbin/policy-rc.d ours= mapper=
    has epmd || mapper=1
    if [[ ! -e "$policy" ]]; then
        ours=1
        printf '#!/bin/sh\nexit 101\n' >"$policy"
        chmod 0755 "$policy"
    fi
    install rabbitmq-server || { [[ -z "$ours" ]] || rm -f "$policy"; return 1; }
    [[ -z "$ours" ]] || rm -f "$policy"
    if has systemctl; then
        systemctl --quiet disable rabbitmq-server.service ${mapper:+epmd.service epmd.socket} >/dev/null 2>&1 || true
    fi
}

# Independent clients of the emulated BMC, and a BMC by others.
ipmitool() {
    local packages=(ipmitool freeipmi-tools openipmi)
    if has ipmitool bmc-info ipmi_sim; then return; fi
    if can_install; then install "${packages[@]}"; else missing 'ipmitool, bmc-info or ipmi_sim is not here' "${packages[@]}" || true; fi
}

# A host for the emulated BMC's ipmi-bmc-extern. The package brings SeaBIOS along, which a guest boots by.
qemu() {
    if has qemu-system-x86_64; then return; fi
    if can_install; then install qemu-system-x86; else missing 'qemu-system-x86_64 is not here' qemu-system-x86; fi
}

# What a guest boots, and its shell. The kernel is unpacked into .guest and not installed, so this machine boots what it always did.
guest() {
    if ! has busybox; then
        if can_install; then install busybox-static; else missing 'busybox is not here' busybox-static; fi
    fi
    if compgen -G '.guest/boot/vmlinuz-*' >/dev/null; then return; fi
    if ! has apt-get dpkg-deb; then
        echo 'apt-get and dpkg-deb are not here: unpack a linux-image of Debian into .guest' >&2
        return 1
    fi
    if can_install; then apt-get update -qq; fi
    local package
    package=$(apt-cache depends linux-image-amd64 | sed -n 's/^ *Depends: //p' | head -n 1)
    echo "Unpacking ${package:-no kernel that apt knows} into .guest"
    rm -rf .guest .guest-new
    mkdir .guest-new
    (
        cd .guest-new
        apt-get download -qq -o APT::Sandbox::User=root "$package"
        dpkg-deb --fsys-tarfile linux-image-*.deb |
            tar -x --wildcards './boot/vmlinuz-*' './lib/modules/*/kernel/drivers/char/ipmi/*'
        rm linux-image-*.deb
    )
    mv .guest-new .guest
}

for program; do
    case $program in
        mariadb | postgresql | rabbitmq | ipmitool | qemu | guest) "$program" ;;
        *) echo "programs.sh knows no $program: mariadb, postgresql, rabbitmq, ipmitool, qemu or guest" >&2; exit 2 ;;
    esac
done
