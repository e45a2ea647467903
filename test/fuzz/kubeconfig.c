/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kubeconfig. Input: which context, allocation that fails, the file. No secret of it may show in an error or a
 * warning; what is accepted is usable.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/bounds.h"
#include "base/mem.h"
#include "fuzz/fuzz.h"
#include "io/kubeconfig.h"
#include "io/kubeconfig_yaml.h"
#include "io/secret.h"

#define MIN_SECRET 6 /* a shorter one is too likely to be a part of any text */

/* ---- secrets of the document ---- */

static bool is_secret_field(const char *key)
{
    static const char *const fields[] = {"token", "client-key-data",           "client-certificate-data", "password",
                                         "exec",  "certificate-authority-data"};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (strcmp(key, fields[i]) == 0) return true;
    return false;
}

/* Is node the value of a field that holds a secret, in any map? */
static bool is_secret(const struct cr_yaml_doc *doc, const struct cr_yaml *node)
{
    for (const struct cr_yaml *map = doc->all; map; map = map->next) {
        if (map->kind != CR_YAML_MAP) continue;
        for (size_t i = 0; i + 1 < map->n_items; i += 2)
            if (map->items[i + 1] == node && is_secret_field(map->items[i]->text)) return true;
    }
    return false;
}

/* The document says the same text openly, as a name or a key. */
static bool is_said_openly(const struct cr_yaml_doc *doc, const char *text)
{
    for (const struct cr_yaml *n = doc->all; n; n = n->next)
        if (n->kind == CR_YAML_SCALAR && !is_secret(doc, n) && strstr(n->text, text)) return true;
    return false;
}

/* A text that csireg's own words may hold. */
static bool is_common(const char *text)
{
    return strspn(text, "abcdefghijklmnopqrstuvwxyz -,.:;()\"'/0123456789") == strlen(text);
}

static void check_hidden(const struct cr_yaml_doc *doc, const char *message)
{
    for (const struct cr_yaml *n = doc->all; n; n = n->next) {
        if (n->kind != CR_YAML_SCALAR || strlen(n->text) < MIN_SECRET || is_common(n->text)) continue;
        if (!strstr(message, n->text) || !is_secret(doc, n)) continue;
        CHECK(is_said_openly(doc, n->text));
    }
}

/* Texts that the seeds mark: they show when the document is not even readable. */
static void check_marks(const char *message, bool readable)
{
    if (!readable) CHECK(!strstr(message, "SECRET") && !strstr(message, "U0VDUkVU"));
}

/* ---- what was accepted ---- */

static void check_secret(const struct cr_secret *s, bool token)
{
    if (s->file) CHECK(s->file[0] == '/');
    if (!s->data) return;
    CHECK(s->len > 0 && strlen(s->data) == s->len);
    for (size_t i = 0; token && i < s->len; i++) CHECK(s->data[i] > ' ' && s->data[i] <= '~');
    if (!token) CHECK(strstr(s->data, "-----"));
}

static void check_access(const struct cr_access *a)
{
    CHECK(a->server && a->server[0]);
    check_secret(&a->token, true);
    check_secret(&a->ca, false);
    check_secret(&a->client_certificate, false);
    check_secret(&a->client_key, false);
}

static void check_read(const char *path, const char *context, const struct fuzz_in *in, uint8_t fails)
{
    struct cr_access *access = CR_NEW(struct cr_access);
    struct csireg_error *e = NULL;
    struct cr_yaml_doc doc = {0};
    bool readable = cr_yaml_parse(&doc, (const char *)in->at, in->left, NULL) == 0;
    fuzz_short_of_memory(fails);
    int rc = cr_kubeconfig_read(access, path, context, &e);
    bool was_short = fuzz_memory_was_short();
    const char *message = csireg_error_message(e);
    CHECK(rc == 0 || rc == CSIREG_ERR_CONFIG || (was_short && rc == CSIREG_ERR_NOMEM));
    CHECK((rc == 0) == !e);
    CHECK(strlen(message) <= CR_MAX_ERROR_TEXT);
    check_marks(message, readable);
    check_hidden(&doc, message);
    if (access->warning) check_hidden(&doc, access->warning);
    if (rc == 0) check_access(access);
    cr_yaml_fini(&doc);
    csireg_error_free(e);
    cr_access_free(access);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_in in = {data, size};
    char path[64];
    uint8_t what = fuzz_byte(&in), fails = fuzz_byte(&in);
    int fd = memfd_create("kubeconfig", MFD_CLOEXEC);
    CHECK(fd >= 0);
    CHECK(write(fd, in.at, in.left) == (ssize_t)in.left);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    check_read(path, what & 1 ? "c" : NULL, &in, fails);
    close(fd);
    return 0;
}
