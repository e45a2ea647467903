/* SPDX-License-Identifier: Apache-2.0 */
/* The options object: every value that goes in is held to its row of the table. */
#include "api/options.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "core/shown.h"

/* ---- life ---- */

static void free_value(struct cr_option_value *v)
{
    if (v->text) explicit_bzero(v->text, strlen(v->text)); /* it may be the token */
    cr_free(v->text);
    cr_strv_free(v->list);
    *v = (struct cr_option_value){0};
}

static bool fill_default(struct cr_option_value *v, const struct cr_option_row *row)
{
    *v = (struct cr_option_value){.number = row->number, .text = cr_strdup(row->text)};
    return v->text || !row->text;
}

int csireg_options_new(struct csireg_options **out_options)
{
    if (!out_options) return CSIREG_ERR_INVALID;
    struct csireg_options *o = CR_NEW(struct csireg_options);
    if (!o) return CSIREG_ERR_NOMEM;
    bool ok = true;
    for (int i = 0; i < CR_N_OPTIONS; i++)
        ok = fill_default(&o->values[i], cr_option_row((enum csireg_option)(i + 1))) && ok;
    if (!ok) {
        csireg_options_free(o);
        return CSIREG_ERR_NOMEM;
    }
    *out_options = o;
    return CSIREG_OK;
}

void csireg_options_free(struct csireg_options *o)
{
    if (!o) return;
    for (int i = 0; i < CR_N_OPTIONS; i++) free_value(&o->values[i]);
    cr_free(o);
}

static bool copy_value(struct cr_option_value *to, const struct cr_option_value *from)
{
    *to = (struct cr_option_value){.number = from->number, .n_list = from->n_list};
    to->text = cr_strdup(from->text);
    if (from->list) to->list = cr_strv_dup((const char *const *)from->list, from->n_list);
    return (to->text || !from->text) && (to->list || !from->list);
}

struct csireg_options *cr_options_copy(const struct csireg_options *o)
{
    struct csireg_options *copy = CR_NEW(struct csireg_options);
    bool ok = copy != NULL;
    for (int i = 0; ok && i < CR_N_OPTIONS; i++) ok = copy_value(&copy->values[i], &o->values[i]);
    if (!ok) {
        csireg_options_free(copy);
        return NULL;
    }
    copy->log_level = o->log_level;
    copy->log = o->log;
    copy->log_user = o->log_user;
    return copy;
}

/* ---- reading ---- */

const char *cr_option_string(const struct csireg_options *o, enum csireg_option option)
{
    return o->values[option - 1].text;
}

int64_t cr_option_int(const struct csireg_options *o, enum csireg_option option)
{
    return o->values[option - 1].number;
}

bool cr_option_bool(const struct csireg_options *o, enum csireg_option option)
{
    return o->values[option - 1].number != 0;
}

const char *const *cr_option_strings(const struct csireg_options *o, enum csireg_option option, size_t *out_n)
{
    *out_n = o->values[option - 1].n_list;
    return (const char *const *)o->values[option - 1].list;
}

/* ---- checks ---- */

static const char *const type_names[] = {"",          "a string",          "an integer",
                                         "a boolean", "a list of strings", "a duration in milliseconds"};
static const char *const setter_names[] = {"", "set_string", "set_int", "set_bool", "set_strings", "set_int"};

/* The row of an option that takes values by the setter for `type`; NULL and the error otherwise. */
static const struct cr_option_row *find(const struct csireg_options *o, enum csireg_option option,
                                        enum csireg_option_type type, struct csireg_error **error)
{
    const struct cr_option_row *row = o ? cr_option_row(option) : NULL;
    if (!o)
        cr_error_put(error, cr_error_new(CSIREG_ERR_INVALID, "options is NULL"));
    else if (!row)
        cr_error_put(error, cr_error_new(CSIREG_ERR_INVALID, "there is no option %d in this version", (int)option));
    if (!row || strcmp(setter_names[row->info.type], setter_names[type]) == 0) return row;
    cr_error_put(error, cr_error_new(CSIREG_ERR_INVALID, "option %s is %s: use csireg_options_%s", row->info.name,
                                     type_names[row->info.type], setter_names[row->info.type]));
    return NULL;
}

static int must_be(const struct cr_option_row *row, const char *value, const char *what, struct csireg_error **error)
{
    return cr_error_put(error, cr_error_new(CSIREG_ERR_INVALID, "option %s is \"%s\"; it must be %s", row->info.name,
                                            cr_shown(value).text, what));
}

/* The value itself may be secret and is only quoted where a check of its row refuses it. */
static int check_text(const struct cr_option_row *row, const char *value, size_t max, struct csireg_error **error)
{
    size_t len = strnlen(value, max + 1);
    if (len == 0) return cr_error_put(error, cr_error_new(CSIREG_ERR_INVALID, "option %s is empty", row->info.name));
    if (len > max)
        return cr_error_put(
            error, cr_error_new(CSIREG_ERR_INVALID, "option %s is longer than %zu bytes", row->info.name, max));
    if (!cr_utf8_valid(value, len))
        return cr_error_put(error, cr_error_new(CSIREG_ERR_INVALID, "option %s is not valid UTF-8", row->info.name));
    const char *wanted = row->bad_text ? row->bad_text(value) : NULL;
    return wanted ? must_be(row, value, wanted, error) : CSIREG_OK;
}

