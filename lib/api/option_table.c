/* SPDX-License-Identifier: Apache-2.0 */
#include "api/option_table.h"

#include <stdlib.h>
#include <string.h>

#include "base/bounds.h"
#include "core/names.h"

/* ---- checks beyond type and bounds ---- */

static const char *node_name(const char *s)
{
    return cr_is_dns1123_subdomain(s) ? NULL : "a DNS-1123 subdomain: lower-case letters, digits, '-' and '.'";
}

static const char *dropped_policy(const char *s)
{
    return strcmp(s, "fail") == 0 || strcmp(s, "node-flow") == 0 ? NULL : "fail or node-flow";
}

static const char *same_name_policy(const char *s)
{
    return strcmp(s, "newest") == 0 || strcmp(s, "first") == 0 ? NULL : "newest or first";
}

static const char *migrated_plugin(const char *s)
{
    return cr_is_qualified_name(s) ? NULL : "a qualified name like kubernetes.io/aws-ebs";
}

static const char *plugin_type(const char *s)
{
    return strcmp(s, "CSIPlugin") != 0 ? NULL : "a type other than CSIPlugin, which the library handles itself";
}

static const char *user_id(const char *s)
{
    size_t digits = strspn(s, "0123456789");
    bool valid = digits > 0 && digits <= 10 && s[digits] == '\0' && strtoull(s, NULL, 10) < UINT32_MAX;
    return valid ? NULL : "a numeric user id";
}

static const char *off_or_100ms(int64_t ms) { return ms == 0 || ms >= 100 ? NULL : "0 (off) or at least 100 ms"; }

/* A number that CSI gives another meaning would take a driver with, say, volume health for one with KEP-6011's feature.
 */
static const char *capability(int64_t n)
{
    static const char *const taken[] = {
        NULL,
        "another number: in CSI 1 is STAGE_UNSTAGE_VOLUME",
        "another number: in CSI 2 is GET_VOLUME_STATS",
        "another number: in CSI 3 is EXPAND_VOLUME",
        "another number: CSI reserves 4",
        "another number: in CSI 5 is SINGLE_NODE_MULTI_WRITER",
        "another number: in CSI 6 is VOLUME_MOUNT_GROUP",
        "another number: in CSI 7 is GET_VOLUME_HEALTH",
        "another number: in CSI 8 is GET_STORAGE_HEALTH",
    };
    return n >= 0 && n < (int64_t)(sizeof taken / sizeof *taken) ? taken[n] : NULL;
}

/* ---- the table ---- */

