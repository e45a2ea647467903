/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Version of the library, and the mark of every symbol that it exports.
 *
 * Until 1.0 a minor release may break the API; the shared library's SONAME carries the number that changes then. Enum
 * values are never renumbered, records are opaque or start with their size, symbols are only added.
 */
#ifndef CSIREG_VERSION_H
#define CSIREG_VERSION_H

#ifndef CSIREG_API
#define CSIREG_API __attribute__((visibility("default")))
#endif

/* Of these headers; csireg_version tells that of the library that runs. */
#define CSIREG_VERSION_MAJOR 0
#define CSIREG_VERSION_MINOR 1
#define CSIREG_VERSION_PATCH 0
#define CSIREG_VERSION       "0.1.0"

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the library that runs, e.g. "0.1.0"; static, never NULL. Any thread, any time. */
CSIREG_API const char *csireg_version(void);

#ifdef __cplusplus
}
#endif

#endif
