/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One credential: read, checked, kept, compared, wiped. Reads local files on the calling thread; a FIFO, device or
 * directory in place of a file is refused without waiting for it. No error text holds a byte of the content.
 */
#ifndef CR_IO_SECRET_H
#define CR_IO_SECRET_H

#include "base/error.h"
#include "io/access.h"

enum cr_secret_kind { CR_SECRET_TOKEN = 0, CR_SECRET_CA, CR_SECRET_CERTIFICATE, CR_SECRET_KEY };

/* Reads a regular file of at most max bytes whole: 0, *out NUL-terminated and the caller's (cr_secret_wipe). */
int cr_secret_read_file(const char *path, const char *what, size_t max, char **out, size_t *out_len,
                        struct csireg_error **error);

/* path if it is absolute, else dir (absolute; NULL: the working directory) and path joined. NULL: no memory, or there
 * is no working directory. */
char *cr_secret_path(const char *dir, const char *path);

/* Standard base64 with padding; line breaks are skipped. NULL: not base64, or (*nomem) no memory. */
char *cr_secret_base64(const char *text, size_t *out_len, bool *nomem);

/* Takes data (also when it is refused). NULL, or a static text that says what is wrong with it. Tokens are trimmed. */
const char *cr_secret_set(struct cr_secret *s, enum cr_secret_kind kind, char *data, size_t len);

/* Reads s->file if it is not what was read last, or when forced. 1: read and checked, in *next; 0: nothing to read;
 * < 0: it could not be read or is not what it should be. */
int cr_secret_load(const struct cr_secret *s, enum cr_secret_kind kind, bool force, struct cr_secret *next,
                   struct csireg_error **error);
bool cr_secret_adopt(struct cr_secret *s,
                     struct cr_secret *next); /* takes what was loaded; true: the content differs */

void cr_secret_fini(struct cr_secret *s);
void cr_secret_wipe(char *data, size_t len); /* overwrites and frees; NULL is fine */

#endif
