# SPDX-License-Identifier: Apache-2.0
# DESTDIR stands before PREFIX while files are copied and is known to nothing that is installed.
INSTALL ?= install
PLACE   := $(DESTDIR)$(PREFIX)
INSTALLED_BIN := $(addprefix $(BUILD)/bin/,csireg-agent csireg-ctl csireg-registrar)
SYSTEMD := lib/systemd/system
INSTALLED := bin/csireg-agent bin/csireg-ctl bin/csireg-registrar $(SYSTEMD)/csireg-agent.service lib/libcsireg.a lib/libcsireg.so lib/$(SONAME) lib/libcsireg.so.$(VERSION) \
	lib/pkgconfig/csireg.pc $(wildcard include/csireg/*.h)

.PHONY: install uninstall
install: $(STATIC) $(SHARED) $(BUILD)/csireg.pc $(INSTALLED_BIN) ## install library, headers, agent, ctl and registrar (DESTDIR= PREFIX=)
	$(INSTALL) -d "$(PLACE)/bin" "$(PLACE)/lib/pkgconfig" "$(PLACE)/include/csireg" "$(PLACE)/$(SYSTEMD)"
	$(INSTALL) -m 644 include/csireg/*.h "$(PLACE)/include/csireg"
	$(INSTALL) -m 644 $(STATIC) "$(PLACE)/lib"
	$(INSTALL) -m 755 $(SHARED) "$(PLACE)/lib"
	ln -sf $(notdir $(SHARED)) "$(PLACE)/lib/$(SONAME)"
	ln -sf $(SONAME) "$(PLACE)/lib/libcsireg.so"
	sed 's|^prefix=.*|prefix=$(PREFIX)|' $(BUILD)/csireg.pc > "$(PLACE)/lib/pkgconfig/csireg.pc"
	chmod 644 "$(PLACE)/lib/pkgconfig/csireg.pc"
	$(INSTALL) -m 755 $(INSTALLED_BIN) "$(PLACE)/bin"
	sed 's|=/usr/local/bin/|=$(PREFIX)/bin/|' examples/agent/csireg-agent.service > "$(PLACE)/$(SYSTEMD)/csireg-agent.service"
	chmod 644 "$(PLACE)/$(SYSTEMD)/csireg-agent.service"

uninstall: ## remove what make install put there, with the same DESTDIR and PREFIX
	rm -f $(foreach file,$(INSTALLED),"$(PLACE)/$(file)")
	-rmdir --ignore-fail-on-non-empty "$(PLACE)/include/csireg" "$(PLACE)/lib/pkgconfig" "$(PLACE)/$(SYSTEMD)"
