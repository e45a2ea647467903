# SPDX-License-Identifier: Apache-2.0
.PHONY: proto
proto: ## generate lib/wire/*.pb-c.[ch] anew from the .proto files (needs protoc-c)
	test/lint/proto-stale.sh --write
