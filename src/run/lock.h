/* lock.h - one process at a time: a lock on a file beside the one that is guarded. */
#ifndef LIPSC_RUN_LOCK_H
#define LIPSC_RUN_LOCK_H

#include "lipscope.h"

typedef struct {
    int fd;     /* -1: not held */
    char *path; /* PATH-lock    */
} lipsc_lock;

/* LIPSC_E_REFUSED when another process holds it. */
lipsc_status lipsc_lock_take(const char *path, lipsc_lock *lock, lipsc_error *err);
void lipsc_lock_drop(lipsc_lock *lock); /* twice is fine */

#endif
