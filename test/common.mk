# SPDX-License-Identifier: Apache-2.0
# Unit tests of examples/common link what they test.
COMMON_UNITS := test_flags test_log test_httpd test_unix_socket test_grpc_server
COMMON_O := $(call obj,$(COMMON_C))
$(foreach t,$(COMMON_UNITS),$(eval EXTRA_$(t) := $(COMMON_O)))
$(addprefix $(BUILD)/unit/,$(COMMON_UNITS)): $(COMMON_O)
