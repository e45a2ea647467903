/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why something failed. A code for programs, an object with the rest for logs and people.
 *
 * Decide on the code (and on origin, number and retryable); the message is for people and may change with any release.
 */
#ifndef CSIREG_ERROR_H
#define CSIREG_ERROR_H

#include <csireg/version.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Every code that leaves the library. Values never change; new ones are appended. */
enum csireg_code {
    CSIREG_OK = 0,
    CSIREG_ERR_INVALID = -1,        /* an argument or option breaks its contract */
    CSIREG_ERR_NOMEM = -2,          /* out of memory */
    CSIREG_ERR_STATE = -3,          /* the call is not legal now (not started, stopped, started twice) */
    CSIREG_ERR_FORKED = -4,         /* called in a child of the process that made the object */
    CSIREG_ERR_NOT_READY = -5,      /* the initial scan is not over, the answer is not known yet */
    CSIREG_ERR_NOT_REGISTERED = -6, /* no such driver is registered */
    CSIREG_ERR_TIMEOUT = -7,        /* the time given ran out */
    CSIREG_ERR_CONFIG = -8,         /* kubeconfig, credentials or their files are wrong */
    CSIREG_ERR_SYSTEM = -9,         /* the operating system refused (number: errno) */
    CSIREG_ERR_RPC = -10,           /* a driver or registrar answered with an error (number: gRPC code) */
    CSIREG_ERR_API = -11,     /* the API server could not be used or answered with an error (number: HTTP status) */
    CSIREG_ERR_REFUSED = -12, /* what a plugin or server said breaks a rule (name, version, node id, label, ...) */
    CSIREG_ERR_LIMIT = -13    /* a bound was reached */
};

/* Where the error's number comes from. Values never change; new ones are appended. */
enum csireg_origin {
    CSIREG_ORIGIN_NONE = 0,  /* no number */
    CSIREG_ORIGIN_OS = 1,    /* errno */
    CSIREG_ORIGIN_GRPC = 2,  /* gRPC status code */
    CSIREG_ORIGIN_HTTP = 3,  /* HTTP status; 0: no answer came */
    CSIREG_ORIGIN_JSON = 4,  /* a body that is not what it should be; no number */
    CSIREG_ORIGIN_CONFIG = 5 /* options, kubeconfig or credential files; no number */
};

struct csireg_error;

/*
 * Getters. All accept NULL, which reads as no error: CSIREG_OK, NONE, 0, "". Strings are never NULL and live as long as
 * the error. An error never changes once it is out: any thread, several at a time.
 */
CSIREG_API enum csireg_code csireg_error_code(const struct csireg_error *error);
CSIREG_API enum csireg_origin csireg_error_origin(const struct csireg_error *error);
CSIREG_API int csireg_error_number(const struct csireg_error *error); /* see origin; 0 where there is none */
/* 1: transient, the library tries again with backoff. 0: persistent, it tries rarely until the cause may have gone: the
 * socket was made anew, credentials changed, the host called csireg_manager_retry. */
CSIREG_API int csireg_error_retryable(const struct csireg_error *error);
CSIREG_API const char *csireg_error_driver(const struct csireg_error *error); /* "" when it concerns no driver */
/* "connect", "GetInfo", "NodeGetInfo", "publish", ... or "" */
CSIREG_API const char *csireg_error_step(const struct csireg_error *error);
/* Object, step, cause, and the remedy where there is one; at most 2,048 bytes; no token, header or file content. */
CSIREG_API const char *csireg_error_message(const struct csireg_error *error);

/* Frees the error; NULL is fine. Errors inside events are the event's and are not freed. */
CSIREG_API void csireg_error_free(struct csireg_error *error);

/* "INVALID", "NOMEM", ...; "OK" for 0; "UNKNOWN" for what is no code. Static. Any thread. */
CSIREG_API const char *csireg_code_name(enum csireg_code code);

#ifdef __cplusplus
}
#endif

#endif
