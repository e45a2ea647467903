# SPDX-License-Identifier: Apache-2.0
# Unit tests of the agent link what they test.
AGENT_PAGE_O := $(call obj,examples/agent/page.c $(COMMON_C))
AGENT_SETTINGS_O := $(call obj,examples/agent/settings.c $(COMMON_C))
EXTRA_test_agent_page := $(AGENT_PAGE_O)
EXTRA_test_agent_settings := $(AGENT_SETTINGS_O) $(INTERNAL)
$(BUILD)/unit/test_agent_page: $(AGENT_PAGE_O)
$(BUILD)/unit/test_agent_settings: $(AGENT_SETTINGS_O)

AGENT_METRICS_O := $(call obj,examples/agent/metrics.c $(wildcard test/doubles/*.c) $(COMMON_C))
EXTRA_test_metrics := $(AGENT_METRICS_O) $(INTERNAL)
$(BUILD)/unit/test_metrics: $(AGENT_METRICS_O)

CTL_VIEW_O := $(call obj,examples/ctl/view.c $(COMMON_C))
EXTRA_test_ctl := $(CTL_VIEW_O)
$(BUILD)/unit/test_ctl: $(CTL_VIEW_O)

AGENT_NOTIFY_O := $(call obj,examples/agent/notify.c $(wildcard test/doubles/*.c) $(COMMON_C))
EXTRA_test_notify := $(AGENT_NOTIFY_O) $(INTERNAL)
$(BUILD)/unit/test_notify: $(AGENT_NOTIFY_O)
