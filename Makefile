# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
#
# make demo    the main job on emulated machines with real Ironic and real placement
# make test    format, lint, types, documentation, then all tests
#
# Both install what they need into .venv, with the versions of constraints.txt; the second run finds it there.

# Without it, a shell that has no PATH of its own leaves Python unable to say where it is.
export PATH := $(or $(PATH),/usr/local/bin:/usr/bin:/bin)

# Where nothing compiled is kept, each of some hundred processes compiles all of it anew.
export PYTHONDONTWRITEBYTECODE :=

PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
PIP := PYTHONWARNINGS=ignore $(BIN)/python -m pip --quiet --disable-pip-version-check
# Our own build needs setuptools only, which is pinned: no isolated environment with versions of today.
INSTALL := $(PIP) install --constraint constraints.txt --no-build-isolation

.PHONY: demo test lint docs check again constraints samples tenant-fields support-matrix clean bench-inventory bench-fleet bench-flash bench-lists bench-placement bench-ipmi bench-clean soak soak-hostile soak-hostile-ipmi soak-pldm soak-histories soak-lifecycles soak-faults soak-crashes soak-takeover soak-race soak-flood soak-guards soak-zoo soak-honest soak-exploration soak-mutation soak-trees soak-qemu soak-guest mariadb postgresql ipmitool qemu guest
.DELETE_ON_ERROR:

demo: .venv/.installed-demo
	$(BIN)/baremetal-acc demo $(DEMO_ARGS)

test: lint docs check

lint: .venv/.installed-test
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .
	$(BIN)/mypy

docs: .venv/.installed-test
	$(BIN)/sphinx-build --fail-on-warning --keep-going --quiet --jobs auto --builder html doc/source doc/build/html

# A file's tests stay together, the longest files first. Much of the time goes to waiting for real services, so there is one
# worker more than there are cores.
TEST_PROCESSES ?= $(shell expr $$(nproc) + 1)
check: .venv/.installed-test ipmitool
	$(BIN)/python -m pytest --numprocesses $(TEST_PROCESSES) --dist loadfile --no-loadscope-reorder $(PYTEST_ARGS)

# The tests that failed last, alone and one after the other.
again: .venv/.installed-test
	$(BIN)/python -m pytest --last-failed --last-failed-no-failures none $(PYTEST_ARGS)

# What takes too long for every change. SOAK_ARGS: --seed N, --answers N, --only NUMBER (see doc/source/contributor/hostile.rst).
soak: soak-hostile soak-hostile-ipmi soak-pldm soak-histories soak-lifecycles soak-faults soak-zoo soak-crashes soak-takeover soak-race soak-qemu soak-guest soak-flood soak-honest soak-exploration soak-trees soak-guards soak-mutation

soak-hostile: .venv/.installed-test
	$(BIN)/python -m tests.hostile.soak --processes $(or $(SOAK_PROCESSES),2) $(SOAK_ARGS)

# HOSTILE_IPMI_ARGS: --seed N, --seconds N, --only NUMBER (see doc/source/contributor/hostile.rst).
soak-hostile-ipmi: .venv/.installed-test
	$(BIN)/python -m tests.hostile.ipmi $(HOSTILE_IPMI_ARGS)

# PLDM packages that were damaged or forged. PLDM_ARGS: --seed N, --packages N, --only NUMBER (see doc/source/contributor/soak.rst).
soak-pldm: .venv/.installed-test
	$(BIN)/python -m tests.malicious.pldm_packages $(PLDM_ARGS)

soak-histories: .venv/.installed-test
	HISTORIES=$(or $(HISTORIES),10000) $(BIN)/python -m pytest -q -s tests/unit/test_histories.py

# LIFECYCLES_ARGS: --seed N, --lifecycles N, --only SEED (see doc/source/contributor/soak.rst).
soak-lifecycles: .venv/.installed-test
	$(BIN)/python -m tests.lifecycles.soak --processes $(or $(SOAK_PROCESSES),2) $(LIFECYCLES_ARGS)

# Every fault in every way; every point at which a process can die, once and twice; every store at which a conductor can be killed.
soak-faults: .venv/.installed-test
	BAREMETAL_ACC_FAULTS=all $(BIN)/python -m pytest -q tests/faults

soak-crashes: .venv/.installed-test
	BAREMETAL_ACC_SOAK=1 $(BIN)/python -m pytest -q --numprocesses auto --dist loadfile tests/ironic/test_crash_*.py tests/journey/test_restart.py

# Sequences of honest operators, tenants and Nova, none of which may be refused anything (make test plays eight).
soak-zoo: .venv/.installed-test
	BAREMETAL_ACC_ZOO=pairs $(BIN)/python -m pytest -q --numprocesses auto tests/zoo -k 'two_habits or sushy'

soak-honest: .venv/.installed-test
	HONEST=$(or $(HONEST),2000) $(BIN)/python -m pytest -q --numprocesses auto tests/ironic/test_honest.py

