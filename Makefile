# SPDX-FileCopyrightText: The baremetal-acc authors
# SPDX-License-Identifier: Apache-2.0
#
# Two commands: make demo and make test. make help lists the rest; what is needed rarely is a session of nox (noxfile.py).
#
# Targets install what they need into .venv, with the versions and hashes of requirements/; the second run finds it there.

# Without PATH in the environment Python cannot determine sys.executable.
export PATH := $(or $(PATH),/usr/local/bin:/usr/bin:/bin)

# With PYTHONDONTWRITEBYTECODE set, each of some hundred processes would compile everything again.
export PYTHONDONTWRITEBYTECODE :=

PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
PIP := PYTHONWARNINGS=ignore $(BIN)/python -m pip --quiet --disable-pip-version-check
# pip accepts a file only if its hash is in the lock file.
INSTALL := $(PIP) install --require-hashes --requirement
# Our own build needs setuptools only, which is locked: no isolated environment with versions of today.
OURS := $(PIP) install --no-deps --no-build-isolation --editable .

BENCHMARKS := inventory fleet flash placement revocation ipmi
SOAKS := hostile hostile-ipmi pldm histories lifecycles faults zoo crashes takeover race nova cyborg qemu guest flood honest exploration trees \
	guards mutation verbs matrix docs evidence

.PHONY: help demo test bench bench-lists $(BENCHMARKS:%=bench-%) soak $(SOAKS:%=soak-%) samples clean lint docs man check
.DELETE_ON_ERROR:

help:
	@echo 'make demo        run the main job on emulated machines, with real Ironic and real placement'
	@echo 'make test        check format, lint and types, build the documentation, run all tests'
	@echo 'make bench       run all benchmarks, with the options in BENCH_ARGS'
	@echo 'make bench-NAME  run one: $(BENCHMARKS); bench-lists writes the lists of needed requests'
	@echo 'make soak        run all long tests: five hours'
	@echo 'make soak-NAME   run one: $(wordlist 1,9,$(SOAKS))'
	@echo '                 $(wordlist 10,99,$(SOAKS))'
	@echo 'make samples     write the sample files of etc/baremetal_acc'
	@echo 'make man         write the manual page doc/build/man/baremetal-acc.1'
	@echo 'make clean       remove everything that make has built or installed in this folder'
	@echo
	@echo 'For rarer tasks, see .venv/bin/nox --list (make test installs nox)'

demo: .venv/.installed-demo
	$(BIN)/baremetal-acc demo $(DEMO_ARGS)

test: lint docs check

lint: .venv/.installed-test
	$(BIN)/ruff format --check --quiet .
	$(BIN)/ruff check --quiet .
	$(BIN)/mypy

docs: .venv/.installed-test man
	$(BIN)/sphinx-build --fail-on-warning --keep-going --quiet --jobs auto --doctree-dir doc/build/doctrees --builder html doc/source doc/build/html

# The manual page doc/build/man/baremetal-acc.1, for packages of distributions.
man: .venv/.installed-test
	$(BIN)/sphinx-build --fail-on-warning --keep-going --quiet --jobs auto --doctree-dir doc/build/doctrees --builder man doc/source doc/build/man

# A file's tests stay together, the longest files first. Much of the time goes to waiting for real services, so there is one
# worker more than there are cores.
TEST_PROCESSES ?= $(shell expr $$(nproc) + 1)
check: .venv/.installed-test
	tests/tools/programs.sh ipmitool
	$(BIN)/python -m pytest --numprocesses $(TEST_PROCESSES) --dist loadfile --no-loadscope-reorder $(PYTEST_ARGS)

# What takes too long for every change (doc/source/contributor/soak.rst).
soak: $(SOAKS:%=soak-%)

# SOAK_ARGS: --seed N, --answers N, --only NUMBER (see doc/source/contributor/hostile.rst).
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

# Whatever anybody can do with a node, on a machine that knows the truth; resumes where it was interrupted (see doc/source/contributor/soak.rst).
# EXPLORATION_ARGS: --seed N, --seconds N, --sequences N, --only sequence:SEED.
soak-exploration: .venv/.installed-test
	BAREMETAL_ACC_SOAK=1 $(BIN)/python -m pytest -q tests/exploration/test_exploration.py
	$(BIN)/python -m tests.exploration.soak --processes $(or $(SOAK_PROCESSES),2) --folder $(or $(EXPLORATION_FOLDER),/tmp/baremetal-acc-exploration) $(EXPLORATION_ARGS)

