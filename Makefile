# Everything a newcomer needs, on a fresh Debian or Ubuntu:
#
#   make train    install what is missing, build, get MNIST, train 4 workers by pair-wise averaging
#   make test     install what is missing, build, run all tests
#
# A second call neither reinstalls nor rebuilds.

BUILD  := build/release
MNIST  := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/starling/mnist
PREFIX ?= /usr/local
# A compiler on libtorch wants about 2 GB; memory, not cores, is what a small machine runs out of.
JOBS   ?= $(shell nproc)

.PHONY: all build train test mutate bench mnist setup install asan tsan format check-format clean help

all: build

help:
	@echo "make train         train 4 workers on MNIST by pair-wise averaging"
	@echo "make test          build and run all tests"
	@echo "make mutate        put bugs in, one at a time: do the tests notice? (SHARE=0.1 SEED=3 ONLY=codec)"
	@echo "make bench         all-reduce beside Gloo and Open MPI, training beside PyTorch DDP"
	@echo "make asan | tsan   the tests under the address+undefined or the thread sanitizer"
	@echo "make install       library, headers, CMake package and program (PREFIX=$(PREFIX))"
	@echo "make format        format all sources"

setup:
	@scripts/setup

build: setup
	@mkdir -p build
	@test -f $(BUILD)/build.ninja || { echo "configuring $(BUILD)"; cmake --preset release > build/configure.log 2>&1 || { cat build/configure.log; exit 1; }; }
	@echo "building $(BUILD)"
	@cmake --build --preset release -j $(JOBS) -- --quiet

mnist:
	@scripts/get-mnist $(MNIST)

train: build mnist
	@./starling train --workers 4 --strategy pairwise --passes 1 --period 1 \
	  --model mnist-cnn --data mnist --epochs 3 --batch 64 --lr 0.1 --momentum 0.5 --seed 1

test: build check-format
	@scripts/setup test
	@cd $(BUILD) && ctest --output-on-failure

# A tenth of them: make mutate SHARE=0.1 SEED=3
mutate: setup
	@scripts/mutate --share $(or $(SHARE),1) --seed $(or $(SEED),1) --jobs $(JOBS) --only "$(ONLY)"

bench:
	@scripts/setup bench
	@$(MAKE) --no-print-directory build mnist
	@cmake --preset release > build/configure.log 2>&1 && cmake --build --preset release -j $(JOBS) -- --quiet
	@./starling bench exchange
	@./starling bench training --epochs 1

asan tsan: setup
	@cmake --preset $@ > /dev/null
	@cmake --build --preset $@ -j $(JOBS) -- --quiet
	@cd build/$@ && env -u LD_PRELOAD \
	  TSAN_OPTIONS="suppressions=$(CURDIR)/tests/tsan.supp" \
	  ASAN_OPTIONS=detect_leaks=1 LSAN_OPTIONS="suppressions=$(CURDIR)/tests/lsan.supp" \
	  ctest --output-on-failure

install: build
	@cmake --install $(BUILD) --prefix $(PREFIX)

SOURCES = $(shell git ls-files '*.h' '*.cc')

format:
	@clang-format -i $(SOURCES)

check-format:
	@clang-format --dry-run --Werror $(SOURCES)

clean:
	@rm -rf build
