/* SPDX-License-Identifier: Apache-2.0 */
#include "common/flags.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/duration.h"
#include "csireg/version.h"

#define ROW_BASE 1000 /* getopt's value of row 0, past every character it returns itself */
enum { VALUE_HELP = ROW_BASE - 2, VALUE_VERSION = ROW_BASE - 1 };

void flags_init(struct flags *flags, const char *program, const char *summary, const char *examples)
{
    *flags = (struct flags){.program = program, .summary = summary, .examples = examples};
}

static void list_clear(struct flag_list *list)
{
    for (size_t i = 0; i < list->n; i++) free(list->items[i]);
    free(list->items);
    *list = (struct flag_list){0};
}

static bool is_list(const struct flag *row) { return row->type == FLAG_STRINGS || row->type == FLAG_REPEATED; }

void flags_free(struct flags *flags)
{
    for (size_t i = 0; i < flags->n; i++)
        if (is_list(flags->rows[i])) list_clear(flags->rows[i]->out);
    free(flags->rows);
    free(flags->error);
    *flags = (struct flags){0};
}

void flags_add(struct flags *flags, struct flag *rows, size_t n)
{
    flags->rows = need_array(flags->rows, flags->n + n, sizeof *flags->rows);
    for (size_t i = 0; i < n; i++) flags->rows[flags->n++] = &rows[i];
}

/* ---- values ---- */

