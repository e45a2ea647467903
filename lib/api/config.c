/* SPDX-License-Identifier: Apache-2.0 */
#include "api/config.h"

#include <stdlib.h>
#include <sys/random.h>

#include "base/error.h"
#include "base/mem.h"

#define CAPABILITY_NODE_INFO_FROM_CONTROLLER 9 /* the next free number in CSI 1.13; KEP-6011 gives none */

static const char *string(const struct csireg_options *o, enum csireg_option option)
{
    return cr_option_string(o, option);
}

static int refuse(struct csireg_error **error, enum csireg_option option, const char *why)
{
    return cr_error_put(error, cr_error_new(CSIREG_ERR_INVALID, "option %s %s", cr_option_row(option)->info.name, why));
}

/* ---- the way to the API server ---- */

static bool is_set(const struct csireg_options *o, enum csireg_option option)
{
    return string(o, option) || cr_option_bool(o, option);
}

/* An option that would be ignored is a mistake of the host, not a detail. */
static int check_combination(const struct csireg_options *o, struct csireg_error **error)
{
    static const enum csireg_option explicit[] = {
        CSIREG_OPTION_API_TOKEN,
        CSIREG_OPTION_API_TOKEN_FILE,
        CSIREG_OPTION_API_CA_FILE,
        CSIREG_OPTION_API_CLIENT_CERTIFICATE_FILE,
        CSIREG_OPTION_API_CLIENT_KEY_FILE,
        CSIREG_OPTION_API_TLS_SERVER_NAME,
        CSIREG_OPTION_API_INSECURE_SKIP_TLS_VERIFY,
    };
    bool kubeconfig = is_set(o, CSIREG_OPTION_KUBECONFIG), server = is_set(o, CSIREG_OPTION_API_SERVER);
    if (kubeconfig && server) return refuse(error, CSIREG_OPTION_API_SERVER, "cannot be combined with kubeconfig");
    if (!kubeconfig && is_set(o, CSIREG_OPTION_KUBECONFIG_CONTEXT))
        return refuse(error, CSIREG_OPTION_KUBECONFIG_CONTEXT, "needs kubeconfig");
    for (size_t i = 0; !server && i < sizeof explicit / sizeof *explicit; i++)
        if (is_set(o, explicit[i])) return refuse(error, explicit[i], "needs api-server");
    return CSIREG_OK;
}

static int from_explicit(const struct csireg_options *o, struct cr_access **out, struct csireg_error **error)
{
    const struct cr_access_explicit x = {
        .server = string(o, CSIREG_OPTION_API_SERVER),
        .token = string(o, CSIREG_OPTION_API_TOKEN),
        .token_file = string(o, CSIREG_OPTION_API_TOKEN_FILE),
        .ca_file = string(o, CSIREG_OPTION_API_CA_FILE),
        .client_certificate_file = string(o, CSIREG_OPTION_API_CLIENT_CERTIFICATE_FILE),
        .client_key_file = string(o, CSIREG_OPTION_API_CLIENT_KEY_FILE),
        .tls_server_name = string(o, CSIREG_OPTION_API_TLS_SERVER_NAME),
        .insecure_skip_tls_verify = cr_option_bool(o, CSIREG_OPTION_API_INSECURE_SKIP_TLS_VERIFY),
    };
    return cr_access_from_explicit(out, &x, error);
}

static int find_access(const struct csireg_options *o, struct cr_access **out, struct csireg_error **error)
{
    if (cr_option_bool(o, CSIREG_OPTION_LOCAL_ONLY)) return CSIREG_OK;
    int rc = check_combination(o, error);
    if (rc != CSIREG_OK) return rc;
    const char *kubeconfig = string(o, CSIREG_OPTION_KUBECONFIG);
    if (kubeconfig)
        return cr_access_from_kubeconfig(out, kubeconfig, string(o, CSIREG_OPTION_KUBECONFIG_CONTEXT), error);
    if (string(o, CSIREG_OPTION_API_SERVER)) return from_explicit(o, out, error);
    return cr_access_in_cluster(out, getenv("KUBERNETES_SERVICE_HOST"), getenv("KUBERNETES_SERVICE_PORT"), NULL, error);
}

static int make_access(const struct csireg_options *o, struct cr_access **out, struct csireg_error **error)
{
    struct cr_access *access = NULL;
    const char *proxy = string(o, CSIREG_OPTION_API_PROXY);
    int rc = find_access(o, &access, error);
    if (rc == CSIREG_OK && access && proxy) rc = cr_access_set_proxy(access, proxy, error);
    if (rc == CSIREG_OK)
        *out = access;
    else
        cr_access_free(access);
    return rc;
}

/* ---- the rest ---- */

static uint64_t seed(void)
{
    uint64_t n = 0;
    if (getrandom(&n, sizeof n, GRND_NONBLOCK) == (ssize_t)sizeof n) return n;
    return (uint64_t)cr_clock_now().wall_ms; /* jitter only has to differ between nodes */
}

static int32_t capability(const struct csireg_options *o)
{
    int64_t n = cr_option_int(o, CSIREG_OPTION_NODE_INFO_FROM_CONTROLLER_CAPABILITY);
    return n ? (int32_t)n : CAPABILITY_NODE_INFO_FROM_CONTROLLER;
}