# Each link and member of every recorded tree damaged in every way, one at a time; resumes where it was interrupted (see doc/source/contributor/soak.rst).
# TREES_ARGS: --looks N, --seconds N, --tree NAME, --only NUMBER.
soak-trees: .venv/.installed-test
	$(BIN)/python -m tests.damaged_trees.soak --processes $(or $(SOAK_PROCESSES),2) --folder $(or $(TREES_FOLDER),/tmp/baremetal-acc-trees) $(TREES_ARGS)

# All commands of the pages on Ironic, and the quickstart with the demo (make test runs those that take less).
soak-docs: .venv/.installed-test
	BAREMETAL_ACC_DOCS=all $(BIN)/python -m pytest -q tests/journey/test_pages.py

# Every guard is taken out of a copy, and its tests must fail.
soak-guards: .venv/.installed-test
	BAREMETAL_ACC_GUARDS=all $(BIN)/python -m pytest -q tests/mutants

# Every change that mutmut makes of planning/, scheduling/, policy/ and locks/: a test must fail, or mypy. MUTATION_ARGS: --only planning/update_states.py, --sample N.
soak-mutation: .venv/.installed-test
	$(BIN)/python -m tests.mutants.trying --processes $(or $(SOAK_PROCESSES),2) --folder $(or $(MUTATION_FOLDER),/tmp/baremetal-acc-mutation) $(MUTATION_ARGS)

# The unit tests with each Python and with the libraries of each series of OpenStack (see doc/source/contributor/soak.rst).
# MATRIX_ARGS: --only 3.11/2026.1, --ironic, --processes N.
soak-matrix: .venv/.installed-test
	$(BIN)/python -m tests.tools.matrix --folder $(or $(MATRIX_FOLDER),/tmp/baremetal-acc-matrix) $(MATRIX_ARGS)

# What real devices have signed, with every byte changed, one at a time: the evidence of the shared folder.
soak-evidence: .venv/.installed-test
	BAREMETAL_ACC_EVIDENCE=all $(BIN)/python -m pytest -q --numprocesses auto tests/unit/images/test_genuine_evidence.py

# The host's way to an emulated BMC, with QEMU's devices at its other end.
soak-qemu: .venv/.installed-test
	tests/tools/programs.sh qemu
	$(BIN)/python -m tests.emulator_ipmi.qemu

# A Linux guest is the tenant: what its root tries is done, refused when locked, and done when unlocked (see doc/source/contributor/soak.rst).
soak-guest: .venv/.installed-test
	tests/tools/programs.sh ipmitool qemu guest
	$(BIN)/python -m tests.emulator_ipmi.guest
	$(BIN)/python -m tests.emulator_ipmi.refused_writes --lie
	$(BIN)/python -m tests.emulator_ipmi.refused_writes --write

# A thousand failed boots for twenty regions of ten machines: each is programmed once (make test has three machines).
soak-flood: .venv/.installed-test
	BAREMETAL_ACC_SOAK=1 $(BIN)/python -m pytest -q --durations=0 tests/journey/test_demand.py -k flood

# Two real conductors and MariaDB: one of them is killed or stopped, the other one takes over (see doc/source/contributor/soak.rst).
soak-takeover: .venv/.installed-test
	tests/tools/programs.sh mariadb
	BAREMETAL_ACC_SOAK=1 $(BIN)/python -m pytest -q --durations=0 tests/journey/test_takeover.py $(TAKEOVER_ARGS)

# A tenant's servers with all services of Nova, Keystone, MariaDB and RabbitMQ (see doc/source/contributor/soak.rst). NOVA_ARGS: -x, -k rebuild.
soak-nova: .venv/.installed-cloud
	tests/tools/programs.sh mariadb rabbitmq
	BAREMETAL_ACC_SOAK=1 $(BIN)/python -m pytest -q --durations=0 tests/nova_end_to_end $(NOVA_ARGS)

