/* cmd_check.c - lipscope check: confirms a stored value without the solver. */
#include "args.h"
#include "certify.h"
#include "interrupt.h"
#include "rows.h"
#include "screen.h"
#include "source.h"

typedef struct {
    cli_common common;
    cli_certify certify;
    const char *model;
    int part;
    uint64_t seed;
} settings;

#define OPTION(...) CLI_OPTION(settings, __VA_ARGS__)

static const cli_option options[] = {
    {.kind = CLI_GROUP, .name = "The model"},
    OPTION(TEXT, "model", "MODEL", model,
           .help = "the model that the file names, for maps behind attention"),
    CLI_PART_OPTION(settings),
    OPTION(SEED, "seed", "N", seed, .help = "seed of random models (default 1)"),
    {.kind = CLI_GROUP, .name = "What is told"},
    CLI_CERTIFY_OPTIONS(settings, certify.eps, certify.seconds, certify.memory),
    CLI_OUTPUT_OPTIONS(settings)};

static const char *hint(const lipsc_checked *found, char room[160]) {
    if (found->needs == LIPSC_CHECK_NEEDS_DIRECTION)
        return "; `lipscope layer FILE --save-direction OUT` makes one";
    if (found->needs != LIPSC_CHECK_NEEDS_MODEL) return "";
    snprintf(room, 160, "; give it: --model %s", found->model);
    return room;
}

static void say(const lipsc_check_row *row) {
    const cli_screen screen = cli_screen_open();
    char sigma[CLI_NUMBER], stored[CLI_NUMBER];
    cli_digits(row->sigma, 4, sigma);
    if (row->agree)
        cli_say(&screen,
                "sigma is %s, as stored: computed again by the definition from the "
                "direction in the file.",
                sigma);
    else
        cli_say(&screen, "The stored sigma, %s, is not what its direction gives: %s.",
                cli_digits(row->stored, 4, stored), sigma);
    putchar('\n');
}

static int print(const cli_command *self, const settings *s, const lipsc_check_row *row) {
    const int certified = s->certify.eps > 0.0;
    cli_rows rows;
    if (s->common.format == LIPSC_FORMAT_TABLE) say(row);
    cli_rows_begin(&rows, self, &s->common, LIPSC_LAYOUT_UPRIGHT, lipsc_check_fields(),
                   (s->model ? LIPSC_CHECK_MODEL : 0) |
                       (certified ? LIPSC_CHECK_CERTIFY : 0));
    cli_rows_add(&rows, row);
    const int code = cli_rows_end(&rows);
    if (code != CLI_DONE) return code;
    if (row->agree) return certified && !row->certified ? CLI_NOT_CONVERGED : CLI_DONE;
    return cli_failure(self, "%s: the stored sigma %.17g is not confirmed: %.17g",
                       row->file, row->stored, row->sigma);
}

static int run(const cli_command *self, int argc, char **argv) {
    settings s = {.certify = CLI_CERTIFY_DEFAULTS, .seed = 1};
    int operands;
    int code = cli_parse(self, argc, argv, &s, &operands);
    if (code != CLI_RUN) return code;
    cli_certifier c;
    lipsc_check_settings set;
    lipsc_checked found;
    lipsc_error err;
    char room[160];
    lipsc_check_defaults(&set);
    set.file = argv[0];
    set.model = s.model;
    set.part = (lipsc_part)s.part;
    set.seed = s.seed;
    cli_interrupt_begin();
    set.certify = cli_certify_begin(&c, self, &s.certify, &s.common, argv[0], 1);
    const lipsc_status status = lipsc_check(&set, &found, &err);
    cli_certify_end(&c, found.certificate, &found.why);
    if (status) {
        code = cli_failure(self, "%s%s", err.text, hint(&found, room));
        if (status == LIPSC_E_REFUSED) code = CLI_UNCHECKED;
    } else {
        code = print(self, &s, &found.row);
    }
    lipsc_checked_free(&found);
    return code;
}

const cli_command cli_cmd_check = {
    .name = "check",
    .operands = "FILE",
    .min_operands = 1,
    .max_operands = 1,
    .summary = "confirm a stored value independently of the solver",
    .about =
        "Re-computes sigma and its residual from the direction stored in FILE, which\n"
        "--save-direction of `layer` and `measure`, or `attack`, has written, by the\n"
        "definition in plain double loops.  Directions of the maps heads and attention\n"
        "need nothing else; those of norm-attention, residual, block and model need the\n"
        "model (--model), told by its hash, and then the stored tokens are run through\n"
        "it to see that X comes from them.  Exit 1 when the values differ by more than\n"
        "1e-9 of sigma, 5 when the file cannot be checked.",
    .example = "  $ lipscope layer layer.safetensors --save-direction top.safetensors\n"
               "  $ lipscope check top.safetensors\n"
               "  $ lipscope check block.safetensors --model gpt2/\n",
    CLI_TABLE(options),
    .run = run,
};
