/* cmd_selftest.c - lipscope selftest: does this build compute correctly on this machine? */
#include "args.h"
#include "progress.h"
#include "screen.h"

static void print(void *ctx, const lipsc_trial *trial) {
    (void)ctx;
    printf("%-6s  %-48s  %8.1e  %6.0e\n", trial->passed ? "ok" : "FAILED", trial->name,
           trial->error, trial->limit);
    fflush(stdout);
}

static int run(const cli_command *self, int argc, char **argv) {
    int operands;
    const int code = cli_parse(self, argc, argv, NULL, &operands);
    if (code != CLI_RUN) return code;
    const double start = cli_seconds();
    size_t trials;
    const cli_screen screen = cli_screen_open();
    cli_say(&screen, "lipscope %s, back ends %s, instruction set %s", lipsc_version(),
            lipsc_backends(), lipsc_cpu_isa());
    cli_say(&screen, "BLAS: %s", lipsc_blas());
    putchar('\n');
    printf("%-6s  %-48s  %8s  %6s\n", "", "check", "error", "limit");
    const size_t failed = lipsc_selftest(print, NULL, &trials);
    printf("\n%zu checks, %zu failed, %.1f seconds\n", trials, failed,
           cli_seconds() - start);
    if (failed) return cli_failure(self, "%zu of %zu checks failed", failed, trials);
    return CLI_DONE;
}

const cli_command cli_cmd_selftest = {
    .name = "selftest",
    .operands = "",
    .summary = "does this build compute correctly on this machine?",
    .about =
        "Compares the products, the solver and the reader with known values, with the\n"
        "definition in plain loops, with central differences and with LAPACK.  Needs no\n"
        "files and a few seconds.  Exit 1 when a check fails.",
    .example = "  $ lipscope selftest\n",
    .run = run,
};
