# SPDX-License-Identifier: Apache-2.0
# Unit tests of examples/common and of the mock driver link what they test.
COMMON_UNITS := test_flags test_log test_httpd test_unix_socket test_grpc_server test_mock_driver
COMMON_O := $(call obj,$(COMMON_C))
$(foreach t,$(COMMON_UNITS),$(eval EXTRA_$(t) := $(COMMON_O)))
$(addprefix $(BUILD)/unit/,$(COMMON_UNITS)): $(COMMON_O)

MOCK_UNIT_O := $(call obj,$(filter-out %/main.c,$(MOCK_C)))
EXTRA_test_mock_driver += $(MOCK_UNIT_O)
$(BUILD)/unit/test_mock_driver: $(MOCK_UNIT_O)
