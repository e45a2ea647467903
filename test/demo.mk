# SPDX-License-Identifier: Apache-2.0
.PHONY: demo
demo: deps-build ## show the whole flow on real programs, in a few seconds
	@$(MAKE) --no-print-directory all
	@python3 test/demo/demo.py --bin $(BUILD)/bin
