# SPDX-License-Identifier: Apache-2.0
# Unit tests of examples/common link what they test.
COMMON_UNIT_O := $(call obj,$(COMMON_C))
EXTRA_test_flags := $(COMMON_UNIT_O)
EXTRA_test_log := $(COMMON_UNIT_O)
$(BUILD)/unit/test_flags $(BUILD)/unit/test_log: $(COMMON_UNIT_O)
