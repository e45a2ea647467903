# SPDX-License-Identifier: Apache-2.0
.PHONY: behaviours
behaviours: ## check that every reported behaviour has its tests
	@test/behaviours.py
