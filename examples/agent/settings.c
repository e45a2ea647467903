/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/settings.h"

#include <csireg/version.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"

#define GATE               "CSIControllerGetNodeInfo"
#define GATE_DEFAULT       false /* as in KEP-6011 */
#define CAPABILITY_DEFAULT 9     /* what 0 stands for, see the option's help */

static const char summary[] = "Registers the CSI drivers of one node in Kubernetes, as a kubelet does.";

static const char examples[] =
    "  In a pod, with the service account's credentials:\n"
    "    csireg-agent --node-name=$(NODE_NAME)\n\n"
    "  With a kubeconfig, KEP-6011's controller flow and a status page:\n"
    "    csireg-agent --node-name=n1 --kubeconfig=/etc/kubernetes/kubelet.conf \\\n"
    "      --feature-gates=" GATE "=true --http-endpoint=127.0.0.1:9810\n\n"
    "  Without a cluster, to try a driver:\n"
    "    csireg-agent --node-name=n1 --local-only --plugins-registry-dir=/tmp/registry --log-level=debug\n";

/* ---- the table ---- */

static const struct {
    enum csireg_option first;
    const char *name;
} groups[] = {{CSIREG_OPTION_NODE_NAME, "Node and API server"},
              {CSIREG_OPTION_PLUGINS_REGISTRY_DIR, "Registry"},
              {CSIREG_OPTION_REGISTRATION_DROPPED, "Registration"},
              {CSIREG_OPTION_RESCAN_PERIOD, "Times"}};

static const char *group_of(enum csireg_option option)
{
    for (size_t i = 0; i < sizeof groups / sizeof *groups; i++)
        if (groups[i].first == option) return groups[i].name;
    return NULL;
}

/* A sentence of the table as the phrase that a flag has. */
static char *phrase(const char *sentence)
{
    char *help = need_strdup(sentence);
    size_t len = strlen(help);
    if (len && help[len - 1] == '.') help[len - 1] = '\0';
    if (len > 1 && islower((unsigned char)help[1])) help[0] = (char)tolower((unsigned char)help[0]);
    return help;
}

static void set_out(struct flag *row, struct option_flag *value)
{
    switch (value->info->type) {
    case CSIREG_TYPE_STRING:
        row->type = FLAG_STRING, row->out = &value->text;
        break;
    case CSIREG_TYPE_INT:
        row->type = FLAG_INT, row->out = &value->number;
        break;
    case CSIREG_TYPE_BOOL:
        row->type = FLAG_BOOL, row->out = &value->yes;
        break;
    case CSIREG_TYPE_STRINGS:
        row->type = FLAG_STRINGS, row->out = &value->list;
        break;
    case CSIREG_TYPE_DURATION:
        row->type = FLAG_DURATION, row->out = &value->number;
        break;
    }
}

/* What the agent does otherwise than the table says of the library. */
static void adapt(struct flag *row, enum csireg_option option)
{
    switch (option) {
    case CSIREG_OPTION_NODE_NAME:
        row->help = "name of the Node object of this machine";
        row->required = true;
        break;
    case CSIREG_OPTION_PLUGINS_REGISTRY_DIR:
        row->help = "directory to watch for registration sockets";
        row->default_value = AGENT_REGISTRY;
        break;
    case CSIREG_OPTION_PLUGIN_TYPES:
        row->help = "other plugin types to accept; they are logged and nothing more";
        break;
    default:
        break;
    }
}

static bool ends_with(const char *name, const char *end)
{
    size_t len = strlen(name), n = strlen(end);
    return len >= n && strcmp(name + len - n, end) == 0;
}

static const char *metavar(const struct csireg_option_info *info)
{
    if (info->type != CSIREG_TYPE_STRING) return NULL;
    if (ends_with(info->name, "-file") || ends_with(info->name, "-dir") || ends_with(info->name, "config"))
        return "PATH";
    return ends_with(info->name, "server") || ends_with(info->name, "proxy") ? "URL" : NULL;
}

static void describe(struct flag *row, struct option_flag *value, const struct csireg_option_info *info)
{
    value->info = info;
    value->help = phrase(info->help);
    *row = (struct flag){.name = info->name, .default_value = info->default_value, .help = value->help};
    row->group = group_of(info->option);
    row->metavar = metavar(info);
    if (info->type == CSIREG_TYPE_INT || info->type == CSIREG_TYPE_DURATION) {
        row->minimum = info->minimum;
        row->maximum = info->maximum;
    }
    set_out(row, value);
    adapt(row, info->option);
}

static void add_options(struct settings *s)
{
    size_t n = 0;
    while (csireg_option_info(n)) n++;
    s->options = need_calloc(n, sizeof *s->options);
    s->rows = need_calloc(n, sizeof *s->rows);
    for (size_t i = 0; i < n; i++) {
        const struct csireg_option_info *info = csireg_option_info(i);
        if (info->option == CSIREG_OPTION_CONTROLLER_GET_NODE_INFO) continue;
        describe(&s->rows[s->n_options], &s->options[s->n_options], info);
        s->n_options++;
    }
    flags_add(&s->flags, s->rows, s->n_options);
}

