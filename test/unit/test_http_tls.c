/* SPDX-License-Identifier: Apache-2.0 */
/* Whom the client trusts, who it is, and what happens when that changes. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "unit/http_rig.h"

/* ---- the server ---- */

static void test_unknown_ca(void **state)
{
    struct http_rig *rig = *state;
    struct pki *other = pki_new("other CA");
    http_rig_serve(rig, http_serve_ok, NULL);
    http_rig_write(rig, "other.pem", pki_pem(other));
    http_rig_write(rig, "token", HTTP_RIG_TOKEN);
    http_rig_connect_explicit(rig, (struct cr_access_explicit){.token_file = http_rig_path(rig, "token"),
                                                               .ca_file = http_rig_path(rig, "other.pem")});
    struct cr_api_answer *a = http_rig_get(rig, "/x");
    assert_http_failed(a, CR_TRANSPORT_TLS, "certificate-authority");
    assert_http_text(a->text, rig->access->server);
    assert_int_equal(tls_server_requests(rig->server), 0);
    http_rig_write(rig, "other.pem", pki_pem(rig->ca)); /* the remedy works without a restart */
    assert_int_equal(http_rig_get(rig, "/x")->status, 200);
    assert_int_equal(rig->changed, 1);
    pki_free(other);
}

static void test_system_cas_without_a_given_one(void **state)
{
    struct http_rig *rig = *state;
    http_rig_serve(rig, http_serve_ok, NULL);
    http_rig_connect_explicit(rig, (struct cr_access_explicit){.token = HTTP_RIG_TOKEN});
    assert_http_failed(http_rig_get(rig, "/x"), CR_TRANSPORT_TLS, "certificate-authority");
}

static void serve_named(struct http_rig *rig, enum pki_kind kind, const char *name, struct pki_pair *pair,
                        tls_handler *handler)
{
    const char *const names[] = {name, NULL};
    *pair = pki_issue(rig->ca, kind, "other", names);
    http_rig_serve_config(rig, (struct tls_server_config){.pair = pair, .handler = handler});
}

static void test_wrong_name(void **state)
{
    struct http_rig *rig = *state;
    struct pki_pair pair;
    serve_named(rig, PKI_SERVER, "api.example.com", &pair, http_serve_ok);
    http_rig_connect(rig);
    assert_http_failed(http_rig_get(rig, "/x"), CR_TRANSPORT_TLS, "tls-server-name");
    pki_pair_free(&pair);
}

static void test_expired(void **state)
{
    struct http_rig *rig = *state;
    struct pki_pair pair;
    serve_named(rig, PKI_EXPIRED_SERVER, "127.0.0.1", &pair, http_serve_ok);
    http_rig_connect(rig);
    assert_http_failed(http_rig_get(rig, "/x"), CR_TRANSPORT_TLS, "clock");
    pki_pair_free(&pair);
}

static enum tls_after echo_names(void *user, struct tls_conn *conn, const struct tls_request *r)
{
    char text[256];
    const char *host = strstr(r->head, "Host: ");
    (void)user;
    snprintf(text, sizeof text, "%s %.*s", r->sni, (int)strcspn(host, "\r"), host);
    tls_reply(conn, 200, NULL, text);
    return TLS_KEEP;
}

static void connect_named(struct http_rig *rig, const char *server_host, const char *tls_name)
{
    char server[128];
    http_rig_write(rig, "ca.pem", pki_pem(rig->ca));
    snprintf(server, sizeof server, "https://%s:%u", server_host, tls_server_port(rig->server));
    http_rig_connect_explicit(rig, (struct cr_access_explicit){.server = server,
                                                               .ca_file = http_rig_path(rig, "ca.pem"),
                                                               .tls_server_name = tls_name});
}

static void assert_named(struct http_rig *rig, const char *sni, const char *host)
{
    char expected[256];
    struct cr_api_answer *a = http_rig_get(rig, "/x");
    if (a->transport != CR_TRANSPORT_OK) fail_msg("%s", a->text);
    snprintf(expected, sizeof expected, "%s Host: %s:%u", sni, host, tls_server_port(rig->server));
    assert_string_equal(a->body, expected);
    http_rig_get(rig, "/x");
    assert_int_equal(tls_server_accepts(rig->server), 1);
}

static void test_tls_server_name(void **state)
{
    struct http_rig *rig = *state;
    struct pki_pair pair;
    serve_named(rig, PKI_SERVER, "api.example.com", &pair, echo_names);
    connect_named(rig, "127.0.0.1", "api.example.com");
    assert_named(rig, "api.example.com", "127.0.0.1");
    pki_pair_free(&pair);
}

