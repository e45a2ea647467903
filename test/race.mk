# SPDX-License-Identifier: Apache-2.0
# Storms of threads, and the tests of what is shared between threads, under ThreadSanitizer. libgrpc and the other
# libraries are not instrumented: what happens inside them is none of its business.
RACE := build/race
RACE_CFLAGS := -std=c11 -O1 -g $(WARN) -fsanitize=thread -fno-omit-frame-pointer -pthread
RACE_OPTIONS := ignore_noninstrumented_modules=1 halt_on_error=1 second_deadlock_stack=1
RACE_C := $(wildcard test/race/*.c test/doubles/*.c) $(COMMON_C) $(filter-out %/main.c,$(APISERVER_C)) $(LIB_C)
RACE_UNITS := test_engine test_manager test_doors test_rpc_life

.PHONY: race
race: $(RACE)/storm $(addprefix $(RACE)/,$(RACE_UNITS)) ## start, stop and call managers from many threads under ThreadSanitizer
	@for t in $^; do TSAN_OPTIONS="$(RACE_OPTIONS)" $$t || exit 1; done

$(RACE)/obj/lib/wire/%.pb-c.o: lib/wire/%.pb-c.c
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(CPPFLAGS) $(filter-out $(WARN),$(RACE_CFLAGS)) -MMD -MP -c $< -o $@

$(RACE)/obj/%.o: %.c
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(CPPFLAGS) $(RACE_CFLAGS) -MMD -MP -c $< -o $@

race_link = $(CC) -fsanitize=thread -pthread $^ -o $@ -lcmocka -lz $(TOOLDEPS) $(LIBDEPS)
$(RACE)/storm: $(patsubst %.c,$(RACE)/obj/%.o,$(RACE_C))
	$(call say,LD,$@)
	$(Q)$(race_link)

$(addprefix $(RACE)/,$(RACE_UNITS)): $(RACE)/%: $(RACE)/obj/test/unit/%.o $(patsubst %.c,$(RACE)/obj/%.o,\
		$(filter-out test/race/%,$(RACE_C)) $(UNITLIB_C))
	$(call say,LD,$@)
	$(Q)$(race_link)

-include $(shell find $(RACE)/obj -name '*.d' 2>/dev/null)
