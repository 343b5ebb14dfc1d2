/* device.c - what is opened and passed to whatever computes. */
#include "lipscope/device.h"

#include <omp.h>
#include <string.h>

#include "core/error.h"
#include "core/mem.h"

struct lipsc_device {
    int threads; /* 0: as many as OpenMP gives */
};

lipsc_status lipsc_device_open(const char *name, int threads, lipsc_device **out,
                               lipsc_error *err) {
    if (!out || threads < 0)
        return lipsc_fail(err, LIPSC_E_ARG, "a device needs a place and 0 or more threads");
    if (name && strcmp(name, "cpu") != 0)
        return lipsc_fail(err, LIPSC_E_BACKEND, "there is no device '%s' here", name);
    lipsc_device *device = lipsc_alloc(1, sizeof *device);
    if (!device) return lipsc_fail(err, LIPSC_E_NOMEM, "no memory for a device");
    device->threads = threads;
    *out = device;
    return LIPSC_OK;
}

void lipsc_device_close(lipsc_device *device) { lipsc_release(device); }

const char *lipsc_device_name(const lipsc_device *device) {
    (void)device;
    return "cpu";
}

int lipsc_device_threads(const lipsc_device *device) {
    return device && device->threads ? device->threads : omp_get_max_threads();
}
