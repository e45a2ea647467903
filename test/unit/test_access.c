/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/bounds.h"
#include "base/buf.h"
#include "base/mem.h"
#include "io/access.h"
#include "unit/golden.h"

#define CA  "-----BEGIN CERTIFICATE-----\nQ0E=\n-----END CERTIFICATE-----\n"
#define KEY "-----BEGIN PRIVATE KEY-----\nSECRET\n-----END PRIVATE KEY-----\n"

/* Frees *e, whose message must hold this part and no secret. */
static void assert_error(int rc, struct csireg_error **e, const char *part)
{
    const char *text = csireg_error_message(*e);
    assert_int_equal(rc, CSIREG_ERR_CONFIG);
    assert_int_equal(csireg_error_code(*e), CSIREG_ERR_CONFIG);
    if (!strstr(text, part)) fail_msg("\"%s\" lacks \"%s\"", text, part);
    if (strstr(text, "SECR")) fail_msg("\"%s\" shows a secret", text);
    csireg_error_free(*e);
    *e = NULL;
}

/* ---- golden: input, context (optional), the files it names; expected or error, with $DIR for the folder ---- */

static char golden_dir[1024];

/* Text with the folder's name replaced by $DIR. */
static void put(struct cr_buf *b, const char *name, const char *text)
{
    size_t n = strlen(golden_dir);
    if (!text) return;
    cr_buf_printf(b, "%s ", name);
    for (const char *p = text; *p; p++) {
        bool here = strncmp(p, golden_dir, n) == 0;
        if (here)
            cr_buf_puts(b, "$DIR");
        else
            cr_buf_append(b, *p == '\n' ? "|" : p, 1);
        if (here) p += n - 1;
    }
    cr_buf_puts(b, "\n");
}

static void put_secret(struct cr_buf *b, const char *name, const struct cr_secret *s)
{
    char file[64];
    snprintf(file, sizeof file, "%s-file", name);
    if (s->data) assert_int_equal(strlen(s->data), s->len);
    put(b, name, s->data);
    put(b, file, s->file);
}

static void put_access(struct cr_buf *b, const struct cr_access *a)
{
    put(b, "server", a->server);
    put(b, "tls-server-name", a->tls_server_name);
    if (a->insecure_skip_tls_verify) cr_buf_puts(b, "insecure-skip-tls-verify\n");
    put_secret(b, "token", &a->token);
    put_secret(b, "ca", &a->ca);
    put_secret(b, "client-certificate", &a->client_certificate);
    put_secret(b, "client-key", &a->client_key);
    put(b, "warning", a->warning);
    put(b, "proxy", a->proxy);
}

static void assert_golden(const char *folder, const char *expected, const char *is)
{
    if (strcmp(expected, is) != 0) fail_msg("%s:\n%s\ninstead of\n%s", folder, is, expected);
}

static void check_outcome(const char *folder, int rc, const struct cr_access *a, const struct csireg_error *e)
{
    struct cr_buf b;
    char *expected = golden_read(folder, "expected"), *error = golden_read(folder, "error");
    cr_buf_init(&b, 1024 * 1024);
    if (rc == 0) put_access(&b, a);
    if (rc != 0) put(&b, "", csireg_error_message(e));
    if (expected) assert_golden(folder, expected, cr_buf_str(&b));
    if (error) assert_golden(folder, error, cr_buf_str(&b) + (rc != 0));
    assert_int_equal(rc, expected ? 0 : CSIREG_ERR_CONFIG);
    if (strstr(csireg_error_message(e), "SECR")) fail_msg("%s shows a secret", csireg_error_message(e));
    free(expected);
    free(error);
    cr_buf_free(&b);
}

static struct {
    char path[2048], *context;
    char *message; /* without lack of memory, as rc */
    int rc;
} golden;

static bool read_golden(void)
{
    struct cr_access *a = NULL;
    struct csireg_error *e = NULL;
    int rc = cr_access_from_kubeconfig(&a, golden.path, golden.context, &e);
    assert_int_equal(rc != 0, a == NULL);
    assert_int_equal(csireg_error_code(e), rc);
    bool same = rc == golden.rc && strcmp(csireg_error_message(e), golden.message) == 0;
    cr_access_free(a);
    csireg_error_free(e);
    assert_true(rc == golden.rc || rc == CSIREG_ERR_NOMEM);
    return same;
}