# Whatever anybody can do with a node, on a machine that knows the truth; goes on where it was cut off (see doc/source/contributor/soak.rst).
# EXPLORATION_ARGS: --seed N, --seconds N, --sequences N, --only sequence:SEED.
soak-exploration: .venv/.installed-test
	BAREMETAL_ACC_SOAK=1 $(BIN)/python -m pytest -q tests/exploration/test_exploration.py
	$(BIN)/python -m tests.exploration.soak --processes $(or $(SOAK_PROCESSES),2) --folder $(or $(EXPLORATION_FOLDER),/tmp/baremetal-acc-exploration) $(EXPLORATION_ARGS)

# Each link and member of every recorded tree damaged in every way, one at a time; goes on where it was cut off (see doc/source/contributor/soak.rst).
# TREES_ARGS: --looks N, --seconds N, --tree NAME, --only NUMBER.
soak-trees: .venv/.installed-test
	$(BIN)/python -m tests.damaged_trees.soak --processes $(or $(SOAK_PROCESSES),2) --folder $(or $(TREES_FOLDER),/tmp/baremetal-acc-trees) $(TREES_ARGS)

# Every guard is taken out of a copy, and its tests must fail.
soak-guards: .venv/.installed-test
	BAREMETAL_ACC_GUARDS=all $(BIN)/python -m pytest -q tests/mutants

# Every change that mutmut makes of planning/, scheduling/, policy/ and locks/: a test must fail, or mypy. MUTATION_ARGS: --only planning/update_states.py, --sample N.
soak-mutation: .venv/.installed-test
	$(BIN)/python -m tests.mutants.trying --processes $(or $(SOAK_PROCESSES),2) --folder $(or $(MUTATION_FOLDER),/tmp/baremetal-acc-mutation) $(MUTATION_ARGS)

# The host's way to an emulated BMC, with QEMU's devices at its other end.
soak-qemu: .venv/.installed-test qemu
	$(BIN)/python -m tests.emulator_ipmi.qemu

# A Linux guest is the tenant: what its root tries is done, refused when locked, and done when unlocked (see doc/source/contributor/soak.rst).
soak-guest: .venv/.installed-test ipmitool qemu guest
	$(BIN)/python -m tests.emulator_ipmi.guest

# A thousand failed boots for twenty regions of ten machines: each is programmed once (make test has three machines).
soak-flood: .venv/.installed-test
	BAREMETAL_ACC_SOAK=1 $(BIN)/python -m pytest -q --durations=0 tests/journey/test_demand.py -k flood

# Two real conductors and MariaDB: one of them is killed or stopped, the other one takes over (see doc/source/contributor/soak.rst).
soak-takeover: .venv/.installed-test mariadb
	BAREMETAL_ACC_SOAK=1 $(BIN)/python -m pytest -q --durations=0 tests/journey/test_takeover.py $(TAKEOVER_ARGS)

# Publishers and claimers at one placement, with faults (see doc/source/contributor/soak.rst). RACE_ARGS: --operations N, --seed N, --faults 0.3.
RACE_DATABASES ?= mariadb postgresql
soak-race: .venv/.installed-test $(RACE_DATABASES:sqlite=)
	for database in $(RACE_DATABASES); do \
		$(BIN)/python -m tests.race.soak --database $$database $(RACE_ARGS) && \
		$(BIN)/python -m tests.race.hammer --database $$database $(HAMMER_ARGS) || exit 1; \
	done

# Its server is started by the tests, in a folder of theirs; these packages start none (mariadb-server would).
mariadb:
	@if PATH="$$PATH:/usr/sbin" command -v mariadbd mariadb-install-db >/dev/null; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo 'Installing mariadb-server-core'; \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends mariadb-server-core mariadb-client-core >/dev/null; \
	else echo 'mariadbd is not here: apt-get install mariadb-server-core mariadb-client-core' >&2; exit 1; fi

# Independent clients of the emulated BMC, and a BMC by another hand. Without them the tests that need them are skipped, and say so.
ipmitool:
	@if PATH="$$PATH:/usr/sbin" && command -v ipmitool >/dev/null && command -v bmc-info >/dev/null && command -v ipmi_sim >/dev/null; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo 'Installing ipmitool, freeipmi-tools and openipmi'; \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends ipmitool freeipmi-tools openipmi >/dev/null; \
	else echo 'ipmitool, bmc-info or ipmi_sim is not here: apt-get install ipmitool freeipmi-tools openipmi' >&2; fi

# For the emulated BMC at the other end of its ipmi-bmc-extern. The package brings SeaBIOS along, which a guest boots by.
qemu:
	@if command -v qemu-system-x86_64 >/dev/null; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo 'Installing qemu-system-x86'; \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends qemu-system-x86 >/dev/null; \
	else echo 'qemu-system-x86_64 is not here: apt-get install qemu-system-x86' >&2; exit 1; fi