static int check_number(const struct cr_option_row *row, int64_t value, struct csireg_error **error)
{
    char text[32], bounds[80];
    const char *unit = row->info.type == CSIREG_TYPE_DURATION ? " ms" : "";
    bool outside = value < row->info.minimum || value > row->info.maximum;
    snprintf(bounds, sizeof bounds, "from %" PRId64 " to %" PRId64 "%s", row->info.minimum, row->info.maximum, unit);
    const char *wanted = outside ? bounds : row->bad_number ? row->bad_number(value) : NULL;
    snprintf(text, sizeof text, "%" PRId64 "%s", value, unit);
    return wanted ? must_be(row, text, wanted, error) : CSIREG_OK;
}

static int check_list(const struct cr_option_row *row, const char *const *values, size_t n, struct csireg_error **error)
{
    if (n > (size_t)row->info.maximum)
        return cr_error_put(error, cr_error_new(CSIREG_ERR_INVALID,
                                                "option %s has %zu items; at most %" PRId64 " are accepted",
                                                row->info.name, n, row->info.maximum));
    for (size_t i = 0; i < n; i++) {
        if (!values || !values[i])
            return cr_error_put(error,
                                cr_error_new(CSIREG_ERR_INVALID, "option %s: item %zu is NULL", row->info.name, i));
        int rc = check_text(row, values[i], row->item_max, error);
        if (rc != CSIREG_OK) return rc;
    }
    return CSIREG_OK;
}

/* ---- setters ---- */

static struct cr_option_value *value_of(struct csireg_options *o, enum csireg_option option)
{
    return &o->values[option - 1];
}

static int store(struct cr_option_value *to, struct cr_option_value *from, bool complete, struct csireg_error **error)
{
    if (!complete) {
        free_value(from);
        return cr_error_put(error, cr_error_oom());
    }
    free_value(to);
    *to = *from;
    return CSIREG_OK;
}

int csireg_options_set_string(struct csireg_options *o, enum csireg_option option, const char *value,
                              struct csireg_error **error)
{
    struct cr_option_value v = {0};
    const struct cr_option_row *row = find(o, option, CSIREG_TYPE_STRING, error);
    if (!row) return CSIREG_ERR_INVALID;
    bool unset = !value || !*value;
    int rc = unset ? CSIREG_OK : check_text(row, value, (size_t)row->info.maximum, error);
    if (rc != CSIREG_OK) return rc;
    if (unset) return store(value_of(o, option), &v, fill_default(&v, row), error);
    v.text = cr_strdup(value);
    return store(value_of(o, option), &v, v.text != NULL, error);
}

int csireg_options_set_int(struct csireg_options *o, enum csireg_option option, int64_t value,
                           struct csireg_error **error)
{
    const struct cr_option_row *row = find(o, option, CSIREG_TYPE_INT, error);
    int rc = row ? check_number(row, value, error) : CSIREG_ERR_INVALID;
    if (rc == CSIREG_OK) value_of(o, option)->number = value;
    return rc;
}

int csireg_options_set_bool(struct csireg_options *o, enum csireg_option option, int value, struct csireg_error **error)
{
    const struct cr_option_row *row = find(o, option, CSIREG_TYPE_BOOL, error);
    if (!row) return CSIREG_ERR_INVALID;
    value_of(o, option)->number = value != 0;
    return CSIREG_OK;
}

int csireg_options_set_strings(struct csireg_options *o, enum csireg_option option, const char *const *values,
                               size_t n_values, struct csireg_error **error)
{
    struct cr_option_value v = {.n_list = n_values};
    const struct cr_option_row *row = find(o, option, CSIREG_TYPE_STRINGS, error);
    int rc = row ? check_list(row, values, n_values, error) : CSIREG_ERR_INVALID;
    if (rc != CSIREG_OK) return rc;
    v.list = cr_strv_dup(values, n_values);
    return store(value_of(o, option), &v, v.list != NULL, error);
}

int csireg_options_set_log(struct csireg_options *o, enum csireg_log_level level, csireg_log_fn *fn, void *user,
                           struct csireg_error **error)
{
    if (!o) return cr_error_put(error, cr_error_new(CSIREG_ERR_INVALID, "options is NULL"));
    if (level < CSIREG_LOG_ERROR || level > CSIREG_LOG_DEBUG)
        return cr_error_put(error, cr_error_new(CSIREG_ERR_INVALID, "log level %d is outside %d to %d", (int)level,
                                                CSIREG_LOG_ERROR, CSIREG_LOG_DEBUG));
    o->log_level = level;
    o->log = fn;
    o->log_user = user;
    return CSIREG_OK;
}