static void fill_core(const struct csireg_options *o, struct cr_core_config *c)
{
    *c = (struct cr_core_config){
        .node_name = string(o, CSIREG_OPTION_NODE_NAME),
        .gate = cr_option_bool(o, CSIREG_OPTION_CONTROLLER_GET_NODE_INFO),
        .local_only = cr_option_bool(o, CSIREG_OPTION_LOCAL_ONLY),
        .fallback_to_node_flow = string(o, CSIREG_OPTION_REGISTRATION_DROPPED)[0] == 'n', /* "fail" or "node-flow" */
        .first_instance_wins = string(o, CSIREG_OPTION_SAME_NAME)[0] == 'f',              /* "newest" or "first" */
        .annotate_in_controller_flow = cr_option_bool(o, CSIREG_OPTION_ANNOTATE_IN_CONTROLLER_FLOW),
        .create_at_start = cr_option_bool(o, CSIREG_OPTION_CREATE_AT_START),
        .watches_registry = string(o, CSIREG_OPTION_PLUGINS_REGISTRY_DIR) != NULL,
        .node_info_from_controller = capability(o),
        .verify_interval_ms = cr_option_int(o, CSIREG_OPTION_VERIFY_INTERVAL),
        .gather_window_ms = cr_option_int(o, CSIREG_OPTION_GATHER_WINDOW),
        .connect_timeout_ms = cr_option_int(o, CSIREG_OPTION_CONNECT_TIMEOUT),
        .getinfo_timeout_ms = cr_option_int(o, CSIREG_OPTION_GETINFO_TIMEOUT),
        .node_rpc_timeout_ms = cr_option_int(o, CSIREG_OPTION_NODE_RPC_TIMEOUT),
        .publish_timeout_ms = cr_option_int(o, CSIREG_OPTION_PUBLISH_TIMEOUT),
        .notify_timeout_ms = cr_option_int(o, CSIREG_OPTION_NOTIFY_TIMEOUT),
        .request_timeout_ms = cr_option_int(o, CSIREG_OPTION_REQUEST_TIMEOUT),
        .handler_timeout_ms = cr_option_int(o, CSIREG_OPTION_HANDLER_TIMEOUT),
        .unregister_grace_ms = cr_option_int(o, CSIREG_OPTION_UNREGISTER_GRACE),
        .endpoint_dead_after_ms = cr_option_int(o, CSIREG_OPTION_ENDPOINT_DEAD_AFTER),
        .prune_unclaimed_after_ms = cr_option_int(o, CSIREG_OPTION_PRUNE_UNCLAIMED_AFTER),
        .seed = seed(),
        .log_level = o->log ? o->log_level : 0, /* nothing is formatted for nobody */
    };
    c->migrated_plugins = cr_option_strings(o, CSIREG_OPTION_MIGRATED_PLUGINS, &c->n_migrated_plugins);
    c->label_prefixes = cr_option_strings(o, CSIREG_OPTION_LABEL_PREFIXES, &c->n_label_prefixes);
    c->plugin_types = cr_option_strings(o, CSIREG_OPTION_PLUGIN_TYPES, &c->n_plugin_types);
}

/* The texts were checked when they were set. */
static int parse_owners(const struct csireg_options *o, struct cr_engine_config *out, struct csireg_error **error)
{
    size_t n = 0;
    const char *const *texts = cr_option_strings(o, CSIREG_OPTION_ALLOWED_SOCKET_OWNERS, &n);
    uint32_t *uids = n ? cr_calloc(n, sizeof *uids) : NULL;
    out->owners = uids;
    out->core.allowed_owners = (struct cr_uids){uids, n};
    if (n && !uids) return cr_error_put(error, cr_error_oom());
    for (size_t i = 0; i < n; i++) uids[i] = (uint32_t)strtoul(texts[i], NULL, 10);
    return CSIREG_OK;
}

int cr_config_build(const struct csireg_options *o, struct cr_engine_config *out, struct csireg_error **error)
{
    struct cr_access *access = NULL;
    if (!string(o, CSIREG_OPTION_NODE_NAME)) return refuse(error, CSIREG_OPTION_NODE_NAME, "is required");
    int rc = make_access(o, &access, error);
    if (rc != CSIREG_OK) return rc;
    *out = (struct cr_engine_config){
        .registry = {.path = string(o, CSIREG_OPTION_PLUGINS_REGISTRY_DIR),
                     .create = cr_option_bool(o, CSIREG_OPTION_CREATE_REGISTRY),
                     .require_private = cr_option_bool(o, CSIREG_OPTION_REQUIRE_PRIVATE_REGISTRY),
                     .rescan_period_ms = cr_option_int(o, CSIREG_OPTION_RESCAN_PERIOD)},
        .access = access,
        .log = o->log,
        .log_user = o->log_user,
        .log_level = o->log_level,
    };
    fill_core(o, &out->core);
    rc = parse_owners(o, out, error);
    if (rc != CSIREG_OK) cr_access_free(access);
    return rc;
}
