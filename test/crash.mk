# SPDX-License-Identifier: Apache-2.0
N ?= 200
.PHONY: crash
crash: all ## kill the agent at random moments of a wave of drivers: make crash N=ROUNDS SEED=S
	@CSIREG_CRASH_ROUNDS=$(N) CSIREG_CRASH_SEED=$(SEED) python3 test/integration/run.py --bin $(BUILD)/bin -k crash.