static void test_tls_server_name_is_checked(void **state)
{
    struct http_rig *rig = *state;
    http_rig_serve(rig, http_serve_ok, NULL); /* for 127.0.0.1 */
    connect_named(rig, "127.0.0.1", "api.example.com");
    assert_http_failed(http_rig_get(rig, "/x"), CR_TRANSPORT_TLS, "another name");
}

static void test_tls_server_name_may_be_an_address(void **state)
{
    struct http_rig *rig = *state;
    struct pki_pair pair;
    serve_named(rig, PKI_SERVER, "fd00::1", &pair, echo_names);
    connect_named(rig, "localhost", "fd00::1");
    assert_named(rig, "", "localhost");
    pki_pair_free(&pair);
}

static void test_ipv6(void **state)
{
    struct http_rig *rig = *state;
    http_rig_serve_config(rig, (struct tls_server_config){.ipv6 = true, .handler = echo_names});
    connect_named(rig, "[::1]", NULL);
    assert_named(rig, "", "[::1]");
}

static void test_ipv6_with_tls_server_name(void **state)
{
    struct http_rig *rig = *state;
    http_rig_serve_config(rig, (struct tls_server_config){.ipv6 = true, .handler = echo_names});
    connect_named(rig, "[::1]", "localhost");
    assert_named(rig, "localhost", "[::1]");
}

static void test_insecure_skip_tls_verify(void **state)
{
    struct http_rig *rig = *state;
    struct pki_pair pair;
    serve_named(rig, PKI_EXPIRED_SERVER, "api.example.com", &pair, http_serve_ok);
    http_rig_connect_explicit(rig, (struct cr_access_explicit){.insecure_skip_tls_verify = true});
    assert_int_equal(http_rig_get(rig, "/x")->status, 200);
    assert_http_text(rig->access->warning, "INSECURE");
    pki_pair_free(&pair);
}

/* ---- who we are ---- */

static enum tls_after echo_client(void *user, struct tls_conn *conn, const struct tls_request *r)
{
    (void)user;
    tls_reply(conn, r->client[0] ? 200 : 401, NULL, r->client);
    return TLS_KEEP;
}

static void write_client(struct http_rig *rig, const char *name)
{
    struct pki_pair pair = pki_issue(rig->ca, PKI_CLIENT, name, NULL);
    http_rig_write(rig, "client.pem", pair.certificate);
    http_rig_write(rig, "client.key", pair.key);
    pki_pair_free(&pair);
}

static void connect_client(struct http_rig *rig, tls_handler *handler)
{
    http_rig_serve_config(rig, (struct tls_server_config){.client_ca = pki_pem(rig->ca), .handler = handler});
    http_rig_write(rig, "ca.pem", pki_pem(rig->ca));
    write_client(rig, "system:node:n1");
    http_rig_connect_explicit(rig,
                              (struct cr_access_explicit){.ca_file = http_rig_path(rig, "ca.pem"),
                                                          .client_certificate_file = http_rig_path(rig, "client.pem"),
                                                          .client_key_file = http_rig_path(rig, "client.key")});
}

static void test_client_certificate_rotates(void **state)
{
    struct http_rig *rig = *state;
    connect_client(rig, echo_client);
    assert_string_equal(http_rig_get(rig, "/x")->body, "system:node:n1");
    assert_string_equal(http_rig_get(rig, "/x")->body, "system:node:n1");
    assert_int_equal(tls_server_accepts(rig->server), 1);
    write_client(rig, "system:node:n2");
    assert_string_equal(http_rig_get(rig, "/x")->body, "system:node:n2");
    assert_int_equal(tls_server_accepts(rig->server), 2);
    assert_int_equal(rig->changed, 1);
}

static void test_client_certificate_and_key_in_one_file(void **state)
{
    struct http_rig *rig = *state;
    char both[8192];
    struct pki_pair pair = pki_issue(rig->ca, PKI_CLIENT, "system:node:n3", NULL);
    snprintf(both, sizeof both, "%s%s", pair.certificate, pair.key);
    http_rig_serve_config(rig, (struct tls_server_config){.client_ca = pki_pem(rig->ca), .handler = echo_client});
    http_rig_write(rig, "ca.pem", pki_pem(rig->ca));
    http_rig_write(rig, "client.pem", both);
    http_rig_connect_explicit(rig,
                              (struct cr_access_explicit){.ca_file = http_rig_path(rig, "ca.pem"),
                                                          .client_certificate_file = http_rig_path(rig, "client.pem"),
                                                          .client_key_file = http_rig_path(rig, "client.pem")});
    assert_string_equal(http_rig_get(rig, "/x")->body, "system:node:n3");
    pki_pair_free(&pair);
}

