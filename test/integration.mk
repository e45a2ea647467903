# SPDX-License-Identifier: Apache-2.0
.PHONY: integration
integration: all ## run the scenarios with the programs; K=PATTERN selects
	@python3 test/integration/run.py --bin $(BUILD)/bin $(if $(K),-k $(K))
