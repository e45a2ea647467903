/* SPDX-License-Identifier: Apache-2.0 */
/* The text of --help, from the tables. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/flags.h"

#define WIDTH      110 /* columns of the text */
#define MAX_COLUMN 40  /* a longer flag has its help on the next line */

static const char *metavar(const struct flag *row)
{
    static const char *const by_type[] = {
        [FLAG_STRING] = "TEXT",      [FLAG_INT] = "N",        [FLAG_BOOL] = "", [FLAG_DURATION] = "DURATION",
        [FLAG_STRINGS] = "TEXT,...", [FLAG_REPEATED] = "TEXT"};
    return row->metavar ? row->metavar : row->choices ? row->choices : by_type[row->type];
}

static size_t label_width(const struct flag *row)
{
    size_t len = strlen(metavar(row));
    return strlen("  --") + strlen(row->name) + (len ? 1 + len : 0);
}

static size_t help_column(const struct flags *flags)
{
    size_t column = 0;
    for (size_t i = 0; i < flags->n; i++) {
        size_t width = label_width(flags->rows[i]) + 2;
        if (flags->rows[i]->help && width <= MAX_COLUMN && width > column) column = width;
    }
    return column;
}

/* Words of text from the column on, the first line being filled up to `at` already. */
static void put_wrapped(FILE *out, const char *text, size_t at, size_t column)
{
    if (at + 2 > column && at > 0) {
        fputc('\n', out);
        at = 0;
    }
    fprintf(out, "%*s", (int)(column - at), "");
    at = column;
    for (size_t len; *text; text += len + (text[len] == ' ')) {
        len = strcspn(text, " ");
        if (at > column && at + 1 + len > WIDTH) {
            fprintf(out, "\n%*s", (int)column, "");
            at = column;
        }
        at += (size_t)fprintf(out, "%s%.*s", at > column ? " " : "", (int)len, text);
    }
    fputc('\n', out);
}

static char *row_text(const struct flag *row)
{
    const char *repeated = row->type == FLAG_REPEATED ? ", may be repeated" : "";
    if (row->required) return need_printf("%s%s (required)", row->help, repeated);
    if (!row->default_value || !*row->default_value ||
        (row->type == FLAG_BOOL && strcmp(row->default_value, "false") == 0))
        return need_printf("%s%s", row->help, repeated);
    return need_printf("%s%s (default %s)", row->help, repeated, row->default_value);
}

static void put_row(FILE *out, const struct flag *row, size_t column)
{
    const char *value = metavar(row);
    fprintf(out, "  --%s%s%s", row->name, *value ? " " : "", value);
    char *text = row_text(row);
    put_wrapped(out, text, label_width(row), column);
    free(text);
}

char *flags_help(const struct flags *flags)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out) return need_strdup("out of memory\n");
    put_wrapped(out, flags->summary, 0, 0);
    fprintf(out, "\nUsage: %s [flags]\n", flags->program);
    size_t column = help_column(flags);
    for (size_t i = 0; i < flags->n; i++) {
        const struct flag *row = flags->rows[i];
        if (row->group || i == 0) fprintf(out, "\n%s:\n", row->group ? row->group : "Flags");
        if (row->help) put_row(out, row, column);
    }
    static const struct flag common[] = {{.name = "help", .type = FLAG_BOOL, .help = "show this text"},
                                         {.name = "version", .type = FLAG_BOOL, .help = "show the version"}};
    fputs("\nOther:\n", out);
    for (size_t i = 0; i < 2; i++) put_row(out, &common[i], column);
    fputs("\nFlags are written -flag or --flag, their value after \"=\" or as the next word. Durations: 500ms, 10s, "
          "1m30s.\n",
          out);
    if (flags->examples) fprintf(out, "\nExamples:\n%s", flags->examples);
    fclose(out);
    return text;
}
