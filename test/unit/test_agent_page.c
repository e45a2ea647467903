/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's page: escapes what strangers said, says why a driver is not registered, survives any document. */
#include "agent/page.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* 2026-01-01T00:01:00Z */
static const struct timespec now = {.tv_sec = 1767225660};

static void check_page(const char *status, const char *const *present, const char *const *absent)
{
    char *page = page_html(status, now);
    assert_non_null(page);
    for (; present && *present; present++)
        if (!strstr(page, *present)) fail_msg("the page lacks \"%s\": %s", *present, page);
    for (; absent && *absent; absent++)
        if (strstr(page, *absent)) fail_msg("the page has \"%s\": %s", *absent, page);
    free(page);
}

static void strangers_texts_are_escaped(void **state)
{
    (void)state;
    check_page(
        "{\"node\":{\"name\":\"<n>\"},\"registry\":{\"mode\":\"inotify\",\"path\":\"/a&b\"},"
        "\"sockets\":[{\"path\":\"/r/<i>\",\"driver\":\"\\\"d'\",\"state\":\"<s>\",\"lastError\":{\"message\":"
        "\"<script>x</script>\",\"step\":\"<step>\",\"time\":\"<time>\"}}],"
        "\"drivers\":[{\"name\":\"<d>\",\"nodeID\":\"<id>\",\"warnings\":[\"<w>\"]}],\"unclaimed\":[\"<u>\"]}",
        (const char *const[]){"&lt;script&gt;", "/r/&lt;i&gt;", "&quot;d&#39;", "&lt;id&gt;", "/a&amp;b", "&lt;u&gt;",
                              NULL},
        (const char *const[]){"<script", "<i>", "<s>", "<n>", "<d>", "<id>", "<w>", "<u>", "<step>", "<time>", NULL});
}

static void an_unregistered_driver_is_explained(void **state)
{
    (void)state;
    check_page(
        "{\"sockets\":[{\"path\":\"/r/a\",\"driver\":\"a.example.com\",\"state\":\"backoff\",\"attempts\":3,"
        "\"since\":\"2026-01-01T00:00:30.000Z\",\"nextTry\":\"2026-01-01T00:01:07.500Z\",\"lastError\":{\"message\":"
        "\"no node "
        "id\",\"code\":\"REFUSED\",\"step\":\"NodeGetInfo\",\"class\":\"persistent\",\"time\":\"2026-01-01T00:00:58."
        "000Z\"}}]}",
        (const char *const[]){"<b>a.example.com</b> is not registered: no node id", "step NodeGetInfo",
                              "until its cause is removed", "What to do: Correct the driver", "2.0 s ago", "in 7.5 s",
                              "30 s ago", "<td>3</td>", NULL},
        NULL);
}

static void an_empty_registry_is_a_hint(void **state)
{
    (void)state;
    check_page("{\"registry\":{\"mode\":\"inotify\",\"resolved\":\"/reg\",\"sockets\":0}}",
               (const char *const[]){"<b>registry /reg</b> has 0 registration sockets", "No driver is known", NULL},
               NULL);
}

static void the_api_is_named_when_it_is_missed(void **state)
{
    (void)state;
    check_page("{\"api\":{\"server\":\"https://x\",\"state\":\"waiting\",\"lastError\":{\"message\":\"refused\"}}}",
               (const char *const[]){"<b>API server https://x</b> is not usable", "refused", NULL}, NULL);
    check_page("{\"api\":{\"state\":\"local-only\"}}", (const char *const[]){"nothing is written to the cluster", NULL},
               NULL);
}

static void controller_flow_is_told_from_node_flow(void **state)
{
    (void)state;
    check_page("{\"drivers\":[{\"name\":\"a\",\"flow\":\"node\",\"completed\":true}]}", NULL,
               (const char *const[]){"controller side", NULL});
    check_page("{\"drivers\":[{\"name\":\"a\",\"flow\":\"controller\",\"completed\":true}]}",
               (const char *const[]){"completed by the controller side", NULL}, NULL);
}

static void any_document_gives_a_page(void **state)
{
    (void)state;
    static const char *const documents[] = {"{}", "[]", "null", "{\"sockets\":7,\"drivers\":{},\"registry\":[]}",
                                            "{\"sockets\":[1,null,\"x\"],\"drivers\":[[]],\"unclaimed\":[1]}"};
    for (size_t i = 0; i < sizeof documents / sizeof *documents; i++) check_page(documents[i], NULL, NULL);
    check_page("{", (const char *const[]){"cannot be read", NULL}, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strangers_texts_are_escaped),
        cmocka_unit_test(an_unregistered_driver_is_explained),
        cmocka_unit_test(an_empty_registry_is_a_hint),
        cmocka_unit_test(the_api_is_named_when_it_is_missed),
        cmocka_unit_test(controller_flow_is_told_from_node_flow),
        cmocka_unit_test(any_document_gives_a_page),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
