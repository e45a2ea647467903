/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the fuzz targets share. A target is one file with LLVMFuzzerTestOneInput; its input is taken apart from the
 * front by the readers below, which give zeros once it is used up. What does not hold ends the process through CHECK.
 */
#ifndef TEST_FUZZ_FUZZ_H
#define TEST_FUZZ_FUZZ_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/error.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

/* Prints file, line and condition, and aborts. */
#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (condition) break;                                                                                          \
        fuzz_say(__FILE__, __LINE__, #condition);                                                                      \
        abort();                                                                                                       \
    } while (0)
void fuzz_say(const char *file, int line, const char *condition);

struct fuzz_in {
    const uint8_t *at;
    size_t left;
};

uint8_t fuzz_byte(struct fuzz_in *in);
uint16_t fuzz_short(struct fuzz_in *in);                 /* big endian */
const uint8_t *fuzz_bytes(struct fuzz_in *in, size_t n); /* n <= left */
char *fuzz_text(struct fuzz_in *in, size_t max);         /* up to the next NUL, which is taken too; free() it */
char *fuzz_string(const void *data, size_t len);         /* NUL-terminated copy; free() it */
bool fuzz_is_printable_utf8(const char *s);              /* valid UTF-8 without control bytes */
void fuzz_check_text(const char *s, size_t max);         /* a text for people: printable UTF-8 of at most max bytes */
void fuzz_check_error(int rc, struct csireg_error *e);   /* of a failed call; frees e */
json_t *fuzz_json(struct fuzz_in *in);                   /* the next text, as a body is parsed; NULL: no JSON object */

/* A byte n of the input: the n-th allocation from now fails, and all after it, if n is from 1 to 63. */
void fuzz_short_of_memory(uint8_t n);
bool fuzz_memory_was_short(void); /* ends that */

#endif
