# SPDX-License-Identifier: Apache-2.0
# The whole project by short names: `make demo` shows it at work, `make test` checks it, `make help` lists the rest.
# Every target sets up what it needs; JOBS, PRESET (release, debug, ci) and PREFIX may be given.
PRESET ?= release
JOBS   ?= $(shell nproc)
BUILD  := build/$(PRESET)
PYTHON ?= python3
PREFIX ?= /usr/local
GPU_SECTIONS ?= smoke fuzz real splits contracts graphs companions misuse repeatability
CERTIFY ?=
.DEFAULT_GOAL := help
.PHONY: help setup build tool lab install demo test nightly test-torch test-gpu certify certify-sanitizers kernels python check fmt report clean

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

configure = mkdir -p build && cmake --preset $(PRESET) -DSLUICE_BUILD_TESTS=$(1) > build/configure-$(PRESET).log 2>&1 \
	|| { cat build/configure-$(PRESET).log; exit 1; }

setup:  ## install what is missing (Debian packages; with sudo when not root)
	@tools/setup.sh --quiet

build: setup  ## the library, the sluice tool and all tests
	@$(call configure,ON)
	@cmake --build --preset $(PRESET) -j $(JOBS)

# What `make install` copies: the tool and both libraries. A folder that has tests keeps them.
tool:
	@tools/setup.sh --tool --quiet
	@[ -e $(BUILD)/build.ninja ] || { $(call configure,OFF); }
	@cmake --build --preset $(PRESET) -j $(JOBS) --target sluice_cli sluice_c

lab:  ## the authors' tool, $(BUILD)/sluice_lab: verify, rows, calibrate, fit
	@[ -e $(BUILD)/build.ninja ] || { $(call configure,OFF); }
	@cmake --build --preset $(PRESET) -j $(JOBS) --target sluice_lab

install: tool  ## library, headers, tool and CMake package into PREFIX
	@cmake --install $(BUILD) --prefix $(abspath $(PREFIX)) > build/install.log || { cat build/install.log; exit 1; }
	@echo "installed in $(abspath $(PREFIX)): find_package(sluice) with CMAKE_PREFIX_PATH=$(abspath $(PREFIX))"

# SLUICE: a tool built elsewhere, for a machine that has a GPU but nothing to build with.
demo: $(if $(SLUICE),,tool)  ## plan, compile, run and verify one product: on the GPU beside cuBLASLt, or on the host twin
	@$(or $(SLUICE),$(BUILD)/sluice) run --device auto

test: build  ## everything that needs neither a GPU nor PyTorch
	@ctest --preset $(PRESET) -j $(JOBS)

nightly: build  ## what takes longer: fuzzers, every interleaving of small cases, times of compiling
	@ctest --preset nightly -j $(JOBS)

test-torch: build  ## sluice.torch as far as it goes without a GPU (downloads 3 GB of PyTorch, once)
	@tools/python_test.sh --torch $(BUILD) || { code=$$?; [ $$code = 77 ] || exit $$code; }

test-gpu: build  ## a first look on this machine's Hopper GPU, fewer cases; GPU_SECTIONS picks
	@$(PYTHON) tools/certify.py --build $(BUILD) --quick --sections "$(GPU_SECTIONS)"

# SLUICE_BUILD: a build folder carried here, for a machine that has a GPU but nothing to build with.
certify: $(if $(SLUICE_BUILD),,build)  ## all that needs a GPU, into bench/results/GPU/certificate.json; goes on where it stopped
	@$(PYTHON) tools/certify.py --build $(or $(SLUICE_BUILD),$(BUILD)) $(CERTIFY)

certify-sanitizers: $(if $(SLUICE_BUILD),,build)  ## of that, compute-sanitizer alone: it takes the longest
	@$(PYTHON) tools/certify.py --build $(or $(SLUICE_BUILD),$(BUILD)) --sections sanitizers $(CERTIFY)

# Needs NVRTC and no GPU; compiles only kernels whose headers have another text than when they ran.
kernels:  ## compare the kernels of the certificates with those of this tree, for `make report`
	@$(call configure,ON)
	@cmake --build --preset $(PRESET) -j $(JOBS) --target sluice_unchanged sluice_cli
	@$(PYTHON) tools/certify_kernels.py --build $(BUILD)

python: build  ## the Python package: its tests in a clean venv, and wheels for a GPU machine in $(BUILD)/wheels
	@tools/python_test.sh $(BUILD) && tools/python_wheels.sh $(BUILD) $(BUILD)/wheels

check:  ## format, include rules, file lengths, names of files, comments, copies
	@$(PYTHON) tools/check_includes.py
	@$(PYTHON) tools/check_references.py
	@$(PYTHON) tools/check_lengths.py
	@$(PYTHON) tools/check_comments.py
	@$(PYTHON) tools/check_pages.py
	@$(PYTHON) tools/overlap.py --check
	@tools/format.sh --check

fmt:  ## clang-format in place
	@tools/format.sh

report:  ## make the pages that come from bench/results: docs/performance.md, and blocks of README and docs/testing.md
	@$(PYTHON) tools/report.py

clean:  ## remove build products
	@rm -rf build
