# SPDX-License-Identifier: Apache-2.0
# Unit tests that run the emulated API server in their own process.
APISERVER_EMBED := $(filter-out %/main.o,$(call obj,$(APISERVER_C))) \
  $(call obj,examples/common/alloc.c examples/common/unix_socket.c) $(STATIC)
EXTRA_test_apiserver := $(APISERVER_EMBED)
EXTRA_test_apiserver_faults := $(APISERVER_EMBED)
EXTRA_test_apiserver_watch := $(APISERVER_EMBED)
$(BUILD)/unit/test_apiserver $(BUILD)/unit/test_apiserver_faults $(BUILD)/unit/test_apiserver_watch: $(APISERVER_EMBED)
