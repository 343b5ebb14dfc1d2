/* cmd_demo.c - lipscope demo: a tour of what is built in, computed live, and its report. */
#define _DEFAULT_SOURCE /* mkstemp */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "commands.h"
#include "demo.h"
#include "interrupt.h"
#include "screen.h"

typedef struct {
    cli_common common;
    const char *out;
    int quick;
} settings;

#define OPTION(...) CLI_OPTION(settings, __VA_ARGS__)

static const cli_option options[] = {
    OPTION(TEXT, "out", "FILE", out, .letter = 'o',
           .help = "the page (default lipscope-demo.html in this directory)"),
    OPTION(FLAG, "quick", NULL, quick,
           .help = "shorter lengths and six windows: a few seconds"),
    CLI_THREADS_OPTION(settings),
};

/* CLI_RUN, or the exit code after a sentence. */
int demo_go_on(const cli_command *self, lipsc_status status, const lipsc_error *err) {
    if (status == LIPSC_OK) return CLI_RUN;
    if (status == LIPSC_E_STOPPED) return cli_failure(self, "interrupted");
    return cli_failure(self, "%s", *err->text ? err->text : lipsc_strerror(status));
}

/* What would fail at the end is better known before the work. */
static int check_files(const cli_command *self, const char *page) {
    char path[LIPSC_PATH_ROOM];
    struct stat info;
    lipsc_error err;
    if (lipsc_builtin_path("gpt2-nano", path, &err) ||
        lipsc_builtin_path("lighthouse", path, &err))
        return cli_failure(self, "%s", err.text);
    if (!stat(page, &info) && !S_ISREG(info.st_mode)) return CLI_RUN; /* a device */
    const int size = snprintf(path, sizeof path, "%s.XXXXXX", page);
    const int fd = size < (int)sizeof path ? mkstemp(path) : -1;
    if (fd < 0)
        return cli_failure(self, "%s: cannot write the page: %s; -o FILE puts it elsewhere",
                           page, strerror(errno));
    close(fd);
    unlink(path);
    return CLI_RUN;
}

static int run(const cli_command *self, int argc, char **argv) {
    settings set = {.out = "lipscope-demo.html"};
    int operands;
    int code = cli_parse(self, argc, argv, &set, &operands);
    if (code == CLI_RUN) code = check_files(self, set.out);
    if (code != CLI_RUN) return code;
    const cli_screen s = cli_screen_open();
    lipsc_error err = {.text = ""};
    cli_interrupt_begin();
    printf("%slipscope %s%s: how far can attention stretch a small change of its input?\n",
           s.strong, lipsc_version(), s.plain);
    demo_heading(&s, "One number");
    puts(
        "Move the tokens X by a small h, and the output of attention moves by J h.  The\n"
        "largest |J h| / |h| is sigma, the local Lipschitz constant: the largest singular\n"
        "value of the Jacobian J at X.");
    const lipsc_status status = demo_outlier(&s, set.common.device, &err);
    code = demo_go_on(self, status, &err);
    return code == CLI_RUN ? demo_models(self, set.quick, set.common.device, set.out, &s)
                           : code;
}

const cli_command cli_cmd_demo = {
    .name = "demo",
    .operands = "",
    .summary = "a short tour, computed live",
    .about =
        "A tour on what is built in: an outlier that makes sigma grow with n, then a\n"
        "trained GPT-2, the same before training and a BERT on one text, with what the\n"
        "numbers mean.  Writes the page lipscope-demo.html.  Under a minute.",
    .example = "  $ lipscope demo\n",
    CLI_TABLE(options),
    .run = run,
};
