# Every command sets itself up first: a virtual environment in .venv, made once and used again.

PYTHON ?= python3
JOBS ?= 2

BIN := .venv/bin
RUN := $(BIN)/python -m
FORMULAS := examples/digits/model.grad

.PHONY: help demo demo-distributed distributed torch-versions test test-c test-fast test-kernels sanitize c-math fuzz plans sizes mutate check lint types layers bench bench-cpu bench-models bench-memory bench-gpu texts kernels-table examples-table examples-binaries examples-memory enumerate reference tables torchscript format clean
.DEFAULT_GOAL := help

help:
	@echo "make demo     show, check and train: a classifier of handwritten digits by gradients written here"
	@echo "make demo-distributed train a small transformer of formulas on four processes, beside plain torch"
	@echo "make distributed   hold what torch.distributed does with formulas to one process"
	@echo "make test     run the tests"
	@echo "make test-c   run the tests with kernels in C, as GRADSCRIPT_BACKEND=c has every call run"
	@echo "make test-fast run those that find most in a minute"
	@echo "make test-kernels compile every kernel of the tests for every GPU target, and run the suite's interpreted"
	@echo "make sanitize run the kernels in C under gcc's sanitizers of addresses, undefined behaviour and threads"
	@echo "make c-math  hold the math of C kernels to its references over all floats"
	@echo "make fuzz     run random programs on every road beside torch, for as long as ARGS=--minutes=N says"
	@echo "make plans    plan random functions of rows at every size, and run small ones beside torch, for --minutes=N"
	@echo "make sizes    run random functions of rows at sizes that vary beside exact plans, for --minutes=N"
	@echo "make mutate   hold the check to mutants of the library's formulas and of the examples"
	@echo "make check    what CI runs: lint, types, layers, tests"
	@echo "make bench    print the times beside those of peers"
	@echo "make bench-cpu time forwards and gradients by kernels in C beside those of peers"
	@echo "make bench-models plan whole models, and count and time their kernels beside those of peers"
	@echo "make bench-memory measure what backwards keep, by policy and beside torch"
	@echo "make bench-gpu time the kernels of the suite on a GPU, beside those of peers"
	@echo "make texts    count the texts of the suite's kernels over many batch sizes"
	@echo "make kernels-table rewrite what docs/kernels.md says of the suite's kernels"
	@echo "make examples-table rewrite what docs/kernels.md says of the kernels of examples/kernels"
	@echo "make examples-binaries compile these kernels for every GPU target, and rewrite their registers and spills there"
	@echo "make examples-memory rewrite what docs/kernels.md says of what chunked losses hold"
	@echo "make enumerate compare every op with eager torch on torch's own samples, changed in many ways"
	@echo "make reference rewrite docs/ops from schemas and formulas"
	@echo "make tables   rewrite the parser's tables from the grammar, and the index of the ops"
	@echo "make torchscript rewrite docs/torchscript.md from the formulas in the installed torch"
	@echo "make format   rewrite the code as 'make lint' wants it"
	@echo "make clean    remove what the other commands made"

# --- the README's commands ---

demo: .venv/demo.stamp
	@echo "== a formula with its own backward =="
	@$(BIN)/gradscript show $(FORMULAS) swiglu --stage source
	@echo "== lifted: a forward and a backward joined by a context =="
	@$(BIN)/gradscript show $(FORMULAS) swiglu --stage lifted
	@echo "== checked against finite differences =="
	@$(BIN)/gradscript check $(FORMULAS)
	@echo "== trained on real digits =="
	@$(BIN)/python examples/digits/train.py

# On four processes of this machine; ARGS="--steps 60 --backend nccl", of which none is needed.
demo-distributed: .venv/dev.stamp
	@OMP_NUM_THREADS=1 $(BIN)/python -m torch.distributed.run --nproc-per-node 4 examples/distributed/train.py $(ARGS)

# What docs/torch.md says of DDP, FSDP, tensor parallelism and checkpoints, on 2 and 4 processes; it takes minutes.
distributed: .venv/dev.stamp
	OMP_NUM_THREADS=1 $(BIN)/python tests/torch/distributed/distributed_ways.py $(ARGS)

