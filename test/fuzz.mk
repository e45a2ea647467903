# SPDX-License-Identifier: Apache-2.0
# Fuzz targets: test/fuzz/<name>.c, with libFuzzer, ASan and UBSan, against a build of the library of their own.
T ?= 60
FUZZ := build/fuzz
FUZZ_HELPERS := fuzz core_world
FUZZ_NAMES := $(filter-out $(FUZZ_HELPERS),$(patsubst test/fuzz/%.c,%,$(wildcard test/fuzz/*.c)))
FUZZ_FLAGS := -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
FUZZ_CFLAGS := -std=c11 -O1 -g $(WARN) $(FUZZ_FLAGS) -pthread
FUZZ_LIB_O := $(patsubst %.c,$(FUZZ)/obj/%.o,$(LIB_C))
FUZZ_BIN := $(addprefix $(FUZZ)/bin/,$(FUZZ_NAMES))

.PHONY: fuzz fuzz-ci fuzz-seeds fuzz-programs
fuzz: fuzz-programs ## fuzz every target: make fuzz T=SECONDS of each, J=2 side by side, K=PATTERN selects
	@test/fuzz/run.py --bin $(FUZZ)/bin --seconds $(T) $(if $(SEED),--seed $(SEED)) $(if $(J),--jobs $(J)) $(if $(K),--select $(K))

fuzz-ci: ## the same for 30 seconds each, with the same choices every time
	@$(MAKE) --no-print-directory fuzz T=30 SEED=1

fuzz-seeds: ## run the checked-in inputs of every fuzz target once
	@$(MAKE) --no-print-directory fuzz T=0

fuzz-programs: $(FUZZ_BIN)

$(FUZZ)/obj/lib/wire/%.pb-c.o: lib/wire/%.pb-c.c
	@mkdir -p $(@D)
	clang $(CPPFLAGS) $(filter-out $(WARN),$(FUZZ_CFLAGS)) -MMD -MP -c $< -o $@

$(FUZZ)/obj/%.o: %.c
	@mkdir -p $(@D)
	clang $(CPPFLAGS) $(FUZZ_CFLAGS) -MMD -MP -c $< -o $@

$(FUZZ)/libcsireg.a: $(FUZZ_LIB_O)
	rm -f $@ && ar rcs $@ $^

$(FUZZ)/helpers.a: $(patsubst %,$(FUZZ)/obj/test/fuzz/%.o,$(FUZZ_HELPERS))
	rm -f $@ && ar rcs $@ $^

.SECONDARY: $(patsubst %,$(FUZZ)/obj/test/fuzz/%.o,$(FUZZ_NAMES))
$(FUZZ)/bin/%: $(FUZZ)/obj/test/fuzz/%.o $(FUZZ)/helpers.a $(FUZZ)/libcsireg.a
	@mkdir -p $(@D)
	clang -fsanitize=fuzzer,address,undefined -pthread $^ -o $@ $(LIBDEPS)

-include $(shell find $(FUZZ)/obj -name '*.d' 2>/dev/null)
