/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a host sets before it makes a manager. An options object belongs to one thread at a time; csireg_manager_new
 * copies it, so one object can serve several managers and may be changed or freed at once.
 *
 * Required: node-name. The API server is found by the first of these that is set: local-only (none is used),
 * kubeconfig, api-server with its api-... options; else the pod's service account. Everything else has a default.
 */
#ifndef CSIREG_OPTIONS_H
#define CSIREG_OPTIONS_H

#include <stddef.h>
#include <stdint.h>

#include <csireg/error.h>
#include <csireg/log.h>
#include <csireg/version.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Values never change; new ones are appended. Type, default, unit, bounds and a sentence of help for each:
 * csireg_option_info. The comments here say what to set them for.
 */
enum csireg_option {
    CSIREG_OPTION_NODE_NAME = 1, /* string: name of the Node object of this machine; also that of its CSINode */

    /* the way to the API server */
    CSIREG_OPTION_KUBECONFIG = 2,                  /* string: file as kubectl writes it, YAML or JSON */
    CSIREG_OPTION_KUBECONFIG_CONTEXT = 3,          /* string: instead of its current-context */
    CSIREG_OPTION_API_SERVER = 4,                  /* string: URL; not together with kubeconfig */
    CSIREG_OPTION_API_TOKEN = 5,                   /* string, secret: with api-server only, like all up to 11 */
    CSIREG_OPTION_API_TOKEN_FILE = 6,              /* string: read again when it changes and after a 401 */
    CSIREG_OPTION_API_CA_FILE = 7,                 /* string: PEM */
    CSIREG_OPTION_API_CLIENT_CERTIFICATE_FILE = 8, /* string: PEM; with the key */
    CSIREG_OPTION_API_CLIENT_KEY_FILE = 9,         /* string: PEM; with the certificate */
    CSIREG_OPTION_API_TLS_SERVER_NAME = 10, /* string: name in the server's certificate, when it is not the host */
    CSIREG_OPTION_API_INSECURE_SKIP_TLS_VERIFY = 11, /* bool: a WARNING event says it loudly */
    CSIREG_OPTION_API_PROXY = 12,                    /* string: URL; for whichever API server is used */
    CSIREG_OPTION_LOCAL_ONLY = 13, /* bool: no API server; drivers are registered on this node only, in the node flow */

    /* the first door: a registry directory that the manager watches */
    CSIREG_OPTION_PLUGINS_REGISTRY_DIR = 14, /* string: unset, nothing is watched and the host reports sockets itself */
    CSIREG_OPTION_CREATE_REGISTRY = 15,      /* bool: make it when it is missing; else it is waited for */
    CSIREG_OPTION_REQUIRE_PRIVATE_REGISTRY = 16, /* bool: who can write the registry can register drivers */

    /* KEP-6011 */
    CSIREG_OPTION_CONTROLLER_GET_NODE_INFO = 17, /* bool: the feature gate; off, every driver takes the node flow */
    CSIREG_OPTION_REGISTRATION_DROPPED = 18,     /* string: "fail" or "node-flow", when the server's gate is off */
    /* int: the capability's number; numbers that CSI gives another meaning (1 to 8) are refused */
    CSIREG_OPTION_NODE_INFO_FROM_CONTROLLER_CAPABILITY = 19,

    /* Node and CSINode */
    CSIREG_OPTION_MIGRATED_PLUGINS = 20, /* strings: for the annotation storage.alpha.kubernetes.io/migrated-plugins */
    CSIREG_OPTION_CREATE_AT_START = 21,  /* bool: make the CSINode before there is a driver, as the kubelet does */

    /* plugins that are not CSI drivers: see CSIREG_EVENT_PLUGIN */
    CSIREG_OPTION_PLUGIN_TYPES = 22, /* strings: "DevicePlugin", "DRAPlugin", ...; compared by exact bytes */

    /* durations, in milliseconds */
    CSIREG_OPTION_RESCAN_PERIOD = 23,   /* a lost event of the file system is healed within this */
    CSIREG_OPTION_VERIFY_INTERVAL = 24, /* what others changed at the API server is healed within this; 0: off */
    CSIREG_OPTION_GATHER_WINDOW = 25,   /* drivers that come together share their writes; 0: off */
    CSIREG_OPTION_CONNECT_TIMEOUT = 26, /* each timeout is for one step of one attempt */
    CSIREG_OPTION_GETINFO_TIMEOUT = 27,
    CSIREG_OPTION_NODE_RPC_TIMEOUT = 28, /* NodeGetCapabilities and NodeGetInfo together */
    CSIREG_OPTION_PUBLISH_TIMEOUT = 29,  /* counts only while the API server is usable */
    CSIREG_OPTION_NOTIFY_TIMEOUT = 30,
    CSIREG_OPTION_REQUEST_TIMEOUT = 31, /* one request to the API server */
    CSIREG_OPTION_HANDLER_TIMEOUT = 32, /* the host's answer to a PLUGIN event */

