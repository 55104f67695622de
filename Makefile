# Everything a newcomer needs, on a fresh Debian or Ubuntu:
#
#   make train    install what is missing, build what trains, get MNIST, train 4 workers by pair-wise averaging
#   make test     install what is missing, build the rest, too, run the tests
#
# A second call neither reinstalls nor rebuilds.

BUILD   := build/release
MNIST   := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/starling/mnist
FASHION := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/starling/fashion-mnist
KJV     := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/starling/kjv
PREFIX  ?= /usr/local
# A compiler on libtorch wants about 2 GB; memory, not cores, is what a small machine runs out of.
JOBS    ?= $(shell nproc)

.PHONY: all build train test python wheel test-torch2 test-mpich test-clusters mutate fuzz bench mnist fashion-mnist kjv setup install deb sanitize asan tsan format check-format clean help

all: build

help:
	@echo "make train         train 4 workers on MNIST by pair-wise averaging"
	@echo "make test          build and run the tests"
	@echo "make python        build the Python package, to be used in place; make wheel: to be installed"
	@echo "make test-torch2   the Python tests with the newest torch that the Python registry has"
	@echo "make test-mpich    the tests over MPI with MPICH, as make test runs them with Open MPI"
	@echo "make test-clusters the tests on a Slurm and on a Kubernetes, which are installed and started for them"
	@echo "make fashion-mnist get Fashion-MNIST, for --data fashion-mnist"
	@echo "make kjv           get the King James Bible, for --data kjv"
	@echo "make mutate        put bugs in, one at a time: do the tests notice? (SHARE=0.1 SEED=3 ONLY=codec)"
	@echo "make fuzz          give nonsense to all that reads what others send, a minute each (SECONDS=3600 ONLY=frames)"
	@echo "make bench         all-reduce beside Gloo and Open MPI, training beside PyTorch DDP, codecs"
	@echo "make sanitize      the tests without libtorch under the address+undefined and the thread sanitizer"
	@echo "make install       library, headers, CMake package and program (PREFIX=$(PREFIX))"
	@echo "make deb           the same as Debian packages, into build/packages"
	@echo "make format        format all sources"

setup:
	@scripts/setup

# $(call configure,PRESET); what is found then decides whether tests and peers are built.
configure = @mkdir -p build && echo "configuring build/$(1)" && \
  { cmake --preset $(1) > build/configure.log 2>&1 || { cat build/configure.log; exit 1; }; }
# $(call compile,PRESET,TARGETS)
compile = @echo "building build/$(1)" && cmake --build --preset $(1) -j $(JOBS) --target $(2) -- --quiet

# The two programs, and so all libraries; neither tests, nor peers, nor examples.
build: $(BUILD)/build.ninja
	$(call compile,release,starling-program starling-trainer)

$(BUILD)/build.ninja: | setup
	$(call configure,release)

mnist:
	@scripts/get-mnist $(MNIST)

fashion-mnist:
	@scripts/get-fashion-mnist $(FASHION)

kjv:
	@scripts/get-kjv $(KJV)

# An installed program of this very source (make deb) is taken as it is; nothing has to be built then.
train:
	@program=$$(scripts/installed) || { program=./starling && $(MAKE) --no-print-directory build; } && \
	  $(MAKE) --no-print-directory mnist && $$program train --workers 4 --strategy pairwise --passes 1 --period 1 \
	  --model mnist-cnn --data mnist --epochs 3 --batch 64 --lr 0.1 --momentum 0.5 --seed 1

# Side by side; what fails runs once more with the machine for itself, and its first failure stays to be read above. Many
# tests are of real processes with deadlines, which a neighbour can keep from the processor for long. What a sanitizer has
# found stands.
ctest = { ctest -j $(JOBS) --output-on-failure --no-tests=error $(1) || \
  { ! grep -qE "(ERROR|WARNING): [A-Za-z]*Sanitizer|runtime error: " Testing/Temporary/LastTest.log && \
    echo "once more, each by itself, what has failed:" && ctest --rerun-failed --output-on-failure; }; }

test:
	@scripts/setup test
	@$(MAKE) --no-print-directory check-format
	$(call configure,release)
	$(call compile,release,all)
	@cd $(BUILD) && $(call ctest,-LE cluster)

test-clusters:
	@scripts/setup test
	@scripts/setup slurm
	@scripts/setup kubernetes
	$(call configure,release)
	$(call compile,release,starling-program starling-trainer)
	@cd $(BUILD) && ctest -L cluster --output-on-failure --no-tests=error

# The core module beside links to the package's files: PYTHONPATH=build/release/python.
python:
	@scripts/setup python
	$(call configure,release)
	$(call compile,release,_core starling-program)
	@echo "PYTHONPATH=$(CURDIR)/$(BUILD)/python"

wheel:
	@scripts/setup python
	@pip wheel --no-deps --wheel-dir build/wheels .

test-torch2: python
	@tests/python/with_torch2 $(BUILD)

test-mpich:
	@scripts/setup mpich
	$(call configure,mpich)
	$(call compile,mpich,mpi_test mpi-loop starling-program starling-trainer starling-peer-mpi)
	@cd build/mpich && ctest -R '^mpi_' --output-on-failure --no-tests=error

# A tenth of them: make mutate SHARE=0.1 SEED=3
mutate:
	@scripts/setup test
	@scripts/mutate --share $(or $(SHARE),1) --seed $(or $(SEED),1) --jobs $(JOBS) --only "$(ONLY)"

# An hour each: make fuzz SECONDS=3600. One of them: make fuzz ONLY=frames.
fuzz:
	@scripts/setup fuzz
	$(call configure,fuzz)
	$(call compile,fuzz,starling-fuzz)
	@scripts/fuzz $(or $(SECONDS),60) $(ONLY)

bench:
	@scripts/setup bench
	@$(MAKE) --no-print-directory mnist
	$(call configure,release)
	$(call compile,release,all)
	@./starling bench exchange
	@./starling bench training --epochs 1
	@./starling bench codecs
	@$(BUILD)/bin/bench-codecs

# Over all that does not load libtorch, which is not built for them.
sanitize: asan tsan

asan tsan:
	@scripts/setup test
	$(call configure,$@)
	$(call compile,$@,all)
	@cd build/$@ && env -u LD_PRELOAD \
	  TSAN_OPTIONS="suppressions=$(CURDIR)/tests/tsan.supp" UBSAN_OPTIONS=print_stacktrace=1 \
	  ASAN_OPTIONS=detect_leaks=1 LSAN_OPTIONS="suppressions=$(CURDIR)/tests/lsan.supp:print_suppressions=0" \
	  bash -c '$(call ctest)'

# starling and libstarling-dev, for this machine's distribution and processor.
deb:
	@scripts/setup deb
	@$(MAKE) --no-print-directory build
	@cpack --config $(BUILD)/CPackConfig.cmake > build/package.log 2>&1 || { cat build/package.log; exit 1; }
	@ls build/packages/*.deb

install: build
	@cmake --install $(BUILD) --prefix $(PREFIX) --strip

SOURCES = $(shell git ls-files '*.h' '*.cc')

format:
	@clang-format -i $(SOURCES)

check-format:
	@clang-format --dry-run --Werror $(SOURCES)

clean:
	@rm -rf build
