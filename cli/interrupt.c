/* interrupt.c - Ctrl-C asks the work to end; a second one ends the program. */
#define _POSIX_C_SOURCE 200809L
#include "interrupt.h"

#include <signal.h>
#include <string.h>

static volatile sig_atomic_t flag;

static void raise_flag(int signal_number) {
    (void)signal_number;
    flag = 1;
}

void cli_interrupt_begin(void) {
    struct sigaction old, action;
    /* a program started in the background with SIGINT ignored stays that way */
    if (sigaction(SIGINT, NULL, &old) || old.sa_handler == SIG_IGN) return;
    memset(&action, 0, sizeof action);
    action.sa_handler = raise_flag;
    action.sa_flags = (int)(SA_RESETHAND | SA_RESTART); /* the second one kills */
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
}

int cli_interrupted(void *ctx) {
    (void)ctx;
    return flag;
}

void cli_interrupt_end(void) {
    if (!flag) return;
    signal(SIGINT, SIG_DFL);
    raise(SIGINT);
}

void cli_interrupt_done(void) { flag = 0; }
