/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command line of csireg-agent. Every row of the library's option table is a flag under its own name, but the gate:
 * that comes with --feature-gates, as with a kubelet. One thread, at the start of main; nothing here exits.
 */
#ifndef AGENT_SETTINGS_H
#define AGENT_SETTINGS_H

#include <csireg/options.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/flags.h"
#include "common/log.h"

#define AGENT_REGISTRY "/var/lib/kubelet/plugins_registry"

/* One option of the library as a flag. */
struct option_flag {
    const struct csireg_option_info *info;
    char *help; /* owned */
    const char *text;
    int64_t number;
    bool yes;
    struct flag_list list;
};

struct settings {
    struct flags flags;
    struct log_flags log;
    struct flag own[2];
    struct flag_list gates;    /* as on the command line */
    const char *http_endpoint; /* "" when none is wanted */
    bool controller_get_node_info;
    struct option_flag *options; /* owned; n_options of them */
    struct flag *rows;           /* owned; one for each */
    size_t n_options;
};

/* -1: go on; else the exit code, and what there is to say was printed. settings_free in both cases. */
int settings_parse(struct settings *s, int argc, char **argv);
void settings_free(struct settings *s);

/* The library's options for these settings; log lines go where ours go. -1 or the exit code, as above. */
int settings_options(const struct settings *s, struct csireg_options *options);

#endif
