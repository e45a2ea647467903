# SPDX-License-Identifier: Apache-2.0
.PHONY: abi
abi: $(STATIC) $(SHARED) $(BUILD)/bin/csireg-agent $(BUILD)/bin/csireg-registrar ## check headers alone, exported symbols, both ways to link, and an installed tree
	CC="$(CC)" test/abi/abi.py $(BUILD) $(LIBDEPS)