static void test_client_key_of_another(void **state)
{
    struct http_rig *rig = *state;
    connect_client(rig, echo_client);
    struct pki_pair pair = pki_issue(rig->ca, PKI_CLIENT, "system:node:n2", NULL);
    http_rig_write(rig, "client.pem", pair.certificate); /* its key comes later */
    assert_http_failed(http_rig_get(rig, "/x"), CR_TRANSPORT_TLS, "belong together");
    http_rig_write(rig, "client.key", pair.key);
    assert_string_equal(http_rig_get(rig, "/x")->body, "system:node:n2");
    pki_pair_free(&pair);
}

/* ---- tokens ---- */

static void wait_for_one_connection(struct http_rig *rig)
{
    while (tls_server_open(rig->server) > 1) http_rig_step(rig);
}

static void test_token_rotates(void **state)
{
    struct http_rig *rig = *state;
    char accepted[64] = HTTP_RIG_TOKEN;
    http_rig_serve(rig, http_serve_token, accepted);
    http_rig_connect(rig);
    for (int i = 0; i < 3; i++) assert_int_equal(http_rig_get(rig, "/x")->status, 200);
    snprintf(accepted, sizeof accepted, "SECRET-two");
    http_rig_write(rig, "token", "SECRET-two\n");
    for (int i = 0; i < 3; i++) assert_int_equal(http_rig_get(rig, "/x")->status, 200);
    assert_int_equal(tls_server_accepts(rig->server), 2);
    assert_int_equal(rig->changed, 1);
    wait_for_one_connection(rig);
}

static void test_same_token_written_again_changes_nothing(void **state)
{
    struct http_rig *rig = *state;
    char accepted[64] = HTTP_RIG_TOKEN;
    http_rig_serve(rig, http_serve_token, accepted);
    http_rig_connect(rig);
    http_rig_get(rig, "/x");
    http_rig_write(rig, "token", "  " HTTP_RIG_TOKEN "\r\n\n");
    assert_int_equal(http_rig_get(rig, "/x")->status, 200);
    assert_int_equal(tls_server_accepts(rig->server), 1);
    assert_int_equal(rig->changed, 0);
}

static void test_after_401(void **state)
{
    struct http_rig *rig = *state;
    char accepted[64] = "SECRET-two";
    http_rig_serve(rig, http_serve_token, accepted);
    http_rig_connect(rig);
    struct cr_api_answer *a = http_rig_get(rig, "/x");
    assert_int_equal(a->status, 401);
    assert_non_null(a->body);
    assert_int_equal(http_rig_get(rig, "/x")->status,
                     401); /* the same token, but not on the connection that was refused */
    assert_int_equal(tls_server_accepts(rig->server), 2);
    http_rig_write(rig, "token", "SECRET-two");
    assert_int_equal(http_rig_get(rig, "/x")->status, 200);
    assert_int_equal(http_rig_get(rig, "/x")->status, 200);
    assert_int_equal(tls_server_accepts(rig->server), 3);
    assert_int_equal(rig->changed, 1);
}

static void test_unreadable_token(void **state)
{
    struct http_rig *rig = *state;
    char accepted[64] = HTTP_RIG_TOKEN;
    http_rig_serve(rig, http_serve_token, accepted);
    http_rig_connect(rig);
    http_rig_get(rig, "/x");
    unlink(http_rig_path(rig, "token"));
    assert_int_equal(http_rig_get(rig, "/x")->status, 200); /* what is known still works */
    snprintf(accepted, sizeof accepted, "SECRET-two");
    assert_int_equal(http_rig_get(rig, "/x")->status, 401);
    assert_http_failed(http_rig_get(rig, "/x"), CR_TRANSPORT_CREDENTIALS, "token file");
    http_rig_write(rig, "token", "SECRET with space");
    assert_http_failed(http_rig_get(rig, "/x"), CR_TRANSPORT_CREDENTIALS, "control character");
    http_rig_write(rig, "token", "SECRET-two");
    assert_int_equal(http_rig_get(rig, "/x")->status, 200);
    assert_int_equal(rig->changed, 1);
}

static void test_change_is_noticed_without_a_request(void **state)
{
    struct http_rig *rig = *state;
    http_rig_serve(rig, http_serve_ok, NULL);
    http_rig_connect(rig);
    http_rig_get(rig, "/x");
    http_rig_write(rig, "token", "SECRET-two");
    while (rig->changed == 0) http_rig_step(rig);
    assert_int_equal(tls_server_requests(rig->server), 1);
}

/* A request that holds its answer back until the test lets it go. */
struct gate {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    bool open;
};

