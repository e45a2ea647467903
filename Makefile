# SPDX-License-Identifier: Apache-2.0
# One makefile, no recursion. `make help` lists the targets. SAN=1 builds everything again under ASan and UBSan.

VERSION := $(shell sed -n 's/^\#define CSIREG_VERSION  *"\(.*\)"/\1/p' include/csireg/version.h)
SOMAJOR := 0
CC      ?= gcc
OBJCOPY ?= objcopy
PREFIX  ?= /usr/local
SEEDS   ?= 2000
FROM    ?= 1

BUILD := build$(if $(SAN),/san)$(if $(filter clang%,$(CC)),/clang)
PKGS  := libcurl jansson yaml-0.1 libprotobuf-c
TOOLPKGS := libmicrohttpd gnutls

WARN := -Wall -Wextra -Wconversion -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wformat=2 -Wvla $(if $(WERROR),-Werror)
OPT  ?= -O2 -g
comma := ,
Q := $(if $(V),,@)
say = @echo '  $(1)	$(2)'
SANFLAGS := $(if $(SAN),-fsanitize=address$(comma)undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
CPPFLAGS += -D_GNU_SOURCE -Iinclude -Ilib -Iexamples -Itest
CFLAGS   += -std=c11 $(OPT) $(WARN) $(SANFLAGS) -fPIC -fvisibility=hidden -pthread
LDFLAGS  += $(SANFLAGS) -pthread

LIBDEPS  := $(shell pkg-config --libs $(PKGS) 2>/dev/null) -lgrpc -lgpr
TOOLDEPS := $(shell pkg-config --libs $(TOOLPKGS) 2>/dev/null)

LIB_C    := $(wildcard lib/*/*.c)
COMMON_C := $(wildcard examples/common/*.c)
AGENT_C  := $(wildcard examples/agent/*.c)
CTL_C    := $(wildcard examples/ctl/*.c)
REGISTRAR_C := $(wildcard examples/registrar/*.c)
MOCK_C   := $(wildcard test/mock-driver/*.c)
APISERVER_C := $(wildcard test/apiserver/*.c)
SIM_C    := $(wildcard test/sim/*.c)
UNIT_C   := $(wildcard test/unit/test_*.c)
UNITLIB_C := $(filter-out $(UNIT_C),$(wildcard test/unit/*.c))

obj = $(patsubst %.c,$(BUILD)/obj/%.o,$(1))
LIB_O := $(call obj,$(LIB_C))
UNIT_BIN := $(patsubst test/unit/%.c,$(BUILD)/unit/%,$(UNIT_C))
STATIC := $(BUILD)/libcsireg.a
# Every symbol, for tests and for programs that use lib/wire.
INTERNAL := $(BUILD)/obj/internal.a
SHARED := $(BUILD)/libcsireg.so.$(VERSION)
SONAME := libcsireg.so.$(SOMAJOR)
PROGRAMS := $(addprefix $(BUILD)/bin/,csireg-agent csireg-ctl csireg-registrar csireg-mock-driver csireg-apiserver csireg-sim embed)

.PHONY: all
all: $(STATIC) $(SHARED) $(PROGRAMS) $(BUILD)/csireg.pc ## build the libraries and programs (default)

include $(wildcard test/*.mk)

# Generated protobuf-c code is checked in and not held to our warnings.
$(BUILD)/obj/lib/wire/%.pb-c.o: lib/wire/%.pb-c.c
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(CPPFLAGS) $(filter-out $(WARN),$(CFLAGS)) -MMD -MP -c $< -o $@

$(BUILD)/obj/%.o: %.c
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP -c $< -o $@

# One object in which only csireg_* is visible: a host may have CSI code of its own.
$(STATIC): $(LIB_O)
	$(call say,AR,$@)
	$(Q)$(LD) -r -o $(BUILD)/obj/csireg.o $^
	$(Q)$(OBJCOPY) --localize-hidden $(BUILD)/obj/csireg.o
	$(Q)rm -f $@ && $(AR) rcs $@ $(BUILD)/obj/csireg.o

$(INTERNAL): $(LIB_O)
	@rm -f $@ && $(AR) rcs $@ $^

$(SHARED): $(LIB_O) lib/libcsireg.map
	$(call say,LD,$@)
	$(Q)$(CC) -shared $(LDFLAGS) -Wl,-soname,$(SONAME) -Wl,--version-script=lib/libcsireg.map -Wl,-z,nodelete -Wl,-z,defs $(LIB_O) -o $@ $(LIBDEPS)
	$(Q)ln -sf $(notdir $@) $(BUILD)/$(SONAME)
	$(Q)ln -sf $(SONAME) $(BUILD)/libcsireg.so

define program # name, objects, library, extra libraries
$(BUILD)/bin/$(1): $(2) $(3)
	@mkdir -p $$(@D)
	$$(call say,LD,$$@)
	$$(Q)$(CC) $(LDFLAGS) $(2) $(3) -o $$@ $(4) $(LIBDEPS)
endef
$(eval $(call program,csireg-agent,$(call obj,$(AGENT_C) $(COMMON_C)),$(STATIC),$(TOOLDEPS)))
$(eval $(call program,csireg-ctl,$(call obj,$(CTL_C) $(COMMON_C)),$(STATIC),$(TOOLDEPS)))
$(eval $(call program,csireg-registrar,$(call obj,$(REGISTRAR_C) $(COMMON_C)),$(INTERNAL),$(TOOLDEPS)))
$(eval $(call program,csireg-mock-driver,$(call obj,$(MOCK_C) $(COMMON_C)),$(INTERNAL),$(TOOLDEPS)))
$(eval $(call program,csireg-apiserver,$(call obj,$(APISERVER_C) $(COMMON_C)),$(INTERNAL),$(TOOLDEPS)))
$(eval $(call program,csireg-sim,$(call obj,$(SIM_C)),$(INTERNAL),))
$(eval $(call program,embed,$(call obj,examples/embed.c),$(STATIC),))

# An archive, so that a test gets only the helpers that it uses.
$(BUILD)/unit/helpers.a: $(call obj,$(UNITLIB_C))
	@mkdir -p $(@D)
	@rm -f $@ && $(AR) rcs $@ $^

$(BUILD)/unit/%: $(BUILD)/obj/test/unit/%.o $(BUILD)/unit/helpers.a $(INTERNAL)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(LDFLAGS) $< $(BUILD)/unit/helpers.a $(INTERNAL) $(EXTRA_$(notdir $@)) -o $@ -lcmocka $(TOOLDEPS) $(LIBDEPS)

$(BUILD)/csireg.pc: Makefile include/csireg/version.h
	@mkdir -p $(@D)
	@printf '%s\n' 'prefix=$(PREFIX)' 'includedir=$${prefix}/include' 'libdir=$${prefix}/lib' '' 'Name: csireg' \
	  'Description: kubelet-side CSI driver registration' 'Version: $(VERSION)' 'Cflags: -I$${includedir}' \
	  'Libs: -L$${libdir} -lcsireg' 'Libs.private: $(LIBDEPS) -pthread' > $@

.PHONY: unit
unit: $(UNIT_BIN) ## build and run the unit tests alone
	@for t in $(UNIT_BIN); do echo "== $$t"; $$t || exit 1; done

.PHONY: clean
clean: ## remove what was built
	rm -rf build

.PHONY: help
help: ## this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' Makefile test/*.mk | column -t -s '|'

-include $(shell find $(BUILD)/obj -name '*.d' 2>/dev/null)
