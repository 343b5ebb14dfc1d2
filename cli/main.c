/* main.c - picks the command.  Results go to stdout, talk goes to stderr. */
#define _POSIX_C_SOURCE 200809L
#include "commands.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "interrupt.h"
#include "ranks.h"

static const cli_command *const commands[] = {
#define ENTRY(name) &cli_cmd_##name,
    CLI_COMMAND_LIST(ENTRY)
#undef ENTRY
};
enum { COMMANDS = sizeof commands / sizeof *commands };

/* A file opened while a standard stream is closed would take its number, and results
 * would be written into it.  /dev/null takes the place, opened the wrong way round so
 * that writing results still fails. */
static void hold_standard_streams(void) {
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd ? O_RDONLY : O_WRONLY) < 0)
            return;
}

static const cli_command *find(const char *name) {
    for (size_t i = 0; i < COMMANDS; i++)
        if (!strcmp(commands[i]->name, name)) return commands[i];
    return NULL;
}

static int unknown_command(const char *name) {
    const char *names[COMMANDS];
    for (size_t i = 0; i < COMMANDS; i++) names[i] = commands[i]->name;
    const char *nearest = cli_nearest(name, COMMANDS, names);
    if (nearest)
        return cli_wrong_use(NULL, "unknown command '%s'; did you mean '%s'?", name,
                             nearest);
    return cli_wrong_use(NULL, "unknown command '%s'", name);
}

static int help(int argc, char **argv) {
    if (argc == 2 && !strcmp(argv[0], "--man"))
        return cli_man_pages(argv[1], COMMANDS, commands);
    if (argc == 2 && !strcmp(argv[0], "--completion"))
        return cli_completions(argv[1], COMMANDS, commands);
    if (argc > 1) return cli_wrong_use(NULL, "extra operand '%s'", argv[1]);
    if (argc && (!strcmp(argv[0], "help") || !strcmp(argv[0], "--help"))) {
        fputs("Usage: lipscope help [COMMAND]\n"
              "What a command does and takes; without one, which commands there are.\n"
              "`lipscope COMMAND --help` says the same.\n",
              stdout);
        return CLI_DONE;
    }
    if (!argc) {
        cli_help_program(stdout, COMMANDS, commands);
        return CLI_DONE;
    }
    const cli_command *command = find(argv[0]);
    if (!command) return unknown_command(argv[0]);
    cli_help(stdout, command);
    return CLI_DONE;
}

static int dispatch(int argc, char **argv) {
    if (argc < 2) return cli_wrong_use(NULL, "missing command");
    const char *word = argv[1];
    if (!strcmp(word, "-h") || !strcmp(word, "--help")) return help(0, NULL);
    if (!strcmp(word, "help")) return help(argc - 2, argv + 2);
    if (!strcmp(word, "-V") || !strcmp(word, "--version")) {
        printf("lipscope %s\n", lipsc_version());
        return CLI_DONE;
    }
    if (word[0] == '-') return cli_wrong_use(NULL, "unknown option '%s'", word);
    const cli_command *command = find(word);
    if (!command) return unknown_command(word);
    return cli_ranks_run(command, argc - 2, argv + 2);
}

int main(int argc, char **argv) {
    hold_standard_streams();
    int code = dispatch(argc, argv);
    errno = 0;
    const int unwritten = ferror(stdout);
    /* A command that failed has said why: perhaps just this. */
    if ((fclose(stdout) || unwritten) &&
        (code == CLI_DONE || code == CLI_NOT_CONVERGED || code == CLI_ABOVE_LIMIT))
        code = cli_failure(NULL, "cannot write standard output: %s",
                           errno ? strerror(errno) : "write error");
    cli_ranks_end(code);
    cli_interrupt_end();
    cli_close_device();
    return code;
}
