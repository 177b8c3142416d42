# One list of commands: `make help`. Everything runs in .venv, which make makes.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c

PYTHON ?= python3
BIN := .venv/bin
# Without compiling: Python does so for what is imported, and of the clouds' packages that is little.
# Networks fail at times: each download is tried again, and so is the whole of it.
INSTALL := $(BIN)/pip install --quiet --no-compile --disable-pip-version-check --retries 10
# pip brings uv, and uv the rest: from its cache in seconds. It asks the index that pip would ask, and trusts
# whom the machine trusts; where it cannot, because only pip knows how, pip brings the rest as well.
UV := UV_SYSTEM_CERTS=true UV_DEFAULT_INDEX="$${UV_DEFAULT_INDEX:-$${PIP_INDEX_URL:-$$($(BIN)/pip config get global.index-url 2> /dev/null)}}" $(BIN)/uv pip install --quiet --python $(BIN)/python
install = { $(UV) $(1) 2> /dev/null || $(INSTALL) $(1); }
again = for try in 1 2 3; do $(1) && exit 0; echo "Not fetched at try $$try of 3: $(2)" >&2; sleep 5; done; exit 2
# Where Python is told not to, as many images tell it, each of its starts would compile anew.
unexport PYTHONDONTWRITEBYTECODE
TRAINYARD := $(BIN)/trainyard
IN_SANDBOX := $(TRAINYARD) sandbox exec --
# Python's client of Kubernetes would ask a proxy for 127.0.0.1 too, whatever NO_PROXY says.
WITHOUT_PROXY := env -u HTTPS_PROXY -u https_proxy -u HTTP_PROXY -u http_proxy
SOURCES := .github/scripts api assist benchmarks cache cli delivery examples initializers kube operator platform policies sandbox tests trainers
# A switch is on if it is 1. Of anything else nobody knows what it means, so nothing runs.
switch = $(if $(filter-out 1,$(value $(1)))$(word 2,$(value $(1))),$(error $(1)=$(value $(1)): a switch is 1. To turn it off, leave $(1) out),$(if $(value $(1)),$(2)))

.PHONY: help
help: ## Say what there is
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E "s/:.*## /$$(printf '\t')/" | expand -t 12

CLOUDS := requirements/eks.txt requirements/gke.txt requirements/aks.txt

.venv/.done: pyproject.toml requirements/dev.txt requirements/uv.txt
	@echo "Making the environment .venv ..." >&2
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed; $(PYTHON) is `$(PYTHON) --version`. Say which with: make PYTHON=..." >&2; exit 2; }
	@$(PYTHON) -m venv .venv
	@$(call again,$(INSTALL) --require-hashes -r requirements/uv.txt,uv)
	@$(call again,$(call install,--require-hashes -r requirements/dev.txt),the packages of requirements/dev.txt)
	@$(call install,--no-deps --no-build-isolation --editable .)
	@touch $@

# Large, and only for the recorded graphs of the stacks (docs/adr/0010).
.venv/clouds/.done: .venv/.done $(CLOUDS)
	@$(call again,$(call install,--no-deps --require-hashes --upgrade --target .venv/clouds $(CLOUDS:%=-r %)),the packages of the clouds)
	@touch $@

.PHONY: environment
environment: .venv/.done ## Make or update .venv

.PHONY: cloud
cloud: environment ## Add what pools on a cloud need to .venv: CLOUD=eks, gke or aks
	@$(INSTALL) --no-deps --require-hashes -r "requirements/$${CLOUD:?Say which cloud: make $@ CLOUD=eks, gke or aks}.txt"

# The state is written once, at the end: after each step it takes half of the time
# that there is, and a sandbox that is cut off here is made anew.
.PHONY: demo
demo: environment ## From a fresh clone to a finished distributed TrainJob
	@$(TRAINYARD) sandbox up > /dev/null
	@echo; echo "== make up STACK=sandbox"
	@$(IN_SANDBOX) $(TRAINYARD) up --stack sandbox
	@echo; echo "== a TrainJob through the Kubeflow SDK (examples/digits)"
	@$(IN_SANDBOX) $(WITHOUT_PROXY) python examples/digits/submit.py
	@echo; $(IN_SANDBOX) kubectl get trainjobs,jobsets,pods
	@echo
	@echo "The platform runs on. Use it:    $(TRAINYARD) sandbox exec -- kubectl get trainjobs"
	@echo "                                 $(TRAINYARD) sandbox exec -- python examples/digits/submit.py"
	@echo "Add MPI, JAX, a gang scheduler:  $(TRAINYARD) sandbox up --with all"
	@echo "Stop it and remove all of it:    $(TRAINYARD) sandbox down"