# What a guest boots, and its shell. The kernel is unpacked and not installed: this machine boots what it has always booted.
guest:
	@if command -v busybox >/dev/null; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo 'Installing busybox-static'; \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends busybox-static >/dev/null; \
	else echo 'busybox is not here: apt-get install busybox-static' >&2; exit 1; fi
	@if ls .guest/boot/vmlinuz-* >/dev/null 2>&1; then :; \
	elif command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null; then \
		[ "$$(id -u)" != 0 ] || apt-get update -qq; \
		package=$$(apt-cache depends linux-image-amd64 | sed -n 's/^ *Depends: //p' | head -n 1); \
		echo "Unpacking $${package:-no kernel that apt knows} into .guest"; \
		rm -rf .guest .guest-new && mkdir .guest-new && cd .guest-new && \
		apt-get download -qq -o APT::Sandbox::User=root "$$package" && \
		dpkg-deb --fsys-tarfile linux-image-*.deb | tar -x --wildcards './boot/vmlinuz-*' './lib/modules/*/kernel/drivers/char/ipmi/*' && \
		rm linux-image-*.deb && mv ../.guest-new ../.guest; \
	else echo 'apt-get and dpkg-deb are not here: unpack a linux-image of Debian into .guest' >&2; exit 1; fi

# Debian's package makes a cluster and starts it, unless it is told not to.
postgresql:
	@if ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo 'Installing postgresql'; \
		mkdir -p /etc/postgresql-common; \
		[ -e /etc/postgresql-common/createcluster.conf ] || echo 'create_main_cluster = false' >/etc/postgresql-common/createcluster.conf; \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
			-o Dpkg::Options::=--force-confold postgresql >/dev/null; \
	else echo 'initdb is not here: apt-get install postgresql' >&2; exit 1; fi

.venv/.made: constraints.txt
	@echo 'Making .venv with $(PYTHON)'
	@$(PYTHON) -m venv .venv || { $(PYTHON) -m venv --clear --without-pip .venv && $(PYTHON) -m pip --python .venv/bin/python install --quiet pip; }
	@$(PIP) install --constraint constraints.txt setuptools wheel
	@touch $@

.venv/.installed-demo: .venv/.made setup.cfg
	@echo 'Installing for the demo; the first time takes about a minute'
	@$(INSTALL) --editable '.[demo]'
	@touch $@

.venv/.installed-test: .venv/.made setup.cfg
	@echo 'Installing for the tests; the first time takes about two minutes'
	@$(INSTALL) --editable '.[test,docs]'
	@touch $@

# Pin what pip finds today, with the oldest Python at hand (make constraints PYTHON=...); run make test afterwards.
constraints:
	$(PYTHON) -m venv --clear .venv
	$(PIP) install setuptools wheel
	$(PIP) install --no-build-isolation --editable '.[test,docs]'
	{ sed -n '/^#/p' constraints.txt; $(PIP) freeze --all --exclude pip --exclude baremetal-acc | LC_ALL=C sort -f; } > constraints.new
	mv constraints.new constraints.txt

# Write etc/baremetal_acc/*.sample anew; a test compares them with what the code says.
samples: .venv/.installed-test
	$(BIN)/oslo-config-generator --namespace baremetal_acc --namespace baremetal_acc.ironic --output-file etc/baremetal_acc/baremetal_acc.conf.sample
	$(BIN)/oslopolicy-sample-generator --namespace baremetal_acc --output-file etc/baremetal_acc/policy.yaml.sample

# Write doc/source/reference/tenant_fields.rst anew, from Ironic's policy and tests/ironic/tenant_readers.py; a test compares it.
tenant-fields: .venv/.installed-test
	$(BIN)/python -m tests.ironic.tenant_fields

# Run the tests that say what they show, and note in doc/source/tried.json those that passed; the page support is made from it.
support-matrix: .venv/.installed-test
	$(BIN)/python -m tests.support.matrix

# Side by side with the peers, which get an environment of their own in .bench; doc/source/reference/performance.rst says what is measured.
bench-inventory: .venv/.installed-test
	$(BIN)/python -m benchmarks.inventory.run $(BENCH_ARGS)

bench-fleet: .venv/.installed-test
	$(BIN)/python -m benchmarks.inventory.fleet $(BENCH_ARGS)

# Eight cards of one node, one card of a hundred nodes: ours and Ironic's own update on the same emulated machines. A tray, by a
# bundle and by one upload for each component.
bench-flash: .venv/.installed-test
	$(BIN)/python -m benchmarks.flash.run $(BENCH_ARGS)

# A node's eight accelerators in placement: ours, Cyborg's conductor and Nova's report client on the same real placement.
bench-placement: .venv/.installed-test
	$(BIN)/python -m benchmarks.placement.run $(BENCH_ARGS)

# Commands, an inventory and an upload by HPM.1 over RMCP+: ours, ipmitool and python-ipmi at the same emulated BMCs.
bench-ipmi: .venv/.installed-test ipmitool
	$(BIN)/python -m benchmarks.ipmi.run $(BENCH_ARGS)

# Which requests an inventory of each recording needs, anew; look at the difference by hand.
bench-lists: .venv/.installed-test
	$(BIN)/python -m benchmarks.inventory.larger
	$(BIN)/python -m benchmarks.inventory.needed $(or $(BAREMETAL_ACC_SHARED),../shared)/recordings/[a-z]*/*/ .bench/trees/*/

bench-clean:
	rm -rf .bench

clean:
	rm -rf .venv .guest .guest-new build dist doc/build *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
