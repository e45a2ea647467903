// SPDX-License-Identifier: Apache-2.0
/* csireg-apiserver: the emulated API server as a program. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "apiserver/apiserver.h"
#include "common/alloc.h"
#include "common/flags.h"
#include "common/log.h"
#include "common/stop.h"

static const char examples[] =
    "  csireg-apiserver --node n1 --kubeconfig-out n1.kubeconfig --control ctl.sock\n"
    "  csireg-apiserver --listen 127.0.0.1:6443 --gate CSIControllerGetNodeInfo=on --load objects.json\n"
    "  curl --unix-socket ctl.sock http://c/counts\n";

struct settings {
    struct apiserver_config config;
    const char *kubeconfig_out;
    struct flag_list gates, nodes, hosts;
    int64_t history;
    bool anonymous;
};

/* "NAME=VALUE" */
static bool read_gate(struct apiserver_config *c, const char *text)
{
    static const char node_info[] = "CSIControllerGetNodeInfo=", health[] = "CSIVolumeHealth=";
    if (!strncmp(text, node_info, sizeof node_info - 1))
        c->gate_node_info = text + sizeof node_info - 1;
    else if (!strncmp(text, health, sizeof health - 1))
        c->gate_volume_health = text + sizeof health - 1;
    else
        return false;
    return true;
}

static int take_lists(struct settings *s, const struct flags *flags)
{
    for (size_t i = 0; i < s->gates.n; i++)
        if (!read_gate(&s->config, s->gates.items[i]))
            return flags_complain(flags, "unknown gate \"%s\"", s->gates.items[i]);
    if (s->kubeconfig_out && *s->kubeconfig_out && !s->nodes.n)
        return flags_complain(flags, "--kubeconfig-out needs a --node, whose identity it holds");
    s->config.nodes = (const char *const *)s->nodes.items;
    s->config.n_nodes = s->nodes.n;
    s->config.host_names = (const char *const *)s->hosts.items;
    s->config.n_host_names = s->hosts.n;
    s->config.history = (long)s->history;
    s->config.no_anonymous = !s->anonymous;
    return -1;
}

/* The file holds a token: it is for its owner alone. It appears whole or not at all. */
static bool write_kubeconfig(struct apiserver *server, const char *node, const char *path)
{
    char *user = need_printf("system:node:%s", node), *text = apiserver_kubeconfig(server, user);
    char *temporary = need_printf("%s.tmp", path);
    mode_t old = umask(077);
    FILE *f = fopen(temporary, "we");
    umask(old);
    bool ok = f && fputs(text, f) >= 0;
    ok = (!f || fclose(f) == 0) && ok && rename(temporary, path) == 0;
    free(temporary);
    free(text);
    free(user);
    return ok;
}

static int serve(const struct settings *s)
{
    struct apiserver *server;
    char *error;
    const char *control = s->config.control;
    if (apiserver_start(&s->config, &server, &error) < 0) {
        log_error("%s", error);
        free(error);
        return 1;
    }
    if (s->kubeconfig_out && !write_kubeconfig(server, s->nodes.items[0], s->kubeconfig_out)) {
        log_error("cannot write %s", s->kubeconfig_out);
        apiserver_stop(server);
        return 1;
    }
    printf("listening %s %s\n", apiserver_address(server), control ? control : "-");
    fflush(stdout);
    int code = stop_wait();
    apiserver_stop(server);
    return code;
}

static const char *absent_when_empty(const char *s) { return s && *s ? s : NULL; }

static void tidy(struct settings *s)
{
    const char **texts[] = {&s->config.tls_cert, &s->config.tls_key, &s->config.client_ca,
                            &s->config.tokens,   &s->config.rules,   &s->config.load,
                            &s->config.control,  &s->config.log,     &s->kubeconfig_out};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) *texts[i] = absent_when_empty(*texts[i]);
}

#define N_FLAGS 16