# What mypy knows of our packages and of others', for the next clone: without it, types take a minute.
CACHE := $(or $(TRAINYARD_CACHE),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/trainyard)
TYPES := $(CACHE)/types
# One more than there are processors: some tests wait. macOS has no nproc, and only check needs the number.
PROCESSES = $(shell echo $$(( $$(nproc 2> /dev/null || getconf _NPROCESSORS_ONLN) + 1 )))

# Unlike mv, it moves nothing into a folder that another make has made meanwhile; macOS has no mv -T.
RENAME = $(BIN)/python -c 'import os, sys; os.rename(*sys.argv[1:])'

define types
	$(BIN)/mypy; \
	for file in platform/__main__.py policies/__main__.py .github/scripts/release.py .github/scripts/report.py; do $(BIN)/mypy $$file; done; \
	$(BIN)/lint-imports; \
	mkdir -p $(CACHE) && rm -rf $(TYPES).new.* && cp -r .mypy_cache $(TYPES).new.$$$$ && rm -rf $(TYPES) && $(RENAME) $(TYPES).new.$$$$ $(TYPES) 2> /dev/null || true
endef

UNIT := -m "not sandbox and not long and not soak and not gpu" --ignore tests/e2e

# In a fresh clone, each process of the tests would compile all that they import: one does so first, for all.
# Types beside the tests, for they keep one processor busy. What they find is said when it is found, and at the
# end again. In front is what Ctrl-C has to end: a shell has those behind ignore it.
.PHONY: check
check: environment .venv/clouds/.done ## Lint, types and unit tests (2 minutes)
	@$(BIN)/ruff check --quiet $(SOURCES)
	@$(BIN)/ruff format --quiet --check $(SOURCES)
	@[ -d .mypy_cache ] || [ ! -d $(TYPES) ] || cp -r $(TYPES) .mypy_cache || rm -rf .mypy_cache
	@found=$$(mktemp); trap 'rm -f $$found' EXIT; { { $(types); } 2>&1 | tee $$found; } & types=$$!; code=0; \
	ls tests/__pycache__/conftest.* > /dev/null 2>&1 || $(BIN)/pytest $(UNIT) --collect-only -qq > /dev/null || true; \
	$(BIN)/pytest $(UNIT) --numprocesses $(PROCESSES) --timeout=600 $(REPORT_LOG:%=--report-log=%) || code=$$?; \
	wait $$types || { code=$$?; cat $$found; }; exit $$code

# What git's events call (.github/workflows, docs/gitops.md). Values come to the
# shell as variables, so that no name in a branch is ever read as a command. All
# three look at the cluster first: without that, Pulumi believes its own state.
# Drift is what Pulumi would do, and what it does not see because others have added it.
# With VERBOSE=1 Pulumi speaks for itself.
ON_STACK = --stack "$${STACK:?Say which stack: make $@ STACK=name}"

# A site takes examples out and makes its own of them. What it has taken out stays out, whatever
# became of it since; without a look for renames, nothing of an example gets into the site's own file.
# The strategy is named because git's default one looks for them all the same, before git 2.49.
.PHONY: update
update: ## Merge a later Trainyard into a clone with your own stacks and runtimes: FROM=upstream/main
	@! git rev-parse --quiet --verify MERGE_HEAD > /dev/null || { \
	echo "An earlier merge is not finished: finish it (git commit) or leave it (git merge --abort), then repeat this" >&2; exit 1; }
	@git merge --quiet --no-edit --no-commit --no-ff --strategy=recursive --strategy-option=no-renames "$${FROM:?Say what to merge: make $@ FROM=upstream/main}" > /dev/null || git rev-parse --quiet --verify MERGE_HEAD > /dev/null
	@gone=$$(git status --porcelain | sed -nE 's/^DU ((stacks|runtimes)\/.*)/\1/p'); [ -z "$$gone" ] || xargs git rm --quiet -- <<< "$$gone"
	@if git diff --name-only --diff-filter=U | grep .; then \
	echo "Changed here and in $$FROM: mend these, git add them, git commit; or git merge --abort" >&2; exit 1; fi
	@git rev-parse --quiet --verify MERGE_HEAD > /dev/null || exit 0; git commit --quiet --no-edit

