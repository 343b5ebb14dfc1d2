/* cmd_merge.c - lipscope merge: run files of one sweep, made in several places, become one.
 */
#include <stdlib.h>

#include "args.h"

typedef struct {
    const char *out;
    int quiet;
} settings;

#define OPTION(...) CLI_OPTION(settings, __VA_ARGS__)

static const cli_option options[] = {
    OPTION(TEXT, "out", "RUN", out, .letter = 'o',
           .help = "the run file that gets all cells; needed"),
    OPTION(FLAG, "quiet", NULL, quiet, .letter = 'q',
           .help = "no remark about what was joined"),
};

static int merge(const cli_command *self, const settings *s, size_t count,
                 const char *const *paths, const char *line) {
    lipsc_merged merged;
    lipsc_error err;
    if (!s->out) return cli_wrong_use(self, "say where the cells go with -o RUN");
    if (lipsc_run_merge(count, paths, s->out, line, &merged, &err))
        return cli_failure(self, "%s", err.text);
    if (!s->quiet)
        cli_note(self, "%s: %zu cells added, %zu were there already", s->out, merged.added,
                 merged.shared);
    return CLI_DONE;
}

static int run(const cli_command *self, int argc, char **argv) {
    settings s = {0};
    int operands;
    char *line = cli_command_line(self, argc, argv); /* parsing moves the words */
    int code = cli_parse(self, argc, argv, &s, &operands);
    if (code == CLI_RUN)
        code = merge(self, &s, (size_t)operands, (const char *const *)argv, line);
    free(line);
    return code;
}

const cli_command cli_cmd_merge = {
    .name = "merge",
    .operands = "RUN...",
    .min_operands = 1,
    .max_operands = 10000,
    .summary = "run files of one sweep, made in several places, become one",
    .about =
        "Joins the cells that `measure --shard I/K --run FILE` has finished in several\n"
        "places.  Only runs of the same model, text and settings belong together; others\n"
        "are refused, and so is a cell of which two files have different values.  The\n"
        "result may be there already: it is added to.  If anything fails it stays as it\n"
        "was.",
    .example = "  $ lipscope measure gpt2/ --text alice.txt --shard 1/2 --run part1.db\n"
               "  $ lipscope measure gpt2/ --text alice.txt --shard 2/2 --run part2.db\n"
               "  $ lipscope merge part1.db part2.db -o whole.db\n",
    CLI_TABLE(options),
    .run = run,
};
