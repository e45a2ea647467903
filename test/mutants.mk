# SPDX-License-Identifier: Apache-2.0
.PHONY: mutants
mutants: ## put deliberate faults into copies of the core and see which test catches them; K=PATTERN selects
	@test/mutants/run.py $(if $(K),-k $(K))
