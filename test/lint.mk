# SPDX-License-Identifier: Apache-2.0
.PHONY: lint format
lint: ## check format, house rules and generated files; static analysis
	@test/lint/run.sh

format: ## put all C files into the project's format
	find include lib examples test -name '*.[ch]' ! -name '*.pb-c.[ch]' | xargs clang-format -i
