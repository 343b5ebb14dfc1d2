/* help.c - prints help from the tables of args.h, wrapped to 80 columns. */
#include "args.h"

#include <string.h>

enum { HELP_COLUMN = 27, SCREEN = 80 };

const char cli_exit_codes[] =
    "Exit status: 0 done, 1 failed, 2 wrong usage, 3 done but not converged,\n"
    "4 done but a limit asked for is exceeded, 5 cannot be checked (`check`).\n";

/* Words of text from column `at` on; following lines start at HELP_COLUMN. */
static void wrap(FILE *to, int at, const char *text) {
    if (at >= HELP_COLUMN) {
        fputc('\n', to);
        at = 0;
    }
    fprintf(to, "%*s", HELP_COLUMN - at, "");
    at = HELP_COLUMN;
    while (*text) {
        const int length = (int)strcspn(text, " ");
        if (at + length >= SCREEN) {
            fprintf(to, "\n%*s", HELP_COLUMN, "");
            at = HELP_COLUMN;
        }
        at += fprintf(to, "%.*s", length, text);
        text += length;
        if (*text == ' ') {
            text++;
            if (at + 1 + (int)strcspn(text, " ") < SCREEN)
                at += fprintf(to, " ");
            else
                at = SCREEN;
        }
    }
    fputc('\n', to);
}

static void option_line(FILE *to, const cli_option *option) {
    char letter[5] = "    ";
    if (option->letter) snprintf(letter, sizeof letter, "-%c, ", option->letter);
    int at = fprintf(to, "  %s--%s%s%s", letter, option->name, option->value ? " " : "",
                     option->value ? option->value : "");
    wrap(to, at, option->help);
}

void cli_help(FILE *to, const cli_command *self) {
    static const cli_option help = {
        .kind = CLI_FLAG, .letter = 'h', .name = "help", .help = "show this help and exit"};
    fprintf(to, "Usage: lipscope %s%s%s [OPTION]...\n%s\n", self->name,
            *self->operands ? " " : "", self->operands, self->about);
    for (size_t i = 0; i < self->option_count; i++) {
        const cli_option *option = &self->options[i];
        if (option->kind == CLI_GROUP)
            fprintf(to, "\n%s:\n", option->name);
        else if (option->help)
            option_line(to, option);
    }
    if (!self->option_count) fputs("\nOptions:\n", to);
    option_line(to, &help);
    fprintf(to, "\n%s\nExample:\n%s", cli_exit_codes, self->example);
}

void cli_help_program(FILE *to, size_t count, const cli_command *const *commands) {
    fputs("Usage: lipscope COMMAND [OPTION]...\n"
          "How far can an attention layer stretch a small change of its input?\n"
          "\n"
          "Commands:\n",
          to);
    for (size_t i = 0; i < count; i++) {
        char call[64];
        snprintf(call, sizeof call, "%s %s", commands[i]->name, commands[i]->operands);
        fprintf(to, "  %-19s%s\n", call, commands[i]->summary);
    }
    fprintf(
        to,
        "\n"
        "  -h, --help         show this help and exit\n"
        "  -V, --version      show the version and exit\n"
        "\n"
        "'lipscope help COMMAND' and 'lipscope COMMAND --help' tell about one command.\n"
        "Results go to standard output, everything else to standard error.\n"
        "\n"
        "%s\n"
        "Example:\n"
        "  $ lipscope demo\n",
        cli_exit_codes);
}
