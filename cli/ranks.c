/* ranks.c - the program started several times by mpirun: one speaks, all compute. */
#include "ranks.h"

#include <stdlib.h>
#include <string.h>

#include "interrupt.h"

static lipsc_ranks *joined;

lipsc_ranks *cli_ranks(void) { return joined; }
int cli_ranks_leads(void) { return !lipsc_ranks_number(joined); }

/* Results are rank 0's to write. */
static int join(const cli_command *command) {
    lipsc_error err = {.text = ""};
    if (lipsc_ranks_open(&joined, &err)) return cli_failure(command, "%s", err.text);
    if (!cli_ranks_leads() && !freopen("/dev/null", "w", stdout))
        return cli_failure(command, "cannot open /dev/null");
    return CLI_RUN;
}

int cli_ranks_run(const cli_command *command, int argc, char **argv) {
    size_t number;
    const size_t count = lipsc_ranks_started(&number);
    if (count < 2) return command->run(command, argc, argv);
    cli_speak_as(number);
    setvbuf(stderr, NULL, _IOLBF, BUFSIZ); /* lines of several ranks must not mix */
    if (!command->shares) {                /* one is enough */
        if (number) return CLI_DONE;
        cli_note(command, "%zu ranks were started, and one computes", count);
        return command->run(command, argc, argv);
    }
    const int code = join(command);
    return code == CLI_RUN ? command->run(command, argc, argv) : code;
}

int cli_ranks_followed(void) {
    cli_interrupt_done();
    return CLI_DONE;
}

void cli_ranks_end(int code) {
    if (!joined) return;
    /* the others would wait for this one for ever */
    if (code == CLI_FAILED && lipsc_ranks_awaited(joined)) lipsc_ranks_abort(joined, code);
    lipsc_ranks_close(joined);
    joined = NULL;
}

int cli_ranks_threads(void) {
    return getenv("OMP_NUM_THREADS") ? 0 : lipsc_ranks_threads(joined);
}

const char *cli_ranks_device(const char *name, char room[32]) {
    size_t gpus = 0;
    if (!joined || !name || strcmp(name, "cuda")) return name;
    for (size_t i = 0; i < lipsc_device_count(); i++) {
        lipsc_device_info info;
        if (!lipsc_device_describe(i, &info)) gpus += !strncmp(info.name, "cuda", 4);
    }
    if (!gpus) return name;
    snprintf(room, 32, "cuda:%zu", lipsc_ranks_local(joined) % gpus);
    return room;
}
