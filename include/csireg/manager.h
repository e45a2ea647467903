/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CSIREG_MANAGER_H
#define CSIREG_MANAGER_H

#include <stddef.h>
#include <stdint.h>

#include <csireg/error.h>
#include <csireg/event.h>
#include <csireg/options.h>
#include <csireg/version.h>

#ifdef __cplusplus
extern "C" {
#endif

struct csireg_manager;
struct csireg_driver;

/* life cycle */
CSIREG_API int csireg_manager_new(const struct csireg_options *options, struct csireg_manager **out_manager,
                                  struct csireg_error **error);
CSIREG_API int csireg_manager_start(struct csireg_manager *manager, struct csireg_error **error);
CSIREG_API int csireg_manager_stop(struct csireg_manager *manager);
CSIREG_API void csireg_manager_free(struct csireg_manager *manager);

/* events */
CSIREG_API int csireg_manager_fd(const struct csireg_manager *manager);
CSIREG_API int csireg_manager_next_event(struct csireg_manager *manager, struct csireg_event **out_event);

/* second door */
CSIREG_API int csireg_manager_socket_seen(struct csireg_manager *manager, const char *path, struct csireg_error **error);
CSIREG_API int csireg_manager_socket_gone(struct csireg_manager *manager, const char *path, struct csireg_error **error);

/* third door */
CSIREG_API int csireg_manager_driver_register(struct csireg_manager *manager, const char *name, const char *endpoint,
                                              const char *const *versions, size_t n_versions, struct csireg_error **error);
CSIREG_API int csireg_manager_driver_deregister(struct csireg_manager *manager, const char *name, const char *endpoint,
                                                struct csireg_error **error);

/* questions and commands */
CSIREG_API int csireg_manager_lookup(struct csireg_manager *manager, const char *name, struct csireg_driver **out_driver);
CSIREG_API int csireg_manager_retry(struct csireg_manager *manager, const char *name_or_path, struct csireg_error **error);
CSIREG_API int csireg_manager_plugin_result(struct csireg_manager *manager, uint64_t token, int ok, const char *text,
                                            struct csireg_error **error);
CSIREG_API int csireg_manager_status_json(struct csireg_manager *manager, char **out_text);
CSIREG_API int csireg_manager_wait_initial(struct csireg_manager *manager, int64_t milliseconds);

enum csireg_exhausted_result {
    CSIREG_EXHAUSTED_REFRESHED = 1,
    CSIREG_EXHAUSTED_UNCHANGED = 2,
    CSIREG_EXHAUSTED_FAILED = 3,
    CSIREG_EXHAUSTED_NO_PERIOD = 4,
    CSIREG_EXHAUSTED_DELEGATED = 5
};
CSIREG_API int csireg_manager_exhausted(struct csireg_manager *manager, const char *name, int64_t milliseconds,
                                        enum csireg_exhausted_result *out_result);

/* a registered driver, as lookup found it; a copy that the caller frees */
CSIREG_API const char *csireg_driver_name(const struct csireg_driver *driver);
CSIREG_API const char *csireg_driver_endpoint(const struct csireg_driver *driver);
CSIREG_API const char *csireg_driver_version(const struct csireg_driver *driver);
CSIREG_API const char *csireg_driver_node_id(const struct csireg_driver *driver);
CSIREG_API enum csireg_flow csireg_driver_flow(const struct csireg_driver *driver);
CSIREG_API void csireg_driver_free(struct csireg_driver *driver);

#ifdef __cplusplus
}
#endif

#endif
