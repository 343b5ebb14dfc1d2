/* interrupt.h - Ctrl-C (SIGINT), or the end of a time limit (SIGTERM), asks the work to
 * end; a second one ends the program. */
#ifndef LIPSC_CLI_INTERRUPT_H
#define LIPSC_CLI_INTERRUPT_H

void cli_interrupt_begin(void); /* from now on the first one only sets a flag  */
int cli_interrupted(void *ctx); /* the flag; fits lipsc_svd_settings.stop          */
void cli_interrupt_end(void);   /* dies by it when the flag is set, so that a
                                 * calling script ends as well                    */

void cli_interrupt_done(void); /* the flag has been answered: the program ends with the
                                * exit code of its command                       */

#endif
