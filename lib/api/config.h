/* SPDX-License-Identifier: Apache-2.0 */
/* From the host's options to what the engine wants: checks across options, the way to the API server. */
#ifndef CR_API_CONFIG_H
#define CR_API_CONFIG_H

#include "api/options.h"
#include "engine/engine.h"

/*
 * Reads the environment (KUBERNETES_SERVICE_HOST, KUBERNETES_SERVICE_PORT) and credential files where the options ask
 * for them. Strings and lists of *out are borrowed from o; out->access and out->owners are the caller's. INVALID,
 * CONFIG, NOMEM and what reading files gives; nothing is to be freed then.
 */
int cr_config_build(const struct csireg_options *o, struct cr_engine_config *out, struct csireg_error **error);

#endif
