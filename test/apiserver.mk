# SPDX-License-Identifier: Apache-2.0
# Unit tests that run the emulated API server in their own process.
APISERVER_EMBED := $(filter-out %/main.o,$(call obj,$(APISERVER_C))) \
  $(call obj,examples/common/alloc.c examples/common/unix_socket.c) $(INTERNAL)
APISERVER_TESTS := test_apiserver test_apiserver_access test_apiserver_watch test_apiserver_faults
$(foreach t,$(APISERVER_TESTS),$(eval EXTRA_$(t) := $(APISERVER_EMBED)))
$(addprefix $(BUILD)/unit/,$(APISERVER_TESTS)): $(APISERVER_EMBED)