    /* where csireg and the kubelet may differ */
    CSIREG_OPTION_SAME_NAME =
        33, /* string: of two sockets with one driver name and version, "newest" or "first" wins */
    CSIREG_OPTION_ANNOTATE_IN_CONTROLLER_FLOW = 34, /* bool: write the Node annotation there too; KEP-6011 is silent */
    CSIREG_OPTION_LABEL_PREFIXES = 35, /* strings: topology keys must begin with one of them; none: every key may */

    /* durations again; 0: off */
    CSIREG_OPTION_UNREGISTER_GRACE = 36,    /* a driver that returns within it keeps its entries */
    CSIREG_OPTION_ENDPOINT_DEAD_AFTER = 37, /* a driver whose socket takes no connection for so long is unregistered */
    CSIREG_OPTION_PRUNE_UNCLAIMED_AFTER =
        38, /* CSINode entries that no driver claims go so long after the initial scan */

    CSIREG_OPTION_ALLOWED_SOCKET_OWNERS =
        39 /* strings: numeric user ids that registration sockets and their servers may have; none: every user */
};

/* Values never change; new ones are appended. */
enum csireg_option_type {
    CSIREG_TYPE_STRING = 1,
    CSIREG_TYPE_INT = 2,
    CSIREG_TYPE_BOOL = 3,
    CSIREG_TYPE_STRINGS = 4,
    CSIREG_TYPE_DURATION = 5 /* set with _set_int, in milliseconds */
};

/* One row of the table that drives the checks, the documentation and the agent's flags. All strings are static. */
struct csireg_option_info {
    size_t size; /* of this struct in the library; later releases may append fields */
    enum csireg_option option;
    enum csireg_option_type type;
    const char *name;          /* "node-rpc-timeout" */
    const char *default_value; /* as text, durations like "120s"; "" = unset */
    int64_t minimum, maximum;  /* INT: value; DURATION: milliseconds; STRING: bytes; STRINGS: items; BOOL: 0, 1 */
    const char *help;          /* one sentence */
};

struct csireg_options;

/* All options at their defaults, silent. INVALID: out_options is NULL. NOMEM. */
CSIREG_API int csireg_options_new(struct csireg_options **out_options);
/* Wipes secrets. NULL is fine. */
CSIREG_API void csireg_options_free(struct csireg_options *options);

/*
 * Setters. A value replaces the one before; a refused one changes nothing. Files are not looked at before
 * csireg_manager_new.
 *
 * INVALID: options is NULL, there is no such option, it is of another type, or the value breaks its bounds or grammar;
 * the message names option, value and what it must be (never the value of api-token). NOMEM.
 */
CSIREG_API int csireg_options_set_string(struct csireg_options *options, enum csireg_option option, const char *value,
                                         struct csireg_error **error); /* NULL and "": back to the default */
CSIREG_API int csireg_options_set_int(struct csireg_options *options, enum csireg_option option, int64_t value,
                                      struct csireg_error **error); /* INT, and DURATION in milliseconds */
CSIREG_API int csireg_options_set_bool(struct csireg_options *options, enum csireg_option option, int value,
                                       struct csireg_error **error); /* 0: false, all else: true */
/* The whole list at once. values may be NULL when n_values is 0. */
CSIREG_API int csireg_options_set_strings(struct csireg_options *options, enum csireg_option option,
                                          const char *const *values, size_t n_values, struct csireg_error **error);

/*
 * Where log lines go: fn is called with user for each line at or above level; see log.h for thread and rules. user must
 * live until the manager is freed. fn NULL: silent, as from the start. INVALID: options is NULL, or level is none.
 */
CSIREG_API int csireg_options_set_log(struct csireg_options *options, enum csireg_log_level level, csireg_log_fn *fn,
                                      void *user, struct csireg_error **error);

/* Row i of the table, in the order of the enum; NULL past its end. Static. Any thread. */
CSIREG_API const struct csireg_option_info *csireg_option_info(size_t i);

#ifdef __cplusplus
}
#endif

#endif