# What holds on which version of torch: ARGS="2.11.0 2.15.0=/path/to/python". Minutes for each, and gigabytes to install.
torch-versions: .venv/dev.stamp
	OMP_NUM_THREADS=1 $(BIN)/python tests/torch/torch_versions.py $(ARGS)

test: .venv/dev.stamp
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(RUN) pytest -n $(JOBS) --dist worksteal

# Each program that is new is compiled, which takes an hour; ARGS="tests/tape -k lists" for some.
test-c: .venv/dev.stamp
	GRADSCRIPT_BACKEND=c OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(RUN) pytest -n $(JOBS) --dist worksteal $(ARGS)

# Random programs on every road beside torch, texts before and after each pass, the face, the syntax, the rooms.
FAST := tests/fuzz/test_generated_programs.py tests/passes tests/project tests/runtime tests/lang tests/docs/test_diagnostics.py
SLOW := tests/lang/test_parser_robustness.py tests/lang/test_parser_mutations.py
SLOWER := tests/fuzz/test_generated_programs.py::test_more_programs_give_what_torch_gives

test-fast: .venv/dev.stamp
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(RUN) pytest -n $(JOBS) --dist worksteal $(FAST) $(SLOW:%=--ignore=%) --deselect=$(SLOWER)

# Thousands of compilations, which take minutes; `make test` compiles a few of them. ARGS=--keep writes docs/kernels.md.
test-kernels: .venv/dev.stamp
	for dtype in float32 float16 bfloat16; do \
	  TRITON_INTERPRET=1 OMP_NUM_THREADS=1 $(BIN)/python tests/support/program_running.py $$dtype || exit 1; \
	done
	$(BIN)/python tests/codegen/compiled_kernels.py
	$(BIN)/python tests/kernels/devices/compiled_suite.py $(ARGS)

# Each sanitizer has a cache of its own, for $$CC is part of what a kernel is kept by. ARGS="-k sum" for some.
ADDRESSES := CC="gcc -fsanitize=address,undefined -fno-sanitize-recover=undefined" ASAN_OPTIONS=detect_leaks=0 \
  LD_PRELOAD="$$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libubsan.so)"
THREADS := CC="gcc -fsanitize=thread" TSAN_OPTIONS=halt_on_error=1 LD_PRELOAD="$$(gcc -print-file-name=libtsan.so)"

sanitize: .venv/dev.stamp
	$(ADDRESSES) OMP_NUM_THREADS=1 $(RUN) pytest tests/codegen/test_c_kernels.py tests/codegen/test_c_traffic.py tests/codegen/test_c_angles.py tests/codegen/test_c_extremes.py tests/codegen/test_c_stages.py $(ARGS)
	$(THREADS) OMP_NUM_THREADS=1 $(RUN) pytest tests/codegen/test_c_kernels.py tests/codegen/test_c_traffic.py tests/codegen/test_c_angles.py tests/codegen/test_c_extremes.py $(ARGS)
	$(RUN) pytest tests/kernels/devices/test_launcher_races.py
	$(THREADS) OMP_NUM_THREADS=1 $(RUN) pytest tests/kernels/c/test_threads.py tests/kernels/c/test_arena.py -k "any_number or threads_share_it"

# An hour for everything; ARGS="exp log" for these alone, --keep writes docs/vector_math.md.
c-math: .venv/dev.stamp
	$(BIN)/python tests/codegen/c_math_all_floats.py $(ARGS)

# What has no kernels, or other numbers than torch, is printed. ARGS="--minutes=10 --seed=0 --programs=1000".
plans: .venv/dev.stamp
	OMP_NUM_THREADS=1 $(BIN)/python tests/fusion/rows/plan_campaign.py $(ARGS)

# What has other bits than an exact plan, or many texts, is printed. ARGS="--minutes=10 --seed=0 --roads=meaning,c".
sizes: .venv/dev.stamp
	OMP_NUM_THREADS=1 $(BIN)/python tests/kernels/sizes/size_campaign.py $(ARGS)

# Hours for all mutants; ARGS="--limit=300 --seed=1" for some, --keep writes docs/mutants.md.
mutate: .venv/dev.stamp
	OMP_NUM_THREADS=1 $(BIN)/python tests/authoring/check/mutation.py $(ARGS)

# What fails is made small and printed. ARGS="--minutes=10 --seed=0 --roads=tape,vjp --keep", of which none is needed.
fuzz: .venv/dev.stamp
	OMP_NUM_THREADS=1 $(BIN)/python tests/fuzz/campaign.py $(ARGS)

