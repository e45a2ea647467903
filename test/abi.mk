# SPDX-License-Identifier: Apache-2.0
.PHONY: abi
abi: $(STATIC) $(SHARED) $(addprefix $(BUILD)/bin/,csireg-agent csireg-ctl csireg-registrar) ## check headers alone, exported symbols, both ways to link, and an installed tree
	CC="$(CC)" test/abi/abi.py $(BUILD) $(LIBDEPS)
