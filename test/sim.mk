# SPDX-License-Identifier: Apache-2.0
.PHONY: sim diagram
sim: $(BUILD)/bin/csireg-sim ## run the simulator: make sim SEEDS=N FROM=S
	$(BUILD)/bin/csireg-sim --seeds $(SEEDS) --from $(FROM)

diagram: $(BUILD)/bin/csireg-sim ## make the state machine's diagram anew from its table
	$(BUILD)/bin/csireg-sim --diagram > lib/core/registration.mmd

.PHONY: sim-coverage
sim-coverage: $(BUILD)/bin/csireg-sim ## which inputs met which states in the simulator, and which cannot
	$(BUILD)/bin/csireg-sim --seeds $(SEEDS) --from $(FROM) --coverage
