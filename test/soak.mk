# SPDX-License-Identifier: Apache-2.0
.PHONY: soak
soak: $(addprefix $(BUILD)/bin/,csireg-agent csireg-mock-driver csireg-apiserver) ## disturb the agent for long and watch it: make soak T=MINUTES SEED=S
	@test/soak/run.py --bin $(BUILD)/bin --minutes $(T) $(if $(SEED),--seed $(SEED))
