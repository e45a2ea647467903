# SPDX-License-Identifier: Apache-2.0
# DESTDIR stands before PREFIX while files are copied and is known to nothing that is installed.
INSTALL ?= install
PLACE   := $(DESTDIR)$(PREFIX)
INSTALLED := bin/csireg-agent bin/csireg-registrar lib/libcsireg.a lib/libcsireg.so lib/$(SONAME) lib/libcsireg.so.$(VERSION) \
	lib/pkgconfig/csireg.pc $(wildcard include/csireg/*.h)

.PHONY: install uninstall
install: $(STATIC) $(SHARED) $(BUILD)/csireg.pc $(BUILD)/bin/csireg-agent $(BUILD)/bin/csireg-registrar ## install library, headers, agent and registrar (DESTDIR= PREFIX=)
	$(INSTALL) -d "$(PLACE)/bin" "$(PLACE)/lib/pkgconfig" "$(PLACE)/include/csireg"
	$(INSTALL) -m 644 include/csireg/*.h "$(PLACE)/include/csireg"
	$(INSTALL) -m 644 $(STATIC) "$(PLACE)/lib"
	$(INSTALL) -m 755 $(SHARED) "$(PLACE)/lib"
	ln -sf $(notdir $(SHARED)) "$(PLACE)/lib/$(SONAME)"
	ln -sf $(SONAME) "$(PLACE)/lib/libcsireg.so"
	sed 's|^prefix=.*|prefix=$(PREFIX)|' $(BUILD)/csireg.pc > "$(PLACE)/lib/pkgconfig/csireg.pc"
	chmod 644 "$(PLACE)/lib/pkgconfig/csireg.pc"
	$(INSTALL) -m 755 $(BUILD)/bin/csireg-agent $(BUILD)/bin/csireg-registrar "$(PLACE)/bin"

uninstall: ## remove what make install put there, with the same DESTDIR and PREFIX
	rm -f $(foreach file,$(INSTALLED),"$(PLACE)/$(file)")
	-rmdir --ignore-fail-on-non-empty "$(PLACE)/include/csireg" "$(PLACE)/lib/pkgconfig"
