/* cmd_report.c - lipscope report: one self-contained HTML page from run files. */
#include "args.h"

typedef struct {
    const char *out;
    int quiet;
} settings;

#define OPTION(...) CLI_OPTION(settings, __VA_ARGS__)

static const cli_option options[] = {
    OPTION(TEXT, "out", "FILE", out, .letter = 'o', .help = "the page; needed"),
    OPTION(FLAG, "quiet", NULL, quiet, .letter = 'q',
           .help = "no remark about what was written"),
};

static int run(const cli_command *self, int argc, char **argv) {
    settings s = {0};
    int operands;
    lipsc_error err;
    const int code = cli_parse(self, argc, argv, &s, &operands);
    if (code != CLI_RUN) return code;
    if (!s.out) return cli_wrong_use(self, "say where the page goes with -o FILE");
    if (lipsc_report_write((size_t)operands, (const char *const *)argv, s.out, &err))
        return cli_failure(self, "%s", err.text);
    if (!s.quiet) cli_note(self, "wrote %s", s.out);
    return CLI_DONE;
}

const cli_command cli_cmd_report = {
    .name = "report",
    .operands = "RUN...",
    .min_operands = 1,
    .max_operands = 1000,
    .summary = "one self-contained HTML page from run files",
    .about =
        "Charts, tables and plain words about what --run FILE has kept, in one HTML file\n"
        "that opens from disk without a network.  Several runs are compared.  A run may\n"
        "still be going on: the page shows what is finished.",
    .example =
        "  $ lipscope measure gpt2/ --text alice.txt --lengths 16:512:x2 --run a.db\n"
        "  $ lipscope report a.db -o alice.html\n",
    CLI_TABLE(options),
    .run = run,
};