.PHONY: verify
verify: environment ## Stack files, runtimes and the rules on each stack, as a pull request has to pass [SINCE=REF] [ADVICE=1] [FORMAT=github, gitlab, junit, sarif, json]
	@$(TRAINYARD) verify --format "$${FORMAT:-text}" $${SINCE:+--since "$$SINCE"} $(call switch,ADVICE,--advice)

.PHONY: lint
lint: environment ## The policy rules over the catalog [SINCE=REF] [FORMAT=github]
	@$(TRAINYARD) lint --format "$${FORMAT:-text}" $${SINCE:+--since "$$SINCE"}

.PHONY: stacks
stacks: environment ## The stacks that are delivered, as JSON; touched [SINCE=REF]
	@$(TRAINYARD) stacks --without sandbox $${SINCE:+--since "$$SINCE"}

.PHONY: stack
stack: ## Create a stack, and add to its file what Pulumi keeps there: STACK=name [SECRETS=provider]
	@.github/scripts/stack "$${STACK:?Say which stack: make $@ STACK=name}" "$${SECRETS:-}"

.PHONY: preview
preview: environment ## What make up would do, under the policies: STACK=name [OUTCOME=file] [VERBOSE=1]
	@$(TRAINYARD) preview $(ON_STACK) $${OUTCOME:+--outcome "$$OUTCOME"}

.PHONY: manifests
manifests: environment ## A stack as plain YAML, in waves: STACK=name OUTPUT=folder
	@$(TRAINYARD) manifests $(ON_STACK) --output "$${OUTPUT:-manifests/$$STACK}"

.PHONY: impact
impact: environment ## The TrainJobs that a change touches: STACK=name SINCE=REF [FORMAT=json]
	@$(TRAINYARD) impact $(ON_STACK) --since "$${SINCE:?Say since when: make $@ SINCE=origin/main}" --output "$${FORMAT:-text}"

.PHONY: report
report: environment ## What a change does, as Markdown for those who review it: SINCE=REF [RESULTS=folder] [RUN=address]
	@$(TRAINYARD) report --since "$${SINCE:?Say since when: make $@ SINCE=origin/main}" $${RESULTS:+--results "$$RESULTS"} $${RUN:+--run "$$RUN"}

.PHONY: up
up: environment ## Roll a stack out, under the policies, and undo what others have added: STACK=name [KEEP="Kind/name ..."] [REPLACE="Kind/name ..."] [VERBOSE=1]
	@$(TRAINYARD) up $(ON_STACK) --repair --keep "$${KEEP:-}" --replace "$${REPLACE:-}"

.PHONY: destroy
destroy: environment ## Remove a stack's platform and leave its jobs, after saying which and asking: STACK=name [DRY_RUN=1] [YES=1] [VERBOSE=1]
	@$(TRAINYARD) destroy $(ON_STACK) $(call switch,DRY_RUN,--dry-run) $(call switch,YES,--yes)

.PHONY: drift
drift: environment ## Is the cluster what git says? STACK=name [FORMAT=json] [METRICS=file]
	@code=0; \
	$(TRAINYARD) preview $(ON_STACK) --expect-no-changes >&2 || code=$$?; \
	$(TRAINYARD) drift $(ON_STACK) --output "$${FORMAT:-text}" $${METRICS:+--metrics "$$METRICS"} || code=$$?; \
	exit $$code

# CONTRIBUTING.md says what each of the three is for. What they print last is all that one needs to read.
HARNESS := $(BIN)/python -m tests.harness

