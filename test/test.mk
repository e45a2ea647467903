# SPDX-License-Identifier: Apache-2.0
.PHONY: test unit-programs
test: deps ## install what is missing, build, run every test; the last line counts
	@python3 test/run-all.py

unit-programs: $(UNIT_BIN)
