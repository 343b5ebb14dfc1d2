/* guard.h - a CPU whose memory the host cannot touch: a device for tests. */
#ifndef LIPSC_BACKEND_GUARD_GUARD_H
#define LIPSC_BACKEND_GUARD_GUARD_H

#include "backend/backend.h"

/* Fills what a kind of device knows of *device. */
lipsc_status lipsc_guard_open(int index, int threads, lipsc_device *device,
                              lipsc_error *err);

#endif
