/* SPDX-License-Identifier: Apache-2.0 */
/* csireg-sim --seeds N --from S [--oom] [--trace]: runs N seeds; a failing one prints its trace and how to replay it.
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "core/states.h"
#include "sim/coverage.h"
#include "sim/sim.h"

static void print_tail(const char *trace, size_t lines)
{
    const char *p = trace + strlen(trace);
    while (p > trace && lines > 0)
        if (*--p == '\n' && lines-- == 1) break;
    puts(p);
}

/* The state machine as a Mermaid diagram, from the table that the code runs on. */
static void print_diagram(void)
{
    puts("stateDiagram-v2");
    for (int from = 0; from < CR_STATE_COUNT; from++)
        for (int to = 1; to < CR_STATE_COUNT; to++)
            if (cr_state_may_follow((enum cr_state)from, (enum cr_state)to))
                printf("    %s --> %s\n", cr_state_name((enum cr_state)from), cr_state_name((enum cr_state)to));
}

static int usage(FILE *to)
{
    fprintf(to, "usage: csireg-sim [--seeds N] [--from S] [--first] [--oom] [--coverage] [--trace] | --diagram\n"
                "Runs the core against a simulated node, drivers and API server, one run per seed.\n"
                "  --seeds N   how many seeds (default 2000)\n"
                "  --from S    the first seed (default 1)\n"
                "  --first     end at the first seed that fails, instead of the fifth\n"
                "  --oom       let allocations of the core fail at random, while there are faults\n"
                "  --coverage  tell which inputs met which states; 1 when one that can be reached was not\n"
                "  --trace     print what happens; with --seeds 1 --from S this replays seed S\n"
                "  --diagram   print the registration state machine as a Mermaid diagram\n");
    return to == stdout ? 0 : 2;
}

static void *json_alloc(size_t n) { return cr_calloc(1, n); }

int main(int argc, char **argv)
{
    static const struct option options[] = {{"seeds", required_argument, NULL, 'n'},
                                            {"from", required_argument, NULL, 'f'},
                                            {"first", no_argument, NULL, '1'},
                                            {"oom", no_argument, NULL, 'o'},
                                            {"coverage", no_argument, NULL, 'c'},
                                            {"trace", no_argument, NULL, 't'},
                                            {"diagram", no_argument, NULL, 'd'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    unsigned long long seeds = 2000, from = 1, failed = 0;
    struct sim_options how = {0};
    bool coverage = false;
    unsigned most = 5;
    for (int c; (c = getopt_long_only(argc, argv, "", options, NULL)) != -1;) {
        if (c == 'n')
            seeds = strtoull(optarg, NULL, 10);
        else if (c == 'f')
            from = strtoull(optarg, NULL, 10);
        else if (c == 't')
            how.verbose = true;
        else if (c == '1')
            most = 1;
        else if (c == 'o')
            how.short_memory = true;
        else if (c == 'c')
            coverage = true;
        else if (c == 'd')
            return print_diagram(), 0;
        else
            return usage(c == 'h' ? stdout : stderr);
    }
    if (coverage) coverage_start();
    if (how.short_memory) json_set_alloc_funcs(json_alloc, cr_free);
    for (unsigned long long k = from; k < from + seeds && failed < most; k++) {
        char *trace = NULL;
        if (!sim_run(k, how, &trace)) {
            failed++;
            if (!how.verbose) print_tail(trace, 60);
            printf("seed %llu failed; replay: csireg-sim --seeds 1 --from %llu%s --trace\n", k, k,
                   how.short_memory ? " --oom" : "");
        }
        free(trace);
    }
    if (coverage && !coverage_report()) failed++;
    printf("%llu passed, %llu failed\n", seeds - failed, failed);
    return failed ? 1 : 0;
}
