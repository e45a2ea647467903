# SPDX-License-Identifier: Apache-2.0
# Tests of engine and manager have plugins to register, and a host.
DOUBLES_O := $(call obj,$(wildcard test/doubles/*.c) $(COMMON_C))
ENGINE_UNITS := test_engine test_manager test_doors
$(foreach t,$(ENGINE_UNITS),$(eval EXTRA_$(t) := $(DOUBLES_O)))
$(addprefix $(BUILD)/unit/,$(ENGINE_UNITS)): $(DOUBLES_O)