# --- what CI runs besides ---

check: lint types layers test

lint: .venv/dev.stamp
	$(RUN) ruff check .
	$(RUN) ruff format --check .

# The repository root is the package, so the checkers see it through a link of the package's name.
types: .venv/dev.stamp
	@mkdir -p build/types && ln -sfn ../.. build/types/gradscript
	$(RUN) mypy

layers: .venv/dev.stamp
	$(BIN)/lint-imports --no-cache

bench: .venv/dev.stamp
	@$(BIN)/python benchmarks/run.py $(ARGS)

# Forward and gradients by kernels in C; ARGS="--threads=1 --turns=15 --compile", of which none is needed. It takes
# minutes with --keep, which writes docs/benchmarks.md.
bench-cpu: .venv/dev.stamp
	@$(BIN)/python benchmarks/cpu.py $(ARGS)

# Whole models: plans, kernels, steps. ARGS="--steps --compile --scale=1 --keep", of which none is needed.
bench-models: .venv/dev.stamp
	@OMP_NUM_THREADS=1 $(BIN)/python benchmarks/plans.py $(ARGS)

# What backwards keep, in bytes and time; ARGS=--keep writes docs/memory.md.
bench-memory: .venv/dev.stamp
	@$(BIN)/python benchmarks/memory.py $(ARGS)

# Times on a GPU; without one it says so. ARGS=--keep writes benchmarks/results/.
bench-gpu: .venv/dev.stamp
	@$(BIN)/python benchmarks/kernels.py $(ARGS)

# Counts the texts of the suite's kernels; ARGS="--sizes=1000 --columns=61 layer_norm", of which none is needed.
texts: .venv/dev.stamp
	@$(BIN)/python benchmarks/batch_texts.py $(ARGS)

# Rewrites what docs/kernels.md says of the suite's kernels; a test says when that is due.
kernels-table: .venv/dev.stamp
	@$(BIN)/python benchmarks/kernel_table.py --keep

# Rewrites what docs/kernels.md says of the memory of chunked losses.
examples-memory: .venv/dev.stamp
	@$(BIN)/python benchmarks/example_memory.py --keep

examples-table: .venv/dev.stamp
	@$(BIN)/python benchmarks/example_table.py --keep

# A quarter of an hour; Triton is needed, a GPU is not.
examples-binaries: .venv/dev.stamp
	@$(BIN)/python benchmarks/example_binaries.py --keep

# An hour for everything; ARGS="--match clamp --change special --limit 20" for a part.
enumerate: .venv/dev.stamp
	OMP_NUM_THREADS=1 $(BIN)/python tests/ops/enumeration.py $(ARGS)

# Rewrites docs/ops from the schemas and formulas; a test says when that is due.
reference: .venv/dev.stamp
	$(RUN) gradscript.authoring.cli.reference

# Rewrites lang/grammar/tables.json from the grammar beside it, and compiler/ops/index.json from what the families of
# ops declare; a test says when that is due.
tables: .venv/demo.stamp
	$(RUN) gradscript.lang.grammar.lalr
	$(RUN) gradscript.compiler.ops.write_index

torchscript: .venv/dev.stamp
	$(BIN)/python tests/torchscript/torchscript_table.py

format: .venv/dev.stamp
	$(RUN) ruff check --fix .
	$(RUN) ruff format .

clean:
	rm -rf .venv build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis

# --- setting up ---

# torch by its exact version, which is the small build for CPUs where the index has one.
.venv/dev.stamp: pyproject.toml .venv/made.stamp
	$(RUN) pip install --quiet --disable-pip-version-check torch==2.13.0
	$(RUN) pip install --quiet --disable-pip-version-check --editable ".[demo,dev]"
	@touch $@ .venv/demo.stamp

.venv/demo.stamp: pyproject.toml .venv/made.stamp
	$(RUN) pip install --quiet --disable-pip-version-check --editable ".[demo]"
	@touch $@

.venv/made.stamp:
	@$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11))" \
	  || { echo "Python 3.11 or newer is needed; name one: make PYTHON=python3.12 …"; exit 1; }
	$(PYTHON) -m venv --clear .venv
	@touch $@
