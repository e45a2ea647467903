/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Command line flags in Go's manner from tables: "-flag" and "--flag", the value after "=" or as the next word, a
 * switch as "--x", "--x=true" or "--x=false". The last of repeated flags wins; list flags gather. Names are never
 * abbreviated, words that are no flags are refused. The help text is made from the same tables.
 *
 * One thread, at the start of main. Rows and their strings are borrowed and must outlive the flags; strings that
 * parsing stores point into argv or into rows, list items are copies. Nothing here exits: flags_run tells main the exit
 * code.
 *
 *     struct flags flags;
 *     flags_init(&flags, "csireg-x", "One sentence.", "  csireg-x --name a\n");
 *     flags_add(&flags, rows, n_rows);
 *     int code = flags_run(&flags, argc, argv);
 *     if (code >= 0) return code;
 */
#ifndef COMMON_FLAGS_H
#define COMMON_FLAGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FLAGS_BAD_USAGE 2 /* exit code */

enum flag_type {
    FLAG_STRING,   /* out: const char ** */
    FLAG_INT,      /* out: int64_t * */
    FLAG_BOOL,     /* out: bool * */
    FLAG_DURATION, /* out: int64_t *, milliseconds */
    FLAG_STRINGS,  /* out: struct flag_list *; items separated by commas, occurrences add up, "" empties */
    FLAG_REPEATED  /* out: struct flag_list *; each occurrence is one item, commas included */
};

struct flag_list {
    char **items; /* owned; n of them, no NULL at the end */
    size_t n;
};

struct flag {
    const char *name; /* "node-name" */
    enum flag_type type;
    void *out;                 /* by type; keeps what it holds unless a default or the command line says otherwise */
    const char *default_value; /* text as on the command line, applied first; NULL or "": none */
    const char *metavar;       /* "PATH"; NULL: by type */
    const char *help;          /* a phrase without a final stop; NULL: not listed */
    const char *group;         /* heading in --help; NULL: that of the row before */
    const char *choices;       /* STRING: the only values, "text|json"; NULL: any */
    int64_t minimum, maximum;  /* INT, DURATION (ms): bounds, when they differ */
    bool required;             /* bad usage without it or with an empty value */
    bool given;                /* result: it was on the command line */
};

struct flags {
    const char *program, *summary, *examples;
    struct flag **rows; /* owned array of borrowed rows */
    size_t n;
    char *error; /* owned; of the last flags_parse, NULL when none */
};

enum flags_result { FLAGS_OK, FLAGS_HELP, FLAGS_VERSION, FLAGS_ERROR };

void flags_init(struct flags *flags, const char *program, const char *summary, const char *examples);
void flags_free(struct flags *flags); /* lists in rows are freed too */
void flags_add(struct flags *flags, struct flag *rows, size_t n);

/* FLAGS_ERROR: flags->error names the flag and what is wrong with it. */
enum flags_result flags_parse(struct flags *flags, int argc, char **argv);

/* flags_parse, and help, version or the error with a hint printed. -1: go on; else the exit code (0 or 2). */
int flags_run(struct flags *flags, int argc, char **argv);

/* A message about the values, printed like an error of flags_parse. Returns FLAGS_BAD_USAGE. */
int flags_complain(const struct flags *flags, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

char *flags_help(const struct flags *flags); /* the text of --help; the caller's to free */

#endif
