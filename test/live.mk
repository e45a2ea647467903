# SPDX-License-Identifier: Apache-2.0
# A real kube-apiserver and etcd, built from the Go module proxy once and kept until their modules change.
LIVE := build/live
KUBE_VERSION = $(shell sed -n 's/^.*k8s.io.kubernetes \(v[0-9.]*\).*/\1/p' test/live/go.mod)
LIVE_SERVERS := $(LIVE)/kube-apiserver $(LIVE)/etcd

.PHONY: test-live live-servers
test-live: $(addprefix $(BUILD)/bin/,csireg-agent csireg-registrar csireg-mock-driver csireg-apiserver embed) $(SHARED) ## run conformance and node-flow scenarios against a real kube-apiserver (needs Go 1.26)
	@test/live/run.py --bin $(BUILD)/bin

live-servers: $(LIVE_SERVERS)

$(LIVE)/kube-apiserver: test/live/go.mod test/live/go.sum
	test/live/build.sh test/live k8s.io/kubernetes/cmd/kube-apiserver $@ -X k8s.io/component-base/version.gitVersion=$(KUBE_VERSION)

$(LIVE)/etcd: test/live/etcd/go.mod test/live/etcd/go.sum
	test/live/build.sh test/live/etcd go.etcd.io/etcd/server/v3 $@
