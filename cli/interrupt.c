/* interrupt.c - Ctrl-C, or the end of a time limit, asks the work to end; a second one ends
 * the program. */
#define _POSIX_C_SOURCE 200809L
#include "interrupt.h"

#include <signal.h>
#include <string.h>

static volatile sig_atomic_t flag;

static void raise_flag(int signal_number) { flag = signal_number; }

static void catch_signal(int signal_number) {
    struct sigaction old, action;
    /* a program started in the background with SIGINT ignored stays that way */
    if (sigaction(signal_number, NULL, &old) || old.sa_handler == SIG_IGN) return;
    memset(&action, 0, sizeof action);
    action.sa_handler = raise_flag;
    action.sa_flags = (int)(SA_RESETHAND | SA_RESTART); /* the second one kills */
    sigemptyset(&action.sa_mask);
    sigaction(signal_number, &action, NULL);
}

void cli_interrupt_begin(void) {
    catch_signal(SIGINT);
    catch_signal(SIGTERM); /* a scheduler whose time is over, mpirun that ends a job */
}

int cli_interrupted(void *ctx) {
    (void)ctx;
    return flag != 0;
}

void cli_interrupt_end(void) {
    const int signal_number = flag;
    if (!signal_number) return;
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

void cli_interrupt_done(void) { flag = 0; }
