# SPDX-License-Identifier: Apache-2.0
.PHONY: proto
proto: ## generate lib/wire/*.pb-c.[ch] anew from the .proto files (needs protoc-c)
	test/lint/proto-stale.sh --write

# The gRPC tests have an honest server (the programs') and a peer that sends compressed answers.
RPC_UNITS := test_rpc test_rpc_life test_rpc_peers
RPC_UNIT_O := $(call obj,$(COMMON_C))
$(foreach t,$(RPC_UNITS),$(eval EXTRA_$(t) := $(RPC_UNIT_O) -lz))
$(addprefix $(BUILD)/unit/,$(RPC_UNITS)): $(RPC_UNIT_O)
