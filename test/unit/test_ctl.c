/* SPDX-License-Identifier: Apache-2.0 */
/* csireg-ctl's table: what strangers said cannot draw on the screen, lines fit, any document gives a table; and the
 * advice that it and the agent's page share. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "common/advice.h"
#include "common/status.h"
#include "ctl/view.h"

#define NOW 1767225660.0 /* 2026-01-01T00:01:00Z */

static json_t *document(const char *text)
{
    json_error_t e;
    char *quoted = strdup(text);
    for (char *p = quoted; *p; p++)
        if (*p == '\'') *p = '"';
    json_t *status = json_loads(quoted, 0, &e);
    if (!status) fail_msg("%s: %s", e.text, quoted);
    free(quoted);
    return status;
}

/* The caller's. */
static char *table(const char *text, const char *driver, size_t width, bool *out_well)
{
    char *shown = NULL;
    size_t size = 0;
    json_t *status = document(text);
    struct view v = {.status = status, .driver = driver, .now = NOW, .width = width};
    FILE *out = open_memstream(&shown, &size);
    advice_list(status, &v.advice);
    view_table(&v, out);
    fclose(out);
    if (out_well) *out_well = view_is_well(&v);
    advice_list_free(&v.advice);
    json_decref(status);
    return shown;
}

static void check_table(const char *text, const char *driver, bool well, const char *const *words)
{
    bool is_well;
    char *shown = table(text, driver, 0, &is_well);
    for (; *words; words++)
        if (!strstr(shown, *words)) fail_msg("\"%s\" is not in: %s", *words, shown);
    if (well != is_well) fail_msg("%s: %s", is_well ? "well" : "not well", shown);
    free(shown);
}

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

static const char two[] =
    "{'version':1,'node':{'name':'n1'},'registry':{'mode':'inotify','resolved':'/"
    "reg','sockets':2},'api':{'state':'ok'},"
    "'sockets':[{'path':'/reg/a','driver':'a.example.com','state':'registered','active':true,'attempts':2,"
    "'since':'2026-01-01T00:00:30.000Z'},{'path':'/reg/b','driver':'b.example.com','state':'backoff','attempts':3,"
    "'since':'2026-01-01T00:00:58.000Z','nextTry':'2026-01-01T00:01:07.500Z','lastError':{'message':'no node id',"
    "'code':'REFUSED','step':'NodeGetInfo','class':'persistent','time':'2026-01-01T00:00:58.000Z'}}],"
    "'drivers':[{'name':'a.example.com','state':'registered','flow':'node'}]}";

static void test_rows(void **state)
{
    (void)state;
    check_table(two, NULL, false,
                WORDS("Node n1: 1 driver registered, 1 not.",
                      "DRIVER         FLOW  STATE       SINCE  ATTEMPTS  NEXT TRY  LAST ERROR\n"
                      "a.example.com  node  registered  30 s   2         -         -\n"
                      "b.example.com  -     backoff     2.0 s  3         in 7.5 s  NodeGetInfo: REFUSED, persistent\n"
                      "  ! is not registered: no node id (2.0 s ago)\n"
                      "    What to do: Correct the driver's configuration"));
    check_table(two, "a.example.com", true, WORDS("a.example.com  node"));
    check_table(two, "b.example.com", false, WORDS("no node id"));
    check_table(two, "c.example.com", false, WORDS("No driver of this name", "registry /reg"));
}

static void test_a_dead_driver_is_not_well(void **state)
{
    (void)state;
    static const char dead[] = "{'version':1,'drivers':[{'name':'a','state':'registered','endpoint':'/d/a.sock',"
                               "'unreachableSince':'2026-01-01T00:00:30.000Z'}]}";
    check_table(dead, NULL, false,
                WORDS("! is registered, but nobody takes connections on its service socket /d/a.sock"));
    check_table(dead, "a", false, WORDS("/d/a.sock"));
}

static void test_nobody_draws_on_the_screen(void **state)
{
    (void)state;
    char *shown =
        table("{'version':1,'node':{'name':'\\u001b[2Jn'},'sockets':[{'path':'/r/\\u0007x','state':'\\u009bH',"
              "'lastError':{'message':'one\\ntwo\\r\\u202ethree\\u2066 \xc3\xa4','step':'\\u001b]0;t\\u007f'}}],"
              "'unclaimed':['\\u001bc']}",
              NULL, 0, NULL);
    for (const unsigned char *p = (unsigned char *)shown; *p; p++) {
        if ((*p < 0x20 && *p != '\n') || *p == 0x7f) fail_msg("0x%02x in %s", *p, shown);
        if (p[0] == 0xc2 && p[1] < 0xa0) fail_msg("a C1 control in %s", shown);
    }
    assert_null(strstr(shown, "\xe2\x80\xae"));
    assert_null(strstr(shown, "\xe2\x81\xa6"));
    assert_non_null(strstr(shown, "one?two??three? \xc3\xa4"));
    free(shown);
}

static void test_lines_fit(void **state)
{
    (void)state;
    char *shown = table(two, NULL, 60, NULL), *rest = shown;
    bool table_line = false;
    for (char *line; (line = strsep(&rest, "\n"));) {
        table_line = strstr(line, "ATTEMPTS") || strstr(line, ".example.com  ");
        if (!table_line && strlen(line) > 60) fail_msg("%zu columns: %s", strlen(line), line);
    }
    free(shown);
}