.PHONY: test
test: environment .venv/clouds/.done ## The gate, as CI runs it: check, and the core of the tests on a sandbox (10 minutes)
	@$(HARNESS) toolchain tools check core

.PHONY: e2e
e2e: environment .venv/clouds/.done ## Every test on a sandbox, the core included (75 minutes) [AREA=name]
	@if [ -n "$${AREA:-}" ]; then $(HARNESS) toolchain all-tools e2e --area "$$AREA"; \
	else $(HARNESS) toolchain all-tools e2e rights; fi

.PHONY: soak
soak: environment .venv/clouds/.done ## The exhaustive runs (hours)
	@$(HARNESS) toolchain all-tools soak

# torchrun is the machine's own, of a PyTorch that was made for its GPUs.
.PHONY: test-gpu
test-gpu: environment ## Rendered TrainJobs over NCCL and with TRL, where there are GPUs, torchrun, scikit-learn and TRL
	@$(BIN)/pytest -m gpu

.PHONY: generate
generate: environment .venv/clouds/.done ## Write what is made from something else (schemas, reference pages, recordings); read the difference [SANDBOX=1]
	@$(HARNESS).generate $(call switch,SANDBOX,--sandbox)

# Each page is checked as it is built: `make check` does the same.
.PHONY: docs
docs: environment ## The documentation as a site, in dist/site [REPOSITORY=address REVISION=ref SITE=address]
	@$(HARNESS).docs $${REPOSITORY:+--repository "$$REPOSITORY"} $${REVISION:+--revision "$$REVISION"} $${SITE:+--site "$$SITE"}

.PHONY: bench
bench: environment ## The benchmarks, against Kubeflow Trainer's controller [QUICK=1] [ONLY="burst ..."]
	@$(BIN)/python -m benchmarks $(call switch,QUICK,--quick) $${ONLY:-}

# Outside of .venv, so that what looks at our requirements adds none to them.
DELIVERABLES := cli data-cache initializers lightgbm operator platform policies trainers
AUDITOR := $(BIN)/uv run --quiet --no-project --isolated --with-requirements requirements/audit.txt --

.PHONY: audit
audit: environment ## Known vulnerabilities in what is locked (asks an advisory service)
	@$(AUDITOR) pip-audit --strict --disable-pip --progress-spinner off $(foreach name,$(DELIVERABLES) dev,--requirement requirements/$(name).txt)

.PHONY: sbom
sbom: environment ## What each deliverable is made of: dist/<name>.cdx.json (CycloneDX)
	@mkdir -p dist
	@for name in $(DELIVERABLES); do \
		$(AUDITOR) cyclonedx-py requirements --output-reproducible --output-file dist/$$name.cdx.json requirements/$$name.txt || exit; \
	done

.PHONY: dist
dist: environment ## Build the wheel, with all that a site needs: dist/trainyard-VERSION-py3-none-any.whl
	@rm -f dist/trainyard-*.whl
	@$(BIN)/hatchling build --target wheel --directory dist > /dev/null
	@ls dist/trainyard-*.whl

.PHONY: context
context: environment ## The build context of an image, as dist/NAME: NAME=operator, initializers, data-cache, trainers or lightgbm
	@$(BIN)/python -c 'from pathlib import Path; from trainyard_sandbox.images import context; context("$(NAME)", Path("dist/$(NAME)"))'

.PHONY: lock
lock: environment ## Lock the requirements anew after a change in pyproject.toml [UPGRADE="package ..."]
	@$(BIN)/python requirements/lock.py $${UPGRADE:-}

VERSION = $(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)

.PHONY: changelog
changelog: environment ## Join the fragments of changes/ as the next version's part of CHANGELOG.md [DRAFT=1]
	@$(BIN)/towncrier build --version $(VERSION) $(or $(call switch,DRAFT,--draft),--yes)

.PHONY: clean
clean: ## Take sandboxes down and remove what make made; caches stay
	@[ ! -x $(TRAINYARD) ] || for name in $$(ls .sandbox 2>/dev/null | grep -v '^artifacts$$'); do $(TRAINYARD) sandbox down --name $$name; done
	@rm -rf .venv .benchmarks .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache .reports .reports.lock
