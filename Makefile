# One command each. `make preview` and `make test` are all a newcomer needs; the rest is for those who change the code.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STACK  ?= spot
OUT    ?= out/$(STACK)
DRILLS ?=
PACK   ?= out/policy-pack
STAMP  := $(VENV)/.installed
VLLM   := .venv-vllm
VLLM_NEW := .venv-vllm-0.33
CHECKS := .venv-workflows

# Packages are installed without bytecode: that of the SDKs is 230 MB, of which a preview uses 30. Python writes it on the
# first import, whatever the shell says, or every `fleet` process would compile the program again.
export PYTHONDONTWRITEBYTECODE :=
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile
PYTEST := $(BIN)/python -m pytest
SLOW   := $(PYTEST) -q -n 2 --dist loadfile -m slow
# Slow tests that only compute. The others wait half of their time, for controllers, servers and simulated hours, and are served first.
# Test by test, in this order: one of minutes that starts last would keep one core idle.
COMPUTING := $(addprefix tests/,facts fleet/preview guides fleet/plan docs)

.DEFAULT_GOAL := help
.PHONY: help lock setup setup-rehearsal setup-lint setup-test setup-benchmark preview doctor rehearse test test-lab test-slow bench-vllm lint types preview-speed schema policy-pack dist policy-readme inventories goldens workflows vllm-check clean

help: ## What each target does
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -e 's/:.*##/|/' | awk -F'|' '{printf "  make %-18s%s\n", $$1, $$2}'

setup: $(STAMP) ## Virtual environment with what a preview needs

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or newer is needed; $(PYTHON) is $$($(PYTHON) -V 2>&1). Try: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 2; }
	@echo "Installing pinned packages into $(VENV) (about 280 MB, once)"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) -c constraints.txt --editable .
	@touch $@

setup-rehearsal: $(STAMP)-rehearsal ## Packages that a rehearsal needs as well
setup-benchmark: $(STAMP)-benchmark ## Packages that benchmarks and `fleet verify` need as well
setup-lint: $(STAMP)-lint ## Linters and mypy
setup-test: $(STAMP)-test ## Packages that the tests need as well: those of rehearsals and benchmarks too

$(STAMP)-rehearsal $(STAMP)-benchmark $(STAMP)-lint $(STAMP)-test: $(STAMP)-%: $(STAMP)
	@echo "Installing the packages of the extra $* into $(VENV) (half a minute, once)"
	@$(PIP) -c constraints.txt --editable '.[$*]'
	@touch $@

preview: setup ## Offline preview of a stack: resources, price, figures, findings, manifests (STACK=spot)
	@$(BIN)/fleet preview --stack $(STACK) --out $(OUT)
	@command -v fleet >/dev/null || echo "Put fleet on the path, once per shell: source $(BIN)/activate"

doctor: setup ## What this machine lacks for preview and for pulumi up
	@$(BIN)/fleet doctor

rehearse: setup-rehearsal ## A stack on a local control plane, with failure drills (STACK=spot DRILLS="--drill drain"); minutes to build, once
	@$(BIN)/fleet rehearse --stack $(STACK) $(DRILLS)

test: setup-test ## The fast suite of what is deployed and of the toolbox
	@$(PYTEST) -q -n 2 --dist loadfile --no-loadscope-reorder -m "not slow" --ignore=tests/lab

test-lab: setup-test ## The fast suite of the lab: when lab, workloads, infra or settings change
	@$(PYTEST) -q -n 2 --dist loadfile --no-loadscope-reorder -m "not slow" tests/lab

test-slow: setup-test ## What takes too long for every commit: the pull-request job in a fresh clone
	@said=$$(mktemp); nice -n 5 $(SLOW) --dist loadgroup --no-loadscope-reorder $(COMPUTING) >"$$said" 2>&1 & computing=$$!; \
	  $(SLOW) $(COMPUTING:%=--ignore=%); failed=$$?; \
	  wait $$computing || failed=1; cat "$$said"; rm "$$said"; exit $$failed

lint: setup-lint ## ruff, yamllint, and the direction of imports (pyproject.toml, importlinter)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/yamllint --strict -c .github/yamllint.yaml .
	@$(BIN)/lint-imports --no-logo