static void test_any_document_gives_a_table(void **state)
{
    (void)state;
    static const char *const documents[] = {
        "{}", "{'sockets':7,'drivers':{},'registry':[],'api':3,'unclaimed':{}}",
        "{'sockets':[1,null,'x',{}],'drivers':[[],{}],'unclaimed':[1],'registry':{'mode':'waiting','warnings':[1]}}",
        "{'version':2,'sockets':[{'state':5,'attempts':'x','lastError':[]}],'api':{'state':'refused','warnings':'x'}}"};
    for (size_t i = 0; i < sizeof documents / sizeof *documents; i++) {
        free(table(documents[i], NULL, 80, NULL));
        free(table(documents[i], "a", 0, NULL));
    }
}

static void test_lines_say_what_changed(void **state)
{
    (void)state;
    json_t *status = document(two);
    struct view v = {.status = status, .now = NOW};
    struct view_lines lines;
    advice_list(status, &v.advice);
    view_lines(&v, &lines);
    assert_int_equal(lines.n, 2);
    assert_string_equal(lines.items[0].key, "a.example.com (/reg/a)");
    assert_string_equal(lines.items[0].text, "registered, flow node");
    assert_string_equal(lines.items[1].text, "backoff: no node id");
    view_lines_free(&lines);
    advice_list_free(&v.advice);
    json_decref(status);
}

/* ---- remedies ---- */

static void check_remedy(const char *error, const char *word)
{
    json_t *e = document(error);
    const char *remedy = advice_remedy(e);
    if (!word != !remedy || (word && !strstr(remedy, word))) fail_msg("%s: %s", error, remedy ? remedy : "none");
    json_decref(e);
}

static void test_remedies(void **state)
{
    (void)state;
    check_remedy("{'origin':'http','number':401,'class':'transient','code':'API'}", "Renew");
    check_remedy("{'origin':'http','number':403,'class':'persistent','code':'API'}", "Grant");
    check_remedy("{'origin':'http','number':404,'class':'transient','code':'API'}", "--node-name");
    check_remedy("{'origin':'http','number':404,'class':'persistent','code':'API'}", "storage.k8s.io/v1");
    check_remedy("{'origin':'http','number':409,'class':'transient','code':'API'}", "who else writes");
    check_remedy("{'origin':'http','number':503,'class':'transient','code':'API'}", "tried again");
    check_remedy("{'origin':'http','number':422,'class':'persistent','code':'API'}", "does not accept");
    check_remedy("{'origin':'none','class':'transient','code':'API'}", "reaches it");
    check_remedy("{'origin':'config','class':'transient','code':'CONFIG'}", "can be read");
    check_remedy("{'origin':'grpc','number':12,'step':'GetInfo','code':'RPC'}", "Move this socket");
    check_remedy("{'origin':'grpc','number':4,'step':'GetInfo','code':'RPC'}", "log of the registrar");
    check_remedy("{'origin':'grpc','number':12,'step':'NodeGetInfo','code':'RPC'}", "a version of the driver");
    check_remedy("{'origin':'grpc','number':14,'step':'NodeGetInfo','code':'RPC'}", "driver's own log");
    check_remedy("{'origin':'grpc','number':14,'step':'NotifyRegistrationStatus','code':'RPC'}", "Nothing");
    check_remedy("{'origin':'os','number':111,'step':'connect','code':'SYSTEM'}", "nobody listens");
    check_remedy("{'origin':'os','number':2,'step':'connect','code':'SYSTEM'}", "--kubelet-registration-path");
    check_remedy("{'origin':'os','number':13,'step':'connect','code':'SYSTEM'}", "mode");
    check_remedy("{'origin':'none','step':'publish','code':'REFUSED'}", NULL); /* the message says it */
    check_remedy("{}", NULL);
}

static void test_words_and_ages(void **state)
{
    (void)state;
    static const struct {
        double seconds;
        const char *text;
    } ages[] = {{-5, "0.0 s"}, {9.44, "9.4 s"}, {61, "61 s"}, {600, "10 min"}, {7200, "2 h"}, {200000, "2 days"}};
    char text[STATUS_AGE_SIZE];
    for (size_t i = 0; i < sizeof ages / sizeof *ages; i++) {
        status_age(ages[i].seconds, text);
        assert_string_equal(text, ages[i].text);
    }
    assert_string_equal(status_words("backoff"), "not registered");
    assert_string_equal(status_words("something new"), "something new");
    double at;
    assert_true(status_time("2026-01-01T00:01:00.250Z", &at));
    assert_true(at > NOW + 0.2 && at < NOW + 0.3);
    assert_false(status_time("soon", &at));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_a_dead_driver_is_not_well),
        cmocka_unit_test(test_nobody_draws_on_the_screen),
        cmocka_unit_test(test_lines_fit),
        cmocka_unit_test(test_any_document_gives_a_table),
        cmocka_unit_test(test_lines_say_what_changed),
        cmocka_unit_test(test_remedies),
        cmocka_unit_test(test_words_and_ages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
