/* SPDX-License-Identifier: Apache-2.0 */
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

/* Values never change; new ones are appended. Type, default, unit and bounds of each: csireg_option_info. */
enum csireg_option {
    CSIREG_OPTION_NODE_NAME = 1,
    CSIREG_OPTION_KUBECONFIG = 2,
    CSIREG_OPTION_KUBECONFIG_CONTEXT = 3,
    CSIREG_OPTION_API_SERVER = 4,
    CSIREG_OPTION_API_TOKEN = 5,
    CSIREG_OPTION_API_TOKEN_FILE = 6,
    CSIREG_OPTION_API_CA_FILE = 7,
    CSIREG_OPTION_API_CLIENT_CERTIFICATE_FILE = 8,
    CSIREG_OPTION_API_CLIENT_KEY_FILE = 9,
    CSIREG_OPTION_API_TLS_SERVER_NAME = 10,
    CSIREG_OPTION_API_INSECURE_SKIP_TLS_VERIFY = 11,
    CSIREG_OPTION_API_PROXY = 12,
    CSIREG_OPTION_LOCAL_ONLY = 13,
    CSIREG_OPTION_PLUGINS_REGISTRY_DIR = 14,
    CSIREG_OPTION_CREATE_REGISTRY = 15,
    CSIREG_OPTION_REQUIRE_PRIVATE_REGISTRY = 16,
    CSIREG_OPTION_CONTROLLER_GET_NODE_INFO = 17,
    CSIREG_OPTION_REGISTRATION_DROPPED = 18,
    CSIREG_OPTION_NODE_INFO_FROM_CONTROLLER_CAPABILITY = 19,
    CSIREG_OPTION_MIGRATED_PLUGINS = 20,
    CSIREG_OPTION_CREATE_AT_START = 21,
    CSIREG_OPTION_PLUGIN_TYPES = 22,
    CSIREG_OPTION_RESCAN_PERIOD = 23,
    CSIREG_OPTION_VERIFY_INTERVAL = 24,
    CSIREG_OPTION_GATHER_WINDOW = 25,
    CSIREG_OPTION_CONNECT_TIMEOUT = 26,
    CSIREG_OPTION_GETINFO_TIMEOUT = 27,
    CSIREG_OPTION_NODE_RPC_TIMEOUT = 28,
    CSIREG_OPTION_PUBLISH_TIMEOUT = 29,
    CSIREG_OPTION_NOTIFY_TIMEOUT = 30,
    CSIREG_OPTION_REQUEST_TIMEOUT = 31,
    CSIREG_OPTION_HANDLER_TIMEOUT = 32
};

enum csireg_option_type {
    CSIREG_TYPE_STRING = 1,
    CSIREG_TYPE_INT = 2,
    CSIREG_TYPE_BOOL = 3,
    CSIREG_TYPE_STRINGS = 4,
    CSIREG_TYPE_DURATION = 5 /* set with _set_int, in milliseconds */
};

/* One row of the table that drives the checks, the documentation and the agent's flags. All strings are static. */
struct csireg_option_info {
    size_t size; /* of this struct in the library */
    enum csireg_option option;
    enum csireg_option_type type;
    const char *name;          /* "node-rpc-timeout" */
    const char *default_value; /* as text, durations like "120s"; "" = unset */
    int64_t minimum, maximum;  /* INT: value; DURATION: milliseconds; STRING: bytes; STRINGS: items */
    const char *help;          /* one sentence */
};

struct csireg_options;

CSIREG_API int csireg_options_new(struct csireg_options **out_options);
CSIREG_API void csireg_options_free(struct csireg_options *options);
CSIREG_API int csireg_options_set_string(struct csireg_options *options, enum csireg_option option, const char *value,
                                         struct csireg_error **error);
CSIREG_API int csireg_options_set_int(struct csireg_options *options, enum csireg_option option, int64_t value,
                                      struct csireg_error **error);
CSIREG_API int csireg_options_set_bool(struct csireg_options *options, enum csireg_option option, int value,
                                       struct csireg_error **error);
CSIREG_API int csireg_options_set_strings(struct csireg_options *options, enum csireg_option option,
                                          const char *const *values, size_t n_values, struct csireg_error **error);
CSIREG_API int csireg_options_set_log(struct csireg_options *options, enum csireg_log_level level, csireg_log_fn *fn,
                                      void *user, struct csireg_error **error);

/* Row i of the table, in the order of the enum; NULL past its end. */
CSIREG_API const struct csireg_option_info *csireg_option_info(size_t i);

#ifdef __cplusplus
}
#endif

#endif