types: setup-rehearsal setup-benchmark setup-lint ## mypy, strict; each program by itself, and the policy pack apart, from its own folder, as it runs
	@$(BIN)/mypy
	@for program in __main__.py docs/examples/*/__main__.py; do $(BIN)/mypy --no-error-summary "$$program" || exit 1; done
	@cd policy && MYPYPATH=.. ../$(BIN)/mypy --strict --config-file= .

preview-speed: setup ## How fast a preview is, against a bare import of the SDK it needs
	@$(BIN)/python tests/fleet/preview/speed.py

schema: setup ## Write settings/stack.schema.json anew
	@$(BIN)/fleet config schema > settings/stack.schema.json.new && mv settings/stack.schema.json.new settings/stack.schema.json

policy-pack: ## The policy pack with the facts and lessons it needs, as a folder that runs alone (PACK=out/policy-pack)
	@rm -rf $(PACK) && mkdir -p $(PACK)
	@tar -c --exclude=__pycache__ --exclude=./config -C policy . | tar -x -C $(PACK)
	@tar -c --exclude=__pycache__ facts LICENSE NOTICE | tar -x -C $(PACK)

dist: setup-lint policy-pack ## Wheel, source distribution and policy pack of this version, as files in out/dist
	@mkdir -p out/dist
	@$(BIN)/python -m build --outdir out/dist .
	@$(BIN)/python -m build --wheel --outdir out/dist lab
	@tar -czf out/dist/policy-pack-$$($(BIN)/fleet --version | cut -d' ' -f2).tar.gz -C $(PACK) .

lock: $(CHECKS)/.installed ## Update constraints.txt (every package, for every environment) and both requirements.lock (with hashes, for where there are credentials)
	@$(CHECKS)/bin/uv pip compile --quiet --universal --python-version 3.11 --no-annotate --no-emit-index-url --custom-compile-command "make lock" \
	  --output-file constraints.txt --extra lint --extra test pyproject.toml
	@for folder in . policy; do $(CHECKS)/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-annotate \
	  --no-emit-index-url --custom-compile-command "make lock" --output-file $$folder/requirements.lock $$folder/requirements.txt || exit 1; done

policy-readme: setup ## Write policy/README.md anew, from the rules
	@$(BIN)/python -m docs.generate.policy_readme

inventories: setup ## Write tests/inventories/ and tests/docs/examples/inventories/ anew; read the diff before you commit it
	@$(BIN)/python -m tests.inventory

goldens: setup-test ## Write the reports' texts in tests/goldens anew; read the diff before you commit it
	@$(PYTEST) -q -m golden --write-goldens

workflows: $(CHECKS)/.installed ## actionlint and zizmor over .github, strictly and offline
	@$(CHECKS)/bin/actionlint .github/workflows/*.yml
	@$(CHECKS)/bin/zizmor --quiet --offline --persona=auditor .github

$(CHECKS)/.installed: tests/workflows/install_checkers.sh tests/workflows/requirements.txt
	@echo "Installing actionlint and zizmor into $(CHECKS) (a minute, once)"
	@PYTHON=$(PYTHON) tests/workflows/install_checkers.sh $(CHECKS)
	@touch $@

vllm-check: $(VLLM)/.installed $(VLLM_NEW)/.installed ## Slow (17 GB once): the real argument parsers of vLLM 0.18.1 and 0.33.0 accept every profile and export every series of the catalogue, the cache code of the first agrees with ours
	@for python in $(VLLM)/bin/python $(VLLM_NEW)/bin/python; do for check in check_parser check_metrics; do $$python -m tests.vllm.$$check || failed=1; done; done; exit $${failed:-0}
	@$(VLLM)/bin/python -m tests.vllm.check_memory

$(VLLM)/.installed: tests/vllm/0.18.1.txt
$(VLLM_NEW)/.installed: tests/vllm/0.33.0.txt
$(VLLM)/.installed $(VLLM_NEW)/.installed:
	@echo "Installing vLLM with its CUDA packages into $(@D) (8 to 9 GB, a minute or more, once)"
	@$(PYTHON) -m venv $(@D)
	@$(@D)/bin/python -m pip install --quiet --disable-pip-version-check uv==0.13.9
	@$(@D)/bin/uv pip install --quiet --python $(@D)/bin/python --no-deps -r $<
	@touch $@

bench-vllm: setup-test $(VLLM)/.installed ## The whole benchmark on this machine with vLLM's own client, against a server that counts every token (9 GB once)
	@$(PYTEST) -q -m slow tests/fleet/bench/test_true_client.py

clean: ## Remove what the other targets made
	@rm -rf out build $(VENV) $(VLLM) $(VLLM_NEW) $(CHECKS) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
