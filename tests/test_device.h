/* test_device.h - the device that LIPSCOPE_DEVICE names, for every test that computes. */
#ifndef LIPSC_TESTS_TEST_DEVICE_H
#define LIPSC_TESTS_TEST_DEVICE_H

#include <stdio.h>
#include <stdlib.h>

#include "backend/backend.h"

/* With that many threads, 0: as many as OpenMP gives; open as long as the program runs. */
static inline lipsc_device *test_device(int threads) {
    enum { MOST = 64 };
    static lipsc_device *opened, lent[MOST];
    const char *name = getenv("LIPSCOPE_DEVICE");
    lipsc_error err;
    if (!opened && lipsc_device_open(name, 0, &opened, &err)) {
        fprintf(stderr, "LIPSCOPE_DEVICE: %s\n", err.text);
        exit(1);
    }
    if (threads <= 0) return opened;
    lipsc_device *device = &lent[threads < MOST ? threads : MOST - 1];
    if (!device->ops) lipsc_device_lend(opened, threads, device);
    return device;
}

#endif