#define INFO(o, t, n, def, min, max, h)                                                                                \
    .info = {sizeof(struct csireg_option_info), CSIREG_OPTION_##o, CSIREG_TYPE_##t, n, def, min, max, h}
#define STRING(o, n, max, check, h)                                                                                    \
    {                                                                                                                  \
        INFO(o, STRING, n, "", 1, max, h), .bad_text = check                                                           \
    }
#define CHOICE(o, n, def, max, check, h)                                                                               \
    {                                                                                                                  \
        INFO(o, STRING, n, def, 1, max, h), .text = def, .bad_text = check                                             \
    }
#define STRINGS(o, n, item, check, h)                                                                                  \
    {                                                                                                                  \
        INFO(o, STRINGS, n, "", 0, CR_MAX_LIST_OPTION, h), .item_max = item, .bad_text = check                         \
    }
#define BOOL(o, n, def, h)                                                                                             \
    {                                                                                                                  \
        INFO(o, BOOL, n, #def, 0, 1, h), .number = def                                                                 \
    }
#define INT(o, n, def, max, check, h)                                                                                  \
    {                                                                                                                  \
        INFO(o, INT, n, #def, 0, max, h), .number = def, .bad_number = check                                           \
    }
/* The default's text and number come from the same token and cannot drift apart. */
#define UNIT_ms 1
#define UNIT_s  1000
#define DURATION(o, n, def, unit, min, max, check, h)                                                                  \
    {                                                                                                                  \
        INFO(o, DURATION, n, #def #unit, min, max, h), .number = def * UNIT_##unit, .bad_number = check                \
    }

#define MINUTE (60LL * UNIT_s)
#define HOUR   (60 * MINUTE)

/* clang-format off */
static const struct cr_option_row rows[] = {
    STRING(NODE_NAME, "node-name", CR_MAX_NODE_NAME, node_name,
           "Name of the Node object of this machine; required."),
    STRING(KUBECONFIG, "kubeconfig", CR_MAX_PATH, NULL,
           "Kubeconfig file with server and credentials; without it and api-server the pod's service account is used."),
    STRING(KUBECONFIG_CONTEXT, "kubeconfig-context", CR_MAX_CONTEXT, NULL,
           "Context of the kubeconfig to use; unset means its current-context."),
    STRING(API_SERVER, "api-server", CR_MAX_URL, NULL,
           "URL of the API server, https://host:port, instead of a kubeconfig."),
    STRING(API_TOKEN, "api-token", CR_MAX_TOKEN, NULL,
           "Bearer token for api-server; api-token-file keeps it out of the command line."),
    STRING(API_TOKEN_FILE, "api-token-file", CR_MAX_PATH, NULL,
           "File with the bearer token for api-server; read again when it changes."),
    STRING(API_CA_FILE, "api-ca-file", CR_MAX_PATH, NULL,
           "PEM file with the authorities that may sign the certificate of api-server."),
    STRING(API_CLIENT_CERTIFICATE_FILE, "api-client-certificate-file", CR_MAX_PATH, NULL,
           "PEM file with the client certificate for api-server."),
    STRING(API_CLIENT_KEY_FILE, "api-client-key-file", CR_MAX_PATH, NULL,
           "PEM file with the key of the client certificate for api-server."),
    STRING(API_TLS_SERVER_NAME, "api-tls-server-name", CR_MAX_SERVER_NAME, NULL,
           "Name to expect in the certificate of api-server instead of its host."),
    BOOL(API_INSECURE_SKIP_TLS_VERIFY, "api-insecure-skip-tls-verify", false,
         "Accept any certificate of api-server: whoever is in between gets the credentials."),
    STRING(API_PROXY, "api-proxy", CR_MAX_URL, NULL,
           "URL of the proxy for the API server; proxy variables of the environment are never used."),
    BOOL(LOCAL_ONLY, "local-only", false,
         "Use no API server: handshake, lookups and notifications work, nothing is published."),
    STRING(PLUGINS_REGISTRY_DIR, "plugins-registry-dir", CR_MAX_PATH, NULL,
           "Directory to watch for registration sockets; unset means that the host reports them itself."),
    BOOL(CREATE_REGISTRY, "create-registry", true,
         "Make the registry directory (mode 0750, with parents) when it is missing; otherwise wait for it."),
    BOOL(REQUIRE_PRIVATE_REGISTRY, "require-private-registry", false,
         "Do not watch a registry directory that group or others may write."),
    BOOL(CONTROLLER_GET_NODE_INFO, "controller-get-node-info", false,
         "KEP-6011's feature gate CSIControllerGetNodeInfo."),
    CHOICE(REGISTRATION_DROPPED, "registration-dropped", "fail", 16, dropped_policy,
           "What to do when the API server drops spec.driverRegistrations: fail, or node-flow to register without it."),
    INT(NODE_INFO_FROM_CONTROLLER_CAPABILITY, "node-info-from-controller-capability", 0, INT32_MAX, capability,
        "Number of the node capability NODE_INFO_FROM_CONTROLLER; 0 means the library's default, 9."),
    STRINGS(MIGRATED_PLUGINS, "migrated-plugins", CR_MAX_LABEL_KEY, migrated_plugin,
            "In-tree plugins that the CSINode annotation declares as migrated; none leaves the annotation alone."),
    BOOL(CREATE_AT_START, "create-at-start", false,
         "Make the CSINode at start instead of with the first driver."),
    STRINGS(PLUGIN_TYPES, "plugin-types", CR_MAX_PLUGIN_TYPE, plugin_type,
            "Other plugin types that the host handles itself through PLUGIN events."),
    DURATION(RESCAN_PERIOD, "rescan-period", 10, s, 100, HOUR, NULL,
             "How often the registry is scanned whatever its events say."),
    DURATION(VERIFY_INTERVAL, "verify-interval", 300, s, 0, 24 * HOUR, off_or_100ms,
             "How often Node and CSINode are read and repaired; 0 means never."),
    DURATION(GATHER_WINDOW, "gather-window", 50, ms, 0, UNIT_s, NULL,
             "How long a due write waits for drivers that are on their way, so that they share it."),
    DURATION(CONNECT_TIMEOUT, "connect-timeout", 10, s, 10, HOUR, NULL,
             "Limit for connecting to a registration socket."),
    DURATION(GETINFO_TIMEOUT, "getinfo-timeout", 5, s, 10, HOUR, NULL,
             "Limit for GetInfo."),
    DURATION(NODE_RPC_TIMEOUT, "node-rpc-timeout", 120, s, 10, HOUR, NULL,
             "Limit for NodeGetCapabilities and NodeGetInfo together."),
    DURATION(PUBLISH_TIMEOUT, "publish-timeout", 30, s, 10, HOUR, NULL,
             "Limit for publishing a driver while the API server is usable; there is none while it is not."),
    DURATION(NOTIFY_TIMEOUT, "notify-timeout", 5, s, 10, HOUR, NULL,
             "Limit for NotifyRegistrationStatus."),
    DURATION(REQUEST_TIMEOUT, "request-timeout", 10, s, 10, HOUR, NULL,
             "Limit for one request to the API server."),
    DURATION(HANDLER_TIMEOUT, "handler-timeout", 120, s, 10, HOUR, NULL,
             "Limit for the host's answer to a PLUGIN event."),
    CHOICE(SAME_NAME, "same-name", "newest", 16, same_name_policy,
           "Which of two sockets with one driver name and version wins: newest, or first as in the kubelet."),
    BOOL(ANNOTATE_IN_CONTROLLER_FLOW, "annotate-in-controller-flow", false,
         "Write the driver's node id into the Node annotation in the controller flow too."),
    STRINGS(LABEL_PREFIXES, "label-prefixes", CR_MAX_LABEL_KEY, NULL,
            "What a driver's topology keys must begin with; none means that every key may be used."),
    DURATION(UNREGISTER_GRACE, "unregister-grace", 0, s, 0, 24 * HOUR, NULL,
             "How long the entries of a driver that went are kept for its return; 0 means not at all."),
    DURATION(ENDPOINT_DEAD_AFTER, "endpoint-dead-after", 0, s, 0, 24 * HOUR, off_or_100ms,
             "How long a driver's socket may take no connection before the driver is unregistered; 0 means for ever."),
    DURATION(PRUNE_UNCLAIMED_AFTER, "prune-unclaimed-after", 0, s, 0, 30 * 24 * HOUR, off_or_100ms,
             "How long after the initial scan CSINode entries that no driver claims are removed; 0 means never."),
    STRINGS(ALLOWED_SOCKET_OWNERS, "allowed-socket-owners", CR_MAX_USER_ID, user_id,
            "User ids that may own a registration socket and serve it or the driver's endpoint; none means every user."),
};
/* clang-format on */

_Static_assert(sizeof rows / sizeof *rows == CR_N_OPTIONS, "every option has its row, in the order of the enum");

const struct cr_option_row *cr_option_row(enum csireg_option option)
{
    size_t i = (size_t)option - 1; /* 0 and negative ones become large */
    return i < CR_N_OPTIONS ? &rows[i] : NULL;
}

const struct csireg_option_info *csireg_option_info(size_t i) { return i < CR_N_OPTIONS ? &rows[i].info : NULL; }