# Cyborg's conductor and ours report the same cards to one placement (see doc/source/contributor/soak.rst). CYBORG_ARGS: -x, -k twice.
soak-cyborg: .venv/.installed-cloud
	tests/tools/programs.sh mariadb rabbitmq
	BAREMETAL_ACC_SOAK=1 $(BIN)/python -m pytest -q --durations=0 tests/cyborg $(CYBORG_ARGS)

# Publishers and claimers at one placement, with faults (see doc/source/contributor/soak.rst). RACE_ARGS: --operations N, --seed N, --faults 0.3.
RACE_DATABASES ?= mariadb postgresql
soak-race: .venv/.installed-test
	tests/tools/programs.sh $(RACE_DATABASES:sqlite=)
	for database in $(RACE_DATABASES); do \
		$(BIN)/python -m tests.race.soak --database $$database $(RACE_ARGS) && \
		$(BIN)/python -m tests.race.hammer --database $$database $(HAMMER_ARGS) || exit 1; \
	done

# Every verb of the command line in every condition, and with every wrong value of every option (see doc/source/contributor/soak.rst).
# VERBS_ARGS: --verbs EXPRESSION, --conditions EXPRESSION, --only 'VERB: CONDITION'.
soak-verbs: .venv/.installed-test
	$(BIN)/python -m tests.conditions.soak --processes $(or $(SOAK_PROCESSES),2) $(VERBS_ARGS)

.venv/.made:
	@echo 'Making .venv with $(PYTHON)'
	@$(PYTHON) -m venv .venv || { $(PYTHON) -m venv --clear --without-pip .venv && $(PYTHON) -m pip --python .venv/bin/python install --quiet pip; }
	@touch $@

.venv/.installed-demo: .venv/.made setup.cfg requirements/core.txt requirements/demo.txt
	@echo 'Installing for the demo; the first time takes about a minute'
	@$(INSTALL) requirements/demo.txt
	@$(OURS)
	@touch $@

.venv/.installed-test: .venv/.made setup.cfg requirements/core.txt requirements/demo.txt requirements/test.txt
	@echo 'Installing for the tests; the first time takes about two minutes'
	@$(INSTALL) requirements/test.txt
	@$(OURS)
	@touch $@

.venv/.installed-cloud: .venv/.installed-test requirements/cloud.txt
	@echo 'Installing Keystone and Cyborg for the tests of a whole cloud'
	@$(INSTALL) requirements/cloud.txt
	@touch $@

# A test compares these files with the code.
samples: .venv/.installed-test
	$(BIN)/oslo-config-generator --namespace baremetal_acc --namespace baremetal_acc.ironic --output-file etc/baremetal_acc/baremetal_acc.conf.sample
	$(BIN)/baremetal-acc-ironic-conf --config-file /dev/null --config-dir etc/baremetal_acc/ironic.conf.d --output etc/baremetal_acc/ironic.conf.d/50-baremetal-acc.conf
	$(BIN)/oslopolicy-sample-generator --namespace baremetal_acc --output-file etc/baremetal_acc/policy.yaml.sample

# Next to the peers, which are installed into .bench; doc/source/reference/performance.rst says what is measured.
bench: $(BENCHMARKS:%=bench-%)

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

# One deny entry against a whole conductor, with its database and a real placement; takes about an hour with 3,500 nodes.
bench-revocation: .venv/.installed-test
	$(BIN)/python -m benchmarks.revocation.run $(BENCH_ARGS)

# Commands, an inventory and an upload by HPM.1 over RMCP+: ours, ipmitool and python-ipmi at the same emulated BMCs.
bench-ipmi: .venv/.installed-test
	tests/tools/programs.sh ipmitool
	$(BIN)/python -m benchmarks.ipmi.run $(BENCH_ARGS)

# Which requests an inventory of each recording needs. It measures nothing, so make bench does not run it; review the difference.
bench-lists: .venv/.installed-test
	$(BIN)/python -m benchmarks.inventory.larger
	$(BIN)/python -m benchmarks.inventory.needed $(or $(BAREMETAL_ACC_SHARED),../shared)/recordings/[a-z]*/*/ .bench/trees/*/

clean:
	rm -rf .venv .nox .bench .guest .guest-new build dist doc/build *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