/* The rows keep pointers into s. */
static size_t serving_flags(struct settings *s, struct flag *rows)
{
    struct apiserver_config *c = &s->config;
    struct flag serving[] = {
        {.name = "listen",
         .type = FLAG_STRING,
         .out = &c->listen,
         .default_value = "127.0.0.1:0",
         .metavar = "ADDR:PORT",
         .help = "where the API is served; port 0 picks a free one",
         .group = "Serving"},
        {.name = "plain-http", .type = FLAG_BOOL, .out = &c->plain_http, .help = "serve without TLS"},
        {.name = "tls-cert",
         .type = FLAG_STRING,
         .out = &c->tls_cert,
         .metavar = "FILE",
         .help = "server certificate; without it an authority and a certificate are made"},
        {.name = "tls-key", .type = FLAG_STRING, .out = &c->tls_key, .metavar = "FILE", .help = "its key"},
        {.name = "host-name",
         .type = FLAG_REPEATED,
         .out = &s->hosts,
         .metavar = "NAME",
         .help = "further name or address in the certificate that is made"},
        {.name = "control",
         .type = FLAG_STRING,
         .out = &c->control,
         .metavar = "PATH",
         .help = "Unix socket of the control interface"},
        {.name = "log", .type = FLAG_STRING, .out = &c->log, .metavar = "FILE", .help = "append a line per request"},
    };
    memcpy(rows, serving, sizeof serving);
    return sizeof serving / sizeof *serving;
}

static size_t identity_flags(struct settings *s, struct flag *rows)
{
    struct apiserver_config *c = &s->config;
    struct flag identities[] = {
        {.name = "client-ca",
         .type = FLAG_STRING,
         .out = &c->client_ca,
         .metavar = "FILE",
         .help = "who signs client certificates; without it an authority is made",
         .group = "Identities"},
        {.name = "tokens",
         .type = FLAG_STRING,
         .out = &c->tokens,
         .metavar = "FILE",
         .help = "JSON: [{token, user, groups, ttlMs}]"},
        {.name = "rules",
         .type = FLAG_STRING,
         .out = &c->rules,
         .metavar = "FILE",
         .help = "JSON: the rule table for users that are neither masters nor nodes"},
        {.name = "anonymous",
         .type = FLAG_BOOL,
         .out = &s->anonymous,
         .default_value = "true",
         .help = "let requests without credentials in as system:anonymous"},
    };
    memcpy(rows, identities, sizeof identities);
    return sizeof identities / sizeof *identities;
}

static size_t behaviour_flags(struct settings *s, struct flag *rows)
{
    struct flag behaviour[] = {
        {.name = "gate",
         .type = FLAG_REPEATED,
         .out = &s->gates,
         .metavar = "NAME=on|off|unknown",
         .help = "CSIControllerGetNodeInfo or CSIVolumeHealth, both off by default",
         .group = "Behaviour"},
        {.name = "history",
         .type = FLAG_INT,
         .out = &s->history,
         .default_value = "1000",
         .minimum = 1,
         .maximum = 10000000,
         .help = "events kept for watches per resource"},
        {.name = "load",
         .type = FLAG_STRING,
         .out = &s->config.load,
         .metavar = "FILE",
         .help = "JSON objects to create at start: a List, or one a line"},
        {.name = "node", .type = FLAG_REPEATED, .out = &s->nodes, .metavar = "NAME", .help = "Node to create at start"},
        {.name = "kubeconfig-out",
         .type = FLAG_STRING,
         .out = &s->kubeconfig_out,
         .metavar = "FILE",
         .help = "write a kubeconfig with the identity of the first --node"},
    };
    memcpy(rows, behaviour, sizeof behaviour);
    return sizeof behaviour / sizeof *behaviour;
}

int main(int argc, char **argv)
{
    struct settings s = {0};
    struct log_flags log;
    struct flag rows[N_FLAGS];
    struct flags flags;
    if (stop_open() < 0) return 1;
    size_t n = serving_flags(&s, rows);
    n += identity_flags(&s, rows + n);
    n += behaviour_flags(&s, rows + n);
    flags_init(&flags, "csireg-apiserver", "A small in-memory Kubernetes API server for tests of csireg.", examples);
    flags_add(&flags, rows, n);
    log_flags_init(&log);
    flags_add(&flags, log.rows, 2);
    int code = flags_run(&flags, argc, argv);
    if (code < 0) code = take_lists(&s, &flags);
    if (code < 0) {
        log_flags_apply(&log);
        tidy(&s);
        code = serve(&s);
    }
    flags_free(&flags);
    return code;
}