static void run_golden(const char *folder)
{
    struct cr_access *a = NULL;
    struct csireg_error *e = NULL;
    assert_non_null(realpath(folder, golden_dir));
    snprintf(golden.path, sizeof golden.path, "%s/input", folder); /* relative, so that it must be made absolute */
    golden.context = golden_read(folder, "context");
    if (golden.context) golden.context[strcspn(golden.context, "\n")] = '\0';
    golden.rc = cr_access_from_kubeconfig(&a, golden.path, golden.context, &e);
    golden.message = strdup(csireg_error_message(e));
    check_outcome(folder, golden.rc, a, e);
    cr_access_free(a);
    csireg_error_free(e);
    oom_run(read_golden);
    free(golden.context);
    free(golden.message);
}

static void test_kubeconfigs(void **state)
{
    (void)state;
    assert_true(golden_run("kubeconfig", run_golden) > 90);
}

/* ---- a temporary directory ---- */

static char dir[64];

static const char *in_dir(const char *name)
{
    static char paths[4][256];
    static unsigned n;
    char *path = paths[n++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", dir, name);
    return path;
}

static void write_file(const char *name, const char *text)
{
    FILE *f = fopen(in_dir(name), "we");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static int make_dir(void **state)
{
    (void)state;
    snprintf(dir, sizeof dir, "/tmp/csireg-access-XXXXXX");
    return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
    static const char *const names[] = {"token", "ca.crt", "c.pem", "k.pem", "config", "fifo", "fresh"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) unlink(in_dir(names[i]));
    return rmdir(dir);
}

static struct cr_access *explicit_access(struct cr_access_explicit x)
{
    struct cr_access *a = NULL;
    struct csireg_error *e = NULL;
    if (!x.server) x.server = "https://h";
    if (cr_access_from_explicit(&a, &x, &e) != 0) fail_msg("%s", csireg_error_message(e));
    return a;
}

static void refuse_explicit(struct cr_access_explicit x, const char *part)
{
    struct cr_access *a = NULL;
    struct csireg_error *e = NULL;
    if (!x.server) x.server = "https://h";
    assert_error(cr_access_from_explicit(&a, &x, &e), &e, part);
    assert_null(a);
}

/* ---- files that are none ---- */

static void refuse_kubeconfig(const char *path, const char *part)
{
    struct cr_access *a = NULL;
    struct csireg_error *e = NULL;
    assert_error(cr_access_from_kubeconfig(&a, path, NULL, &e), &e, part);
}

static void test_other_kinds_of_files(void **state)
{
    (void)state;
    assert_int_equal(mkfifo(in_dir("fifo"), 0600), 0);
    refuse_kubeconfig(in_dir("fifo"), "is not a regular file"); /* and does not wait for a writer */
    refuse_kubeconfig(dir, "is not a regular file");
    refuse_kubeconfig("/dev/zero", "is not a regular file");
    refuse_kubeconfig("/proc/self/status", "changes while it is read");
    refuse_kubeconfig(in_dir("nowhere"), "No such file");
    refuse_explicit((struct cr_access_explicit){.token_file = in_dir("fifo")}, "is not a regular file");
    refuse_explicit((struct cr_access_explicit){.token_file = "/dev/tty"}, "token file /dev/tty");
}

static void test_sizes(void **state)
{
    (void)state;
    write_file("config", "x");
    assert_int_equal(truncate(in_dir("config"), CR_MAX_KUBECONFIG + 1), 0);
    refuse_kubeconfig(in_dir("config"), "at most 1048576 are read");
    write_file("token", "x");
    assert_int_equal(truncate(in_dir("token"), 1LL << 40), 0); /* sparse */
    refuse_explicit((struct cr_access_explicit){.token_file = in_dir("token")}, "at most 65536 are read");
    refuse_explicit((struct cr_access_explicit){.ca_file = in_dir("token")}, "at most 1048576 are read");
}

/* A megabyte of the smallest nodes ends at the bound, not in the memory. */
static void test_too_many_nodes(void **state)
{
    (void)state;
    FILE *f = fopen(in_dir("config"), "we");
    assert_non_null(f);
    fputs("a: [", f);
    for (int i = 0; i < 500000; i++) fputs("1,", f);
    fputs("]\n", f);
    assert_int_equal(fclose(f), 0);
    refuse_kubeconfig(in_dir("config"), "line 1: too many YAML nodes");
}

/* ---- the other sources ---- */

static void test_in_cluster(void **state)
{
    struct cr_access *a = NULL;
    struct csireg_error *e = NULL;
    (void)state;
    assert_error(cr_access_in_cluster(&a, "10.0.0.1", "443", dir, &e), &e, "/token: No such file");
    write_file("token", "SECRET\n");
    assert_error(cr_access_in_cluster(&a, "10.0.0.1", "443", dir, &e), &e, "/ca.crt: No such file");
    write_file("ca.crt", CA);
    assert_int_equal(cr_access_in_cluster(&a, "fd00::1", "443", dir, NULL), 0);
    assert_int_equal(a->source, CR_ACCESS_IN_CLUSTER);
    assert_string_equal(a->server, "https://[fd00::1]:443");
    assert_string_equal(a->token.data, "SECRET");
    assert_string_equal(a->ca.data, CA);
    assert_null(a->warning);
    cr_access_free(a);
    assert_error(cr_access_in_cluster(&a, NULL, "443", dir, &e), &e, "this is not a pod");
    assert_error(cr_access_in_cluster(&a, "10.0.0.1", "", dir, &e), &e, "this is not a pod");
    assert_error(cr_access_in_cluster(&a, "10.0.0.1", "0", dir, &e), &e, "has a port");
}

static void test_explicit(void **state)
{
    (void)state;
    write_file("c.pem", CA);
    write_file("k.pem", KEY);
    struct cr_access *a = explicit_access((struct cr_access_explicit){.server = "https://h:1/",
                                                                      .token = " SECRET ",
                                                                      .tls_server_name = "t",
                                                                      .client_certificate_file = in_dir("c.pem"),
                                                                      .client_key_file = in_dir("k.pem")});
    assert_int_equal(a->source, CR_ACCESS_EXPLICIT);
    assert_string_equal(a->server, "https://h:1");
    assert_string_equal(a->token.data, "SECRET");
    assert_null(a->token.file);
    assert_string_equal(a->client_key.data, KEY);
    cr_access_free(a);
    refuse_explicit((struct cr_access_explicit){.server = ""}, "is missing");
    refuse_explicit((struct cr_access_explicit){.token = "SECRET", .token_file = "x"}, "both given");
    refuse_explicit((struct cr_access_explicit){.token = "SECRET\nX: y"}, "the token holds a control character");
    refuse_explicit((struct cr_access_explicit){.client_key_file = in_dir("k.pem")}, "no client certificate");
    refuse_explicit((struct cr_access_explicit){.ca_file = in_dir("c.pem"), .insecure_skip_tls_verify = true}, "both");
}

static void test_relative_files_survive_chdir(void **state)
{
    char here[1024];
    (void)state;
    write_file("token", "SECRET-1");
    assert_non_null(getcwd(here, sizeof here));
    assert_int_equal(chdir(dir), 0);
    struct cr_access *a = explicit_access((struct cr_access_explicit){.token_file = "token"});
    assert_int_equal(chdir(here), 0);
    assert_string_equal(a->token.file, in_dir("token"));
    assert_int_equal(cr_access_refresh(a, true, NULL), 0);
    cr_access_free(a);
}

static void test_proxy(void **state)
{
    static const char *const bad[] = {"proxy:3128", "file:///etc/passwd", "http://", "http://p:1\r\nX: y", "x"};
    struct csireg_error *e = NULL;
    (void)state;
    struct cr_access *a = explicit_access((struct cr_access_explicit){0});
    assert_null(a->proxy);
    assert_int_equal(cr_access_set_proxy(a, "HTTP://me:SECRET@p:3128", &e), 0);
    assert_string_equal(a->proxy, "HTTP://me:SECRET@p:3128");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_error(cr_access_set_proxy(a, bad[i], &e), &e, "the proxy");
        assert_non_null(a->proxy);
    }
    assert_int_equal(cr_access_set_proxy(a, "", NULL), 0);
    assert_null(a->proxy);
    cr_access_free(a);
}

/* ---- refresh ---- */

static void replace_file(const char *name, const char *text)
{
    write_file("fresh", text);
    assert_int_equal(rename(in_dir("fresh"), in_dir(name)), 0);
}

static void test_refresh_token(void **state)
{
    struct csireg_error *e = NULL;
    (void)state;
    write_file("token", "SECRET-1\n");
    struct cr_access *a = explicit_access((struct cr_access_explicit){.token_file = in_dir("token")});
    assert_int_equal(cr_access_refresh(a, false, &e), 0);
    assert_int_equal(cr_access_refresh(a, true, &e), 0);
    replace_file("token", "SECRET-2\n");
    assert_int_equal(cr_access_refresh(a, false, &e), 1);
    assert_string_equal(a->token.data, "SECRET-2");
    assert_int_equal(cr_access_refresh(a, false, &e), 0);
    write_file("token", "SECRET-longer\n"); /* in place */
    assert_int_equal(cr_access_refresh(a, false, &e), 1);
    assert_string_equal(a->token.data, "SECRET-longer");
    replace_file("token", " \n");
    assert_error(cr_access_refresh(a, false, &e), &e, "is empty");
    assert_string_equal(a->token.data, "SECRET-longer");
    unlink(in_dir("token"));
    assert_error(cr_access_refresh(a, false, &e), &e, "No such file");
    replace_file("token", "SECRET-longer"); /* back with the same content */
    assert_int_equal(cr_access_refresh(a, false, NULL), 0);
    cr_access_free(a);
}

/* As a kubelet swaps a projected volume: the name is a link to another folder. */
static void test_refresh_through_a_link(void **state)
{
    (void)state;
    write_file("c.pem", "SECRET-1");
    write_file("k.pem", "SECRET-2");
    assert_int_equal(symlink("c.pem", in_dir("token")), 0);
    struct cr_access *a = explicit_access((struct cr_access_explicit){.token_file = in_dir("token")});
    assert_int_equal(symlink("k.pem", in_dir("fresh")), 0);
    assert_int_equal(rename(in_dir("fresh"), in_dir("token")), 0);
    assert_int_equal(cr_access_refresh(a, false, NULL), 1);
    assert_string_equal(a->token.data, "SECRET-2");
    cr_access_free(a);
}

static void test_certificate_and_key_change_together(void **state)
{
    struct csireg_error *e = NULL;
    (void)state;
    write_file("token", "SECRET-1");
    write_file("c.pem", CA);
    write_file("k.pem", KEY);
    struct cr_access *a = explicit_access((struct cr_access_explicit){
        .token_file = in_dir("token"), .client_certificate_file = in_dir("c.pem"), .client_key_file = in_dir("k.pem")});
    replace_file("c.pem", CA CA);
    unlink(in_dir("k.pem"));
    replace_file("token", "SECRET-2");
    assert_int_equal(cr_access_refresh(a, false, &e), 1); /* the token is renewed all the same */
    assert_string_equal(a->token.data, "SECRET-2");
    assert_string_equal(a->client_certificate.data, CA);
    assert_error(cr_access_refresh(a, false, &e), &e, "client key file");
    assert_string_equal(a->client_certificate.data, CA);
    replace_file("k.pem", KEY KEY);
    assert_int_equal(cr_access_refresh(a, false, NULL), 1);
    assert_string_equal(a->client_certificate.data, CA CA);
    assert_string_equal(a->client_key.data, KEY KEY);
    cr_access_free(a);
}

static bool refresh_scenario(void)
{
    struct cr_access *a = NULL;
    const struct cr_access_explicit x = {.server = "https://h",
                                         .token_file = in_dir("token"),
                                         .client_certificate_file = in_dir("c.pem"),
                                         .client_key_file = in_dir("k.pem")};
    int rc = cr_access_from_explicit(&a, &x, NULL);
    if (rc == 0) rc = cr_access_refresh(a, true, NULL);
    if (rc == 0) rc = cr_access_set_proxy(a, "http://p", NULL);
    cr_access_free(a);
    assert_true(rc == 0 || rc == CSIREG_ERR_NOMEM);
    return rc == 0;
}

static void test_no_memory(void **state)
{
    (void)state;
    write_file("token", "SECRET-1");
    write_file("c.pem", CA);
    write_file("k.pem", KEY);
    oom_run(refresh_scenario);
}

#define IN_DIR(test) cmocka_unit_test_setup_teardown(test, make_dir, remove_dir)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kubeconfigs),
        IN_DIR(test_other_kinds_of_files),
        IN_DIR(test_sizes),
        IN_DIR(test_too_many_nodes),
        IN_DIR(test_in_cluster),
        IN_DIR(test_explicit),
        IN_DIR(test_relative_files_survive_chdir),
        IN_DIR(test_proxy),
        IN_DIR(test_refresh_token),
        IN_DIR(test_refresh_through_a_link),
        IN_DIR(test_certificate_and_key_change_together),
        IN_DIR(test_no_memory),
    };
    return cmocka_run_group_tests_name("access", tests, NULL, NULL);
}
