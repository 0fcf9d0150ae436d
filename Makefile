# Commands for developers. On a fresh machine with Rust and root, `make demo` and `make test` install what they need.
CARGO ?= cargo
TARGET = $(or $(CARGO_TARGET_DIR),target)
PREFIX ?= /usr/local
# optional features of the command: none for hosts that only copy files, `full` for all
FEATURES ?= lab scheduler
NEEDS = ip:iproute2 ethtool:ethtool iperf3:iperf3 rsync:rsync ssh:openssh-client sshd:openssh-server nft:nftables pg_ctlcluster:postgresql \
	mkfs.ext4:e2fsprogs mkfs.xfs:xfsprogs mkfs.btrfs:btrfs-progs lowntfs-3g:ntfs-3g faketime:faketime promtool:prometheus jq:jq curl:curl xxd:xxd openssl:openssl strace:strace \
	fish:fish tcsh:tcsh sshpass:sshpass systemd-analyze:systemd python3:python3 pip3:python3-pip ovs-vswitchd:openvswitch-switch c++:g++ pkg-config:pkgconf
export PATH := $(PATH):$(HOME)/.cargo/bin:/usr/sbin:/sbin

SECONDS_EACH ?= 600
# `make test` has 20 power cuts for each scenario, so this has one
CRASH = --runs 5 --files 300 --size 32MiB --rate 200Mb/s --rtt 20ms --cuts 1

.PHONY: help setup build demo demo-domains quick test mutants attacks fuzz check fmt clippy doc book tidy crash sim figures pictures bench lab install deb tarball image wheel capi packages
help: ## print this
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

setup: ## install the tools that lab and demo use, where they are missing
	@scripts/setup $(NEEDS)
build: ## build the command lighthaul, in target/release; FEATURES= for copies alone, FEATURES=full for all
	$(CARGO) build --release --locked --package lighthaul-cli --package lighthaul-wrap --features "$(addprefix lighthaul-cli/,$(FEATURES))" \
		$(if $(filter scheduler full,$(FEATURES)),--package lighthaul-scheduler)
install: build ## put the command, its completions, man pages and units for systemd below PREFIX, /usr/local
	@scripts/lay-out $(TARGET)/release/lighthaul $(TARGET)/release/liblighthaul_wrap.so "$(DESTDIR)" $(PREFIX)
deb: ## build a package for Debian, with a static program, in target/package
	@scripts/package deb
tarball: ## build the same as a tar file for any Linux of this architecture
	@scripts/package tarball
image: ## build the same as a container image, an OCI tar file
	@scripts/package image
wheel: ## build the Python package, in target/wheels
	@scripts/setup python3:python3 pip3:python3-pip
	@python3 -m venv --without-pip $(TARGET)/maturin
	@python3 -m pip --python $(TARGET)/maturin/bin/python install --quiet maturin==1.16.0
	$(TARGET)/maturin/bin/maturin build --release --locked --manifest-path crates/python/Cargo.toml --out $(TARGET)/wheels
capi: ## build the library for C and C++, and put it with its headers below PREFIX, /usr/local
	$(CARGO) build --release --locked --package lighthaul-capi
	@scripts/lay-out-library $(TARGET)/release "$(DESTDIR)" $(PREFIX)
packages: ## install, run and purge these packages in a bare Debian, and copy from there to a host without any
	@scripts/setup $(NEEDS) mmdebstrap:mmdebstrap buildah:buildah
	@scripts/test-packages
demo: setup build ## copy a real tree over a long path, and compare with TCP
	$(CARGO) run --release --locked --quiet --package lighthaul-xtask -- demo
demo-domains: setup ## run three domains with different devices, a path and a copy across them, and the death of one
	$(CARGO) run --locked --quiet --package lighthaul-xtask -- demo-domains
quick: ## run the unit, property and simulated tests, which need neither root nor a network
	@scripts/setup jq:jq
	@scripts/test --workspace --features lighthaul-cli/full --lib --bins --test machines --test calendar --test reference --test world --test simulation --test books --test granted --test filter --test fuzz
test: setup ## run every test, then list those that were skipped, with the reason
	@scripts/setup-tools $(TARGET)/tools
	@scripts/test
mutants: ## mutation tests: change critical code, and list changes that no test finds; ROOMS="journal rights --shard 0/8" for a part
	@scripts/mutants $(ROOMS)
attacks: ## attack daemons, gateways and schedulers for a minute each, with optimization, and print how much honest clients lose
	LIGHTHAUL_ATTACK_SECONDS=60 $(CARGO) test --release --locked --package lighthaul-cli --features lab,scheduler --test cp -- attacks:: pipelining:: --nocapture --test-threads 1
	$(CARGO) test --release --locked --package lighthaul-cli --features lab,scheduler --test gateway -- sixty_four --nocapture --test-threads 1
fuzz: ## fuzz every decoder for 600 seconds each, or SECONDS_EACH
	@scripts/fuzz $(SECONDS_EACH)
check: fmt clippy doc book tidy ## check format, lints, documents and project rules
fmt:
	$(CARGO) fmt --all -- --check
clippy:
	$(CARGO) clippy --locked --workspace --all-targets --features lighthaul-cli/full -- -D warnings
doc:
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --workspace --no-deps
book: ## build the guide, into target/book
	@command -v mdbook >/dev/null || $(CARGO) install --locked --quiet mdbook@0.5.4 --no-default-features
	mdbook build docs --dest-dir $(abspath $(TARGET))/book
tidy: ## check the project rules
	$(CARGO) run --quiet --package lighthaul-tidy
lab: setup build ## open a shell between two hosts, 1 Gb/s and 100 ms apart
	$(TARGET)/release/lighthaul lab shell --rate 1Gb/s --rtt 100ms
crash: ## kill copies and cut the power of disks at random moments, for a minute; SEED=NUMBER repeats a run
	$(CARGO) build --locked --workspace --features lighthaul-cli/full --bin lighthaul
	$(CARGO) xtask crash --program $(TARGET)/debug/lighthaul $(CRASH) $(if $(SEED),--seed $(SEED))
sim: ## run every protocol in random worlds for a minute, then signaling between domains; print seeds and counts
	$(CARGO) xtask sim
	$(CARGO) test --locked --quiet --package lighthaul-stargate --test world --test exhaustive -- --nocapture random_worlds interleavings
figures: build ## draw the papers' figures again
	$(TARGET)/release/lighthaul lab figures figures
pictures: ## draw the pictures again from the accepted tables, without simulations
	$(CARGO) run --locked --package lighthaul-booking-figures --example pictures figures
bench: setup build ## measure Lighthaul and its peers on the same paths; ARGS="--grid" for auto over a grid of paths
	$(CARGO) run --release --locked --quiet --package lighthaul-xtask -- bench $(ARGS)
