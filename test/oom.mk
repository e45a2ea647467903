# SPDX-License-Identifier: Apache-2.0
# The core while memory is short: the linker puts a failing allocator before the real one.
OOM_WRAP := $(addprefix -Wl$(comma)--wrap=,calloc realloc json_loadb json_loads)
OOM_O := $(call obj,$(wildcard test/oom/*.c))

.PHONY: oom
oom: $(BUILD)/oom/oom ## let every allocation of the core fail once
	$(BUILD)/oom/oom

$(BUILD)/oom/oom: $(OOM_O) $(BUILD)/unit/helpers.a $(INTERNAL)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) $(OOM_WRAP) $(OOM_O) $(BUILD)/unit/helpers.a $(INTERNAL) -o $@ -lcmocka $(LIBDEPS)
