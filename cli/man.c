/* man.c - manual pages from the tables of args.h: what --help says, for man(1). */
#include "args.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

/* Text of a page: a minus that can be copied, no backslash or leading dot that roff would
 * read as its own. */
static void text(FILE *to, size_t length, const char *from) {
    for (size_t i = 0; i < length; i++) {
        const int first = i == 0 || from[i - 1] == '\n';
        if (first && (from[i] == '.' || from[i] == '\'')) fputs("\\&", to);
        if (from[i] == '-')
            fputs("\\-", to);
        else if (from[i] == '\\')
            fputs("\\e", to);
        else
            fputc(from[i], to);
    }
}

static void words(FILE *to, const char *from) { text(to, strlen(from), from); }

/* Blank lines separate paragraphs. */
static void paragraphs(FILE *to, const char *about) {
    while (*about) {
        const char *end = strstr(about, "\n\n");
        const size_t length = end ? (size_t)(end - about) : strlen(about);
        fputs(".PP\n", to);
        text(to, length, about);
        fputc('\n', to);
        about += length + (end ? 2 : 0);
    }
}

/* What stands for a value, behind a space. */
static void placeholder(FILE *to, const char *value) {
    if (!value || !*value) return;
    fputs(" \\fI", to);
    words(to, value);
    fputs("\\fR", to);
}

static void option_entry(FILE *to, const cli_option *option) {
    fputs(".TP\n", to);
    if (option->letter) fprintf(to, "\\fB\\-%c\\fR, ", option->letter);
    fputs("\\fB\\-\\-", to);
    words(to, option->name);
    fputs("\\fR", to);
    placeholder(to, option->value);
    fputc('\n', to);
    words(to, option->help);
    fputc('\n', to);
}

static void title(FILE *to, const char *name) {
    fputs(".TH LIPSCOPE", to);
    if (*name) fputs("\\-", to);
    for (const char *c = name; *c; c++) fputc(toupper((unsigned char)*c), to);
    fprintf(to, " 1 \"\" \"lipscope %s\" \"lipscope\"\n.SH NAME\nlipscope",
            lipsc_version());
    if (*name) fprintf(to, "\\-%s", name);
    fputs(" \\- ", to);
}

static void close_page(FILE *to, const char *example) {
    fputs(".SH EXIT STATUS\n", to);
    words(to, cli_exit_codes + strlen("Exit status: "));
    fputs(".SH EXAMPLES\n.nf\n", to);
    words(to, example);
    fputs(".fi\n", to);
}

static void command_page(FILE *to, const cli_command *c) {
    static const cli_option help = {.letter = 'h', .name = "help", .help = "show the help"};
    title(to, c->name);
    words(to, c->summary);
    fprintf(to, "\n.SH SYNOPSIS\n\\fBlipscope %s\\fR", c->name);
    placeholder(to, c->operands);
    fputs(" [\\fIOPTION\\fR]...\n.SH DESCRIPTION\n", to);
    paragraphs(to, c->about);
    fputs(".SH OPTIONS\n", to);
    for (size_t i = 0; i < c->option_count; i++) {
        if (c->options[i].kind == CLI_GROUP) {
            fputs(".SS ", to);
            words(to, c->options[i].name);
            fputc('\n', to);
        } else if (c->options[i].help)
            option_entry(to, &c->options[i]);
    }
    option_entry(to, &help);
    close_page(to, c->example);
    fputs(".SH SEE ALSO\n.BR lipscope (1)\n", to);
}

static void program_page(FILE *to, size_t count, const cli_command *const *commands) {
    title(to, "");
    fputs("how far can an attention layer stretch a small change of its input?\n"
          ".SH SYNOPSIS\n\\fBlipscope\\fR \\fICOMMAND\\fR [\\fIOPTION\\fR]...\n"
          ".SH DESCRIPTION\nMeasures, bounds and attacks the Lipschitz constant of "
          "self\\-attention.  Results go to standard output, everything else to standard "
          "error.\n.SH COMMANDS\n",
          to);
    for (size_t i = 0; i < count; i++) {
        fprintf(to, ".TP\n.BR lipscope\\-%s (1)\n", commands[i]->name);
        words(to, commands[i]->summary);
        fputc('\n', to);
    }
    close_page(to, "  $ lipscope demo\n");
}

/* The page of commands[i], or of the program when i is count. */
static int write_page(const char *folder, size_t i, size_t count,
                      const cli_command *const *commands) {
    char path[4096];
    const int length = snprintf(path, sizeof path, "%s/lipscope%s%s.1", folder,
                                i < count ? "-" : "", i < count ? commands[i]->name : "");
    FILE *to = length > 0 && (size_t)length < sizeof path ? fopen(path, "w") : NULL;
    if (!to) return cli_failure(NULL, "%s: cannot write: %s", path, strerror(errno));
    if (i < count)
        command_page(to, commands[i]);
    else
        program_page(to, count, commands);
    const int failed = ferror(to);
    if (fclose(to) || failed)
        return cli_failure(NULL, "%s: cannot write: %s", path, strerror(errno));
    return CLI_DONE;
}

int cli_man_pages(const char *folder, size_t count, const cli_command *const *commands) {
    int code = CLI_DONE;
    for (size_t i = 0; i <= count && code == CLI_DONE; i++)
        code = write_page(folder, i, count, commands);
    return code;
}
