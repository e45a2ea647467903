/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/metrics.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Quotes are escaped in label values only. */
static void put_escaped(FILE *out, const char *text, bool quotes)
{
    for (; *text; text++) {
        if (*text == '\n')
            fputs("\\n", out);
        else if (*text == '\\' || (quotes && *text == '"'))
            fprintf(out, "\\%c", *text);
        else
            fputc(*text, out);
    }
}

/* The shortest text that reads as the same number. */
static void put_number(FILE *out, double value)
{
    char text[32];
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) >= value && strtod(text, NULL) <= value) break;
    }
    fputs(text, out);
}

static void put_head(FILE *out, const struct csireg_metric *m)
{
    static const char *const types[] = {
        [CSIREG_METRIC_COUNTER] = "counter", [CSIREG_METRIC_GAUGE] = "gauge", [CSIREG_METRIC_HISTOGRAM] = "histogram"};
    fprintf(out, "# HELP %s ", m->name);
    put_escaped(out, m->help, false);
    fprintf(out, "\n# TYPE %s %s\n", m->name, types[m->type]);
}

static void put_labels(FILE *out, const struct csireg_metric *m, const double *bound, bool last_bucket)
{
    const char *separator = "{";
    for (size_t i = 0; i < m->n_labels; i++, separator = ",") {
        fprintf(out, "%s%s=\"", separator, m->label_names[i]);
        put_escaped(out, m->label_values[i], true);
        fputc('"', out);
    }
    if (bound || last_bucket) {
        fprintf(out, "%sle=\"", separator);
        if (bound)
            put_number(out, *bound);
        else
            fputs("+Inf", out);
        fputc('"', out);
        separator = ",";
    }
    fputs(*separator == ',' ? "} " : " ", out);
}

static void put_histogram(FILE *out, const struct csireg_metric *m)
{
    for (size_t i = 0; i <= m->n_buckets; i++) {
        bool last = i == m->n_buckets;
        fprintf(out, "%s_bucket", m->name);
        put_labels(out, m, last ? NULL : &m->bounds[i], last);
        fprintf(out, "%" PRIu64 "\n", last ? m->count : m->buckets[i]);
    }
    fprintf(out, "%s_sum", m->name);
    put_labels(out, m, NULL, false);
    put_number(out, m->value);
    fprintf(out, "\n%s_count", m->name);
    put_labels(out, m, NULL, false);
    fprintf(out, "%" PRIu64 "\n", m->count);
}

void metrics_write(FILE *out, const struct csireg_metric *m, bool first)
{
    if (first) put_head(out, m);
    if (m->type == CSIREG_METRIC_HISTOGRAM) {
        put_histogram(out, m);
        return;
    }
    fputs(m->name, out);
    put_labels(out, m, NULL, false);
    put_number(out, m->value);
    fputc('\n', out);
}

char *metrics_text(const struct csireg_metrics *metrics)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out) return NULL;
    const struct csireg_metric *m;
    const char *name = "";
    for (size_t i = 0; (m = csireg_metrics_get(metrics, i)) != NULL; i++) {
        metrics_write(out, m, strcmp(name, m->name) != 0);
        name = m->name;
    }
    int failed = fclose(out);
    if (!failed) return text;
    free(text);
    return NULL;
}
