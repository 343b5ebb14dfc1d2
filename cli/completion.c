/* completion.c - what bash, zsh and fish complete, from the tables of args.h. */
#include "args.h"

#include <errno.h>
#include <string.h>

/* ---- bash ---------------------------------------------------------------------------- */

/* The choices of an option as words: "table tsv json". */
static void choices(FILE *to, const cli_option *option) {
    for (const char *c = option->wanted; *c; c++) fputc(*c == '|' ? ' ' : *c, to);
}

static void bash_command(FILE *to, const cli_command *c) {
    fprintf(to, "    %s)\n        case $before in\n", c->name);
    for (size_t i = 0; i < c->option_count; i++)
        if (c->options[i].kind == CLI_CHOICE && c->options[i].help) {
            fprintf(to, "        --%s) words=\"", c->options[i].name);
            choices(to, &c->options[i]);
            fputs("\" ;;\n", to);
        }
    fputs("        *) words=\"--help", to);
    for (size_t i = 0; i < c->option_count; i++)
        if (c->options[i].help) fprintf(to, " --%s", c->options[i].name);
    fputs("\" ;;\n        esac ;;\n", to);
}

static void bash(FILE *to, size_t count, const cli_command *const *commands) {
    fputs("# bash completion of lipscope; made from its tables of options.\n"
          "_lipscope() {\n"
          "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} "
          "words\n"
          "    if [ \"$COMP_CWORD\" = 1 ]; then\n"
          "        COMPREPLY=($(compgen -W \"help --help --version",
          to);
    for (size_t i = 0; i < count; i++) fprintf(to, " %s", commands[i]->name);
    fputs("\" -- \"$word\"))\n        return\n    fi\n    case ${COMP_WORDS[1]} in\n"
          "    help) words=\"",
          to);
    for (size_t i = 0; i < count; i++) fprintf(to, "%s%s", i ? " " : "", commands[i]->name);
    fputs("\" ;;\n", to);
    for (size_t i = 0; i < count; i++) bash_command(to, commands[i]);
    fputs("    esac\n"
          "    case $word,$words in\n"
          "    -*,* | *,[!-]*) COMPREPLY=($(compgen -W \"$words\" -- \"$word\")) ;;\n"
          "    *) COMPREPLY=($(compgen -f -- \"$word\")) ;;\n"
          "    esac\n"
          "}\n"
          "complete -o filenames -F _lipscope lipscope\n",
          to);
}

/* ---- zsh ----------------------------------------------------------------------------- */

/* Inside single quotes and square brackets. */
static void zsh_text(FILE *to, const char *from) {
    for (; *from; from++) {
        if (*from == '\'')
            fputs("'\\''", to);
        else if (strchr("[]:\\", *from))
            fprintf(to, "\\%c", *from);
        else
            fputc(*from, to);
    }
}

static void zsh_option(FILE *to, const cli_option *o) {
    fprintf(to, " \\\n        '%s--%s[", o->kind == CLI_TEXTS ? "*" : "", o->name);
    zsh_text(to, o->help);
    fputc(']', to);
    if (o->kind == CLI_CHOICE) {
        fputs(":value:(", to);
        choices(to, o);
        fputc(')', to);
    } else if (o->value) {
        fputc(':', to);
        zsh_text(to, o->value);
        fputs(":_files", to);
    }
    fputc('\'', to);
}

static void zsh(FILE *to, size_t count, const cli_command *const *commands) {
    fputs(
        "#compdef lipscope\n# zsh completion of lipscope; made from its tables of "
        "options.\n"
        "_lipscope() {\n    local -a commands\n    commands=(\n        'help:show help'\n",
        to);
    for (size_t i = 0; i < count; i++) {
        fprintf(to, "        '%s:", commands[i]->name);
        zsh_text(to, commands[i]->summary);
        fputs("'\n", to);
    }
    fputs("    )\n    if ((CURRENT == 2)); then\n        _describe command commands\n"
          "        return\n    fi\n    local command=$words[2]\n    shift words\n"
          "    ((CURRENT--))\n    case $command in\n"
          "    help) _describe command commands ;;\n",
          to);
    for (size_t i = 0; i < count; i++) {
        const cli_command *c = commands[i];
        fprintf(to, "    %s)\n        _arguments", c->name);
        for (size_t o = 0; o < c->option_count; o++)
            if (c->options[o].help) zsh_option(to, &c->options[o]);
        fputs(" \\\n        '--help[show the help]' '*:file:_files' ;;\n", to);
    }
    fputs("    esac\n}\n_lipscope \"$@\"\n", to);
}

/* ---- fish ---------------------------------------------------------------------------- */

static void fish_text(FILE *to, const char *from) {
    fputc('\'', to);
    for (; *from; from++) {
        if (*from == '\'' || *from == '\\') fputc('\\', to);
        fputc(*from, to);
    }
    fputc('\'', to);
}

static void fish_option(FILE *to, const char *command, const cli_option *o) {
    fprintf(to, "complete -c lipscope -n '__fish_seen_subcommand_from %s' -l %s", command,
            o->name);
    if (o->letter) fprintf(to, " -s %c", o->letter);
    if (o->kind == CLI_CHOICE) {
        fputs(" -x -a '", to);
        choices(to, o);
        fputc('\'', to);
    } else if (o->value) {
        fputs(" -r", to);
    }
    fputs(" -d ", to);
    fish_text(to, o->help);
    fputc('\n', to);
}

static void fish(FILE *to, size_t count, const cli_command *const *commands) {
    fputs("# fish completion of lipscope; made from its tables of options.\n", to);
    for (size_t i = 0; i < count; i++) {
        fprintf(to, "complete -c lipscope -n __fish_use_subcommand -f -a %s -d ",
                commands[i]->name);
        fish_text(to, commands[i]->summary);
        fputc('\n', to);
    }
    for (size_t i = 0; i < count; i++)
        for (size_t o = 0; o < commands[i]->option_count; o++)
            if (commands[i]->options[o].help)
                fish_option(to, commands[i]->name, &commands[i]->options[o]);
}

/* ---- Files --------------------------------------------------------------------------- */

int cli_completions(const char *folder, size_t count, const cli_command *const *commands) {
    static const struct {
        const char *name;
        void (*write)(FILE *to, size_t count, const cli_command *const *commands);
    } shells[] = {{"lipscope.bash", bash}, {"_lipscope", zsh}, {"lipscope.fish", fish}};
    for (size_t i = 0; i < sizeof shells / sizeof *shells; i++) {
        char path[4096];
        const int length = snprintf(path, sizeof path, "%s/%s", folder, shells[i].name);
        FILE *to = length > 0 && (size_t)length < sizeof path ? fopen(path, "w") : NULL;
        if (!to) return cli_failure(NULL, "%s: cannot write: %s", path, strerror(errno));
        shells[i].write(to, count, commands);
        const int failed = ferror(to);
        if (fclose(to) || failed)
            return cli_failure(NULL, "%s: cannot write: %s", path, strerror(errno));
    }
    return CLI_DONE;
}
