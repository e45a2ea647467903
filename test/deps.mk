# SPDX-License-Identifier: Apache-2.0
# The makefile asks pkg-config while it is read: what needs packages that may be missing runs in a second make.
.PHONY: deps deps-build
deps: ## install the Debian packages that building and testing need, if any is missing
	@test/deps.sh test

deps-build:
	@test/deps.sh build