static enum tls_after wait_at_gate(void *user, struct tls_conn *conn, const struct tls_request *r)
{
    struct gate *gate = user;
    pthread_mutex_lock(&gate->mutex);
    while (strstr(r->head, "/slow") && !gate->open) pthread_cond_wait(&gate->cond, &gate->mutex);
    pthread_mutex_unlock(&gate->mutex);
    return http_serve_ok(NULL, conn, r);
}

static void open_gate(struct gate *gate)
{
    pthread_mutex_lock(&gate->mutex);
    gate->open = true;
    pthread_cond_broadcast(&gate->cond);
    pthread_mutex_unlock(&gate->mutex);
}

static void test_rotation_under_a_running_request(void **state)
{
    struct http_rig *rig = *state;
    struct gate gate = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false};
    http_rig_serve(rig, wait_at_gate, &gate);
    http_rig_connect(rig);
    uint64_t slow = http_rig_start(rig, CR_HTTP_GET, "/slow", NULL, 60000);
    while (tls_server_requests(rig->server) < 1) http_rig_step(rig);
    assert_int_equal(http_rig_get(rig, "/x")->status, 200); /* a second connection of the old identity, now idle */
    http_rig_write(rig, "token", "SECRET-two");
    assert_int_equal(http_rig_get(rig, "/x")->status, 200);
    assert_int_equal(tls_server_accepts(rig->server), 3);
    open_gate(&gate);
    assert_int_equal(http_rig_wait(rig, slow)->status, 200); /* is not disturbed */
    for (int i = 0; i < 3; i++) assert_int_equal(http_rig_get(rig, "/x")->status, 200);
    assert_int_equal(tls_server_accepts(rig->server), 3);
    wait_for_one_connection(rig);
}

static void test_plain_http_has_no_tls(void **state)
{
    struct http_rig *rig = *state;
    char server[64];
    const struct tls_server_config config = {.handler = http_serve_ok};
    rig->server = tls_server_start(&config);
    snprintf(server, sizeof server, "http://127.0.0.1:%u", tls_server_port(rig->server));
    http_rig_connect_explicit(rig, (struct cr_access_explicit){.server = server});
    assert_int_equal(http_rig_get(rig, "/x")->status, 200);
}

static void test_tls_to_a_plain_server(void **state)
{
    struct http_rig *rig = *state;
    http_rig_serve_config(rig, (struct tls_server_config){.greeting = "HTTP/1.1 400 Bad Request\r\n\r\n"});
    http_rig_connect(rig);
    assert_http_failed(http_rig_get(rig, "/x"), CR_TRANSPORT_TLS, rig->access->server);
}

static enum tls_after echo_token(void *user, struct tls_conn *conn, const struct tls_request *r)
{
    (void)user, (void)r;
    tls_reply(conn, 401, "Warning: 299 - \"no " HTTP_RIG_TOKEN "\"\r\n", HTTP_RIG_TOKEN ", " HTTP_RIG_TOKEN "!");
    return TLS_KEEP;
}

static void test_an_error_does_not_bring_the_token_back(void **state)
{
    struct http_rig *rig = *state;
    http_rig_serve(rig, echo_token, NULL);
    http_rig_connect(rig);
    struct cr_api_answer *a = http_rig_get(rig, "/x");
    assert_string_equal(a->body, "**********, **********!");
    assert_string_equal(a->warning, "no **********");
}

#define RIG(test) cmocka_unit_test_setup_teardown(test, http_rig_setup, http_rig_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        RIG(test_unknown_ca),
        RIG(test_system_cas_without_a_given_one),
        RIG(test_wrong_name),
        RIG(test_expired),
        RIG(test_tls_server_name),
        RIG(test_tls_server_name_is_checked),
        RIG(test_tls_server_name_may_be_an_address),
        RIG(test_ipv6),
        RIG(test_ipv6_with_tls_server_name),
        RIG(test_insecure_skip_tls_verify),
        RIG(test_client_certificate_rotates),
        RIG(test_client_certificate_and_key_in_one_file),
        RIG(test_client_key_of_another),
        RIG(test_token_rotates),
        RIG(test_same_token_written_again_changes_nothing),
        RIG(test_after_401),
        RIG(test_unreadable_token),
        RIG(test_change_is_noticed_without_a_request),
        RIG(test_rotation_under_a_running_request),
        RIG(test_plain_http_has_no_tls),
        RIG(test_tls_to_a_plain_server),
        RIG(test_an_error_does_not_bring_the_token_back),
    };
    return cmocka_run_group_tests_name("http tls", tests, NULL, NULL);
}
