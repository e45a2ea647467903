# SPDX-License-Identifier: Apache-2.0
# Figures as ratios to a floor and to the kubelet's own packages, of one run on one machine. QUICK=1: fewer repetitions.
# K=PATTERN: only some. A full run draws the README's plots anew.
BENCH := $(BUILD)/bench
BENCH_PROGRAMS := $(addprefix $(BENCH)/,drivers floor host)

.PHONY: bench bench-programs
bench: ## measure time, requests, memory and CPU against floor and peer: make bench QUICK=1
	@test/deps.sh bench
	@$(MAKE) --no-print-directory all bench-programs
	@test/bench/run.py --build $(BUILD) $(if $(QUICK),--quick) $(if $(K),-k $(K),$(if $(QUICK),,--plots docs))

bench-programs: $(BENCH_PROGRAMS)

# The host sees what every host sees; drivers and floor have the wire formats too.
$(BENCH)/host: $(call obj,test/bench/host.c $(COMMON_C)) $(STATIC)
$(BENCH)/drivers: $(call obj,test/bench/drivers.c $(COMMON_C)) $(INTERNAL)
$(BENCH)/floor: $(call obj,test/bench/floor.c $(COMMON_C)) $(INTERNAL)
$(BENCH_PROGRAMS):
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) $^ -o $@ $(TOOLDEPS) $(LIBDEPS)

# The kubelet's packages, fetched from the Go module proxy once and built once.
.PHONY: bench-peer
bench-peer: build/bench/peer

build/bench/peer: test/bench/peer/main.go test/bench/peer/host.go test/bench/peer/go.mod test/bench/peer/go.sum
	test/live/build.sh test/bench/peer . $@