static void add_own(struct settings *s)
{
    s->own[0] =
        (struct flag){.name = "feature-gates",
                      .type = FLAG_STRINGS,
                      .out = &s->gates,
                      .metavar = GATE "=true|false",
                      .help = "KEP-6011's gate: let the controller side find out topology and limits of drivers "
                              "that can (default false)",
                      .group = "Agent"};
    s->own[1] = (struct flag){
        .name = "http-endpoint",
        .type = FLAG_STRING,
        .out = &s->http_endpoint,
        .metavar = "ADDR:PORT|unix:PATH",
        .help = "serve /healthz, /readyz, /status (JSON, read by csireg-ctl), /metrics (Prometheus) and / "
                "(a page for people) there; port 0 takes a free one and prints it"};
    flags_add(&s->flags, s->own, sizeof s->own / sizeof *s->own);
}

/* ---- the command line ---- */

/* One "Gate=true|false"; -1 or the exit code. */
static int parse_gate(struct settings *s, const char *text)
{
    if (strncmp(text, GATE, strlen(GATE)) != 0 || text[strlen(GATE)] != '=')
        return flags_complain(&s->flags, "flag --feature-gates: \"%s\" is not %s=true|false, the only gate", text,
                              GATE);
    const char *value = text + strlen(GATE "=");
    if (strcmp(value, "true") != 0 && strcmp(value, "false") != 0)
        return flags_complain(&s->flags, "flag --feature-gates: %s is \"%s\", neither true nor false", GATE, value);
    s->controller_get_node_info = strcmp(value, "true") == 0;
    return -1;
}

static int64_t capability_number(const struct settings *s)
{
    for (size_t i = 0; i < s->n_options; i++) {
        const struct option_flag *value = &s->options[i];
        if (value->info->option == CSIREG_OPTION_NODE_INFO_FROM_CONTROLLER_CAPABILITY && value->number)
            return value->number;
    }
    return CAPABILITY_DEFAULT;
}

static int print_version(const struct settings *s)
{
    printf("csireg-agent %s\nlibrary %s\nnode capability NODE_INFO_FROM_CONTROLLER %lld\n", CSIREG_VERSION,
           csireg_version(), (long long)capability_number(s));
    return 0;
}

int settings_parse(struct settings *s, int argc, char **argv)
{
    *s = (struct settings){.http_endpoint = "", .controller_get_node_info = GATE_DEFAULT};
    flags_init(&s->flags, "csireg-agent", summary, examples);
    add_options(s);
    add_own(s);
    log_flags_init(&s->log);
    flags_add(&s->flags, s->log.rows, sizeof s->log.rows / sizeof *s->log.rows);

    if (flags_parse(&s->flags, argc, argv) == FLAGS_VERSION) return print_version(s);
    int code = flags_run(&s->flags, argc, argv);
    for (size_t i = 0; i < s->gates.n && code < 0; i++) code = parse_gate(s, s->gates.items[i]);
    if (code < 0) log_flags_apply(&s->log);
    return code;
}

void settings_free(struct settings *s)
{
    flags_free(&s->flags);
    for (size_t i = 0; i < s->n_options; i++) free(s->options[i].help);
    free(s->options);
    free(s->rows);
}

/* ---- the library's options ---- */

static int set_option(struct csireg_options *o, const struct option_flag *value, struct csireg_error **error)
{
    enum csireg_option option = value->info->option;
    switch (value->info->type) {
    case CSIREG_TYPE_STRING:
        return csireg_options_set_string(o, option, value->text, error);
    case CSIREG_TYPE_BOOL:
        return csireg_options_set_bool(o, option, value->yes, error);
    case CSIREG_TYPE_STRINGS:
        return csireg_options_set_strings(o, option, (const char *const *)value->list.items, value->list.n, error);
    case CSIREG_TYPE_INT:
    case CSIREG_TYPE_DURATION:
        break;
    }
    return csireg_options_set_int(o, option, value->number, error);
}

/* Only what was said: the defaults are the library's, but for the registry. */
static bool is_wanted(const struct settings *s, size_t i)
{
    return s->rows[i].given || s->options[i].info->option == CSIREG_OPTION_PLUGINS_REGISTRY_DIR;
}

int settings_options(const struct settings *s, struct csireg_options *options)
{
    struct csireg_error *error = NULL;
    int rc = csireg_options_set_log(options, log_level(), log_csireg, NULL, &error);
    if (rc == 0)
        rc = csireg_options_set_bool(options, CSIREG_OPTION_CONTROLLER_GET_NODE_INFO, s->controller_get_node_info,
                                     &error);
    for (size_t i = 0; i < s->n_options && rc == 0; i++)
        if (is_wanted(s, i)) rc = set_option(options, &s->options[i], &error);
    int code = rc == 0 ? -1 : flags_complain(&s->flags, "%s", csireg_error_message(error));
    csireg_error_free(error);
    return code;
}