static bool fail(struct flags *flags, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static bool fail(struct flags *flags, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    free(flags->error);
    flags->error = need_vprintf(fmt, args);
    va_end(args);
    return false;
}

/* Whether text is one of the words in "a|b|c". */
static bool is_choice(const char *choices, const char *text)
{
    size_t len = strlen(text);
    for (const char *word = choices; word; word = strchr(word, '|')) {
        if (*word == '|') word++;
        if (len == strcspn(word, "|") && strncmp(word, text, len) == 0) return true;
    }
    return false;
}

static bool set_string(struct flags *flags, const struct flag *row, const char *text)
{
    if (row->choices && !is_choice(row->choices, text))
        return fail(flags, "flag --%s: \"%s\" is not one of %s", row->name, text, row->choices);
    *(const char **)row->out = text;
    return true;
}

static bool has_bounds(const struct flag *row) { return row->minimum != row->maximum; }

static bool set_int(struct flags *flags, const struct flag *row, const char *text)
{
    char *end;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (*text == '\0' || *end != '\0' || errno != 0)
        return fail(flags, "flag --%s: \"%s\" is no whole number", row->name, text);
    if (has_bounds(row) && (number < row->minimum || number > row->maximum))
        return fail(flags, "flag --%s: %lld is outside %lld to %lld", row->name, number, (long long)row->minimum,
                    (long long)row->maximum);
    *(int64_t *)row->out = number;
    return true;
}

static bool set_duration(struct flags *flags, const struct flag *row, const char *text)
{
    int64_t ms;
    if (!duration_parse(text, &ms))
        return fail(flags, "flag --%s: \"%s\" is no duration like 500ms, 10s or 1m30s", row->name, text);
    if (has_bounds(row) && (ms < row->minimum || ms > row->maximum)) {
        char low[DURATION_SIZE], high[DURATION_SIZE];
        duration_format(row->minimum, low);
        duration_format(row->maximum, high);
        return fail(flags, "flag --%s: %s is outside %s to %s", row->name, text, low, high);
    }
    *(int64_t *)row->out = ms;
    return true;
}

static bool set_bool(struct flags *flags, const struct flag *row, const char *text)
{
    bool yes = is_choice("true|t|1|TRUE|True|T", text);
    if (!yes && !is_choice("false|f|0|FALSE|False|F", text))
        return fail(flags, "flag --%s: \"%s\" is neither true nor false", row->name, text);
    *(bool *)row->out = yes;
    return true;
}

static void list_add(struct flag_list *list, const char *text, size_t len)
{
    list->items = need_array(list->items, list->n + 1, sizeof *list->items);
    list->items[list->n++] = need_strndup(text, len);
}

static bool set_strings(struct flags *flags, const struct flag *row, const char *text)
{
    (void)flags;
    if (*text == '\0') list_clear(row->out);
    while (*text) {
        size_t len = strcspn(text, ",");
        if (len) list_add(row->out, text, len);
        text += len + (text[len] == ',');
    }
    return true;
}

static bool set_repeated(struct flags *flags, const struct flag *row, const char *text)
{
    (void)flags;
    list_add(row->out, text, strlen(text));
    return true;
}

static bool set_value(struct flags *flags, const struct flag *row, const char *text)
{
    static bool (*const setters[])(struct flags *, const struct flag *, const char *) = {
        [FLAG_STRING] = set_string,     [FLAG_INT] = set_int,         [FLAG_BOOL] = set_bool,
        [FLAG_DURATION] = set_duration, [FLAG_STRINGS] = set_strings, [FLAG_REPEATED] = set_repeated};
    return setters[row->type](flags, row, text);
}

static bool set_defaults(struct flags *flags)
{
    for (size_t i = 0; i < flags->n; i++) {
        struct flag *row = flags->rows[i];
        row->given = false;
        if (row->default_value && *row->default_value && !set_value(flags, row, row->default_value)) return false;
    }
    return true;
}

static bool give(struct flags *flags, struct flag *row, const char *text)
{
    if (!row->given && is_list(row)) list_clear(row->out);
    row->given = true;
    return set_value(flags, row, text ? text : "true");
}

/* ---- parsing ---- */

static struct option *make_options(const struct flags *flags)
{
    struct option *options = need_calloc(flags->n + 4, sizeof *options);
    for (size_t i = 0; i < flags->n; i++) {
        const struct flag *row = flags->rows[i];
        int has_arg = row->type == FLAG_BOOL ? optional_argument : required_argument;
        options[i] = (struct option){row->name, has_arg, NULL, ROW_BASE + (int)i};
    }
    options[flags->n] = (struct option){"help", no_argument, NULL, VALUE_HELP};
    options[flags->n + 1] = (struct option){"h", no_argument, NULL, VALUE_HELP};
    options[flags->n + 2] = (struct option){"version", no_argument, NULL, VALUE_VERSION};
    return options;
}

static const char *skip_dashes(const char *word)
{
    return word + (word[0] == '-') + (word[0] == '-' && word[1] == '-');
}

/* getopt takes abbreviations; Go does not, and a flag added later must not change what a word means. */
static bool is_exact(const char *word, const char *name)
{
    word = skip_dashes(word);
    return strlen(name) == strcspn(word, "=") && strncmp(word, name, strlen(name)) == 0;
}

/* word: the flag as on the command line, or its name. */
static enum flags_result refuse(struct flags *flags, const char *word, const char *why)
{
    const char *name = skip_dashes(word);
    fail(flags, "flag --%.*s %s", (int)strcspn(name, "="), name, why);
    return FLAGS_ERROR;
}

static enum flags_result parse_words(struct flags *flags, int argc, char **argv, const struct option *options)
{
    optind = 0; /* GNU: start anew */
    opterr = 0;
    for (;;) {
        const char *word = argv[optind ? optind : 1];
        int index = 0;
        int value = getopt_long_only(argc, argv, "+:", options, &index);
        if (value == -1) break;
        if (value == ':') return refuse(flags, word, "has no value");
        if (value == '?' || !is_exact(word, options[index].name)) return refuse(flags, word, "is unknown");
        if (value == VALUE_HELP) return FLAGS_HELP;
        if (value == VALUE_VERSION) return FLAGS_VERSION;
        if (!give(flags, flags->rows[value - ROW_BASE], optarg)) return FLAGS_ERROR;
    }
    if (optind == argc) return FLAGS_OK;
    fail(flags, "\"%s\" is no flag", argv[optind]);
    return FLAGS_ERROR;
}

static bool is_missing(const struct flag *row)
{
    if (!row->required) return false;
    if (row->type != FLAG_STRING) return !row->given;
    const char *text = *(const char **)row->out;
    return !text || !*text;
}

enum flags_result flags_parse(struct flags *flags, int argc, char **argv)
{
    free(flags->error);
    flags->error = NULL;
    if (!set_defaults(flags)) return FLAGS_ERROR;
    struct option *options = make_options(flags);
    enum flags_result result = parse_words(flags, argc, argv, options);
    free(options);
    for (size_t i = 0; i < flags->n && result == FLAGS_OK; i++)
        if (is_missing(flags->rows[i])) result = refuse(flags, flags->rows[i]->name, "is required");
    return result;
}

int flags_run(struct flags *flags, int argc, char **argv)
{
    char *help;
    switch (flags_parse(flags, argc, argv)) {
    case FLAGS_OK:
        return -1;
    case FLAGS_HELP:
        help = flags_help(flags);
        fputs(help, stdout);
        free(help);
        return 0;
    case FLAGS_VERSION:
        printf("%s %s\n", flags->program, CSIREG_VERSION);
        return 0;
    case FLAGS_ERROR:
        break;
    }
    return flags_complain(flags, "%s", flags->error);
}

int flags_complain(const struct flags *flags, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    char *text = need_vprintf(fmt, args);
    va_end(args);
    fprintf(stderr, "%s: %s\nTry %s --help\n", flags->program, text, flags->program);
    free(text);
    return FLAGS_BAD_USAGE;
}
