/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one answer of the API server means. Decides by HTTP code and the Status' reason and details, never by text.
 * Pure.
 */
#ifndef CR_CORE_APISTATUS_H
#define CR_CORE_APISTATUS_H

#include <jansson.h>

#include "base/error.h"
#include "base/messages.h"

enum cr_api_class {
    CR_API_OK,             /* 2xx with a JSON object of the expected kind */
    CR_API_UNUSABLE,       /* no connection, timeout, 401, 408, 429, 5xx, no memory: the API is not usable now, wait */
    CR_API_CONFLICT,       /* 409: another writer was faster, or a precondition does not hold */
    CR_API_ALREADY_EXISTS, /* 409 of a create */
    CR_API_NOT_FOUND,      /* 404 of the object itself */
    CR_API_REFUSED,  /* 400, 403, 413, 422 and other 4xx; 404 and 405 of a resource type. Will not help to repeat */
    CR_API_NONSENSE, /* 2xx or 3xx, but no JSON object, another kind, or past its bound: nothing can be relied on */
    CR_API_EXPIRED,  /* 410: the version asked for is gone, list again */
};

/*
 * kind: what a 2xx body must be ("CSINode", "CSIDriverList"), NULL for any object. It also tells a 404 of the object
 * from one of something else. OK: *out_body is a new reference (out_body may be NULL). All others: *out_error, never
 * NULL: API with origin HTTP and the status; API without origin for a transport failure; CONFIG for unreadable
 * credentials; NOMEM. Retryable: all but REFUSED. Message: code, reason and message of the Status, bounded and
 * sanitised, and a remedy.
 */
enum cr_api_class cr_api_classify(const struct cr_api_answer *a, const char *kind, json_t **out_body,
                                  struct csireg_error **out_error);

#endif
