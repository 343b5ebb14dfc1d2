// busy.cu - how busy a GPU was, by the samples that its driver keeps (NVML, which comes
// with it and is loaded when it is asked for).
#include "internal.h"

#include <dlfcn.h>
#include <time.h>

// The few words of NVML that are needed; its header is not part of every toolkit.
typedef void *Nvml;
typedef union {
    double d;
    unsigned int u;
    unsigned long ul;
    unsigned long long ull;
    long long ll;
} NvmlValue;
typedef struct {
    unsigned long long microseconds;
    NvmlValue value;
} NvmlSample;
enum { NVML_UTILIZATION = 1, NVML_UNSIGNED = 1, MOST_SAMPLES = 4096 };

struct NvmlCalls {
    int (*init)(void);
    int (*by_bus)(const char *, Nvml *);
    int (*samples)(Nvml, int, unsigned long long, int *, unsigned int *, NvmlSample *);
    bool usable;
};

template <class F> static bool find(void *library, const char *name, F *out) {
    *(void **)out = dlsym(library, name);
    return *out != nullptr;
}

static const NvmlCalls &nvml() {
    static const NvmlCalls calls = [] {
        NvmlCalls c = {};
        void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
        c.usable = library && find(library, "nvmlInit_v2", &c.init) &&
                   find(library, "nvmlDeviceGetHandleByPciBusId_v2", &c.by_bus) &&
                   find(library, "nvmlDeviceGetSamples", &c.samples) && c.init() == 0;
        return c;
    }();
    return calls;
}

// Its samples are stamped with microseconds of the epoch.
static double microseconds_ago(double seconds) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return 1e6 * ((double)now.tv_sec - seconds) + 1e-3 * (double)now.tv_nsec;
}

lipsc_status busy(lipsc_cuda_device *device, double seconds, double *part,
                  lipsc_error *err) {
    const NvmlCalls &calls = nvml();
    const double since = microseconds_ago(seconds);
    Nvml gpu = nullptr;
    char bus[32];
    int type = 0;
    unsigned int count = MOST_SAMPLES;
    std::vector<NvmlSample> sample(MOST_SAMPLES);
    TRY(cudaDeviceGetPCIBusId(bus, sizeof bus, device->index), "asking for a device");
    if (!calls.usable || calls.by_bus(bus, &gpu) ||
        calls.samples(gpu, NVML_UTILIZATION, (unsigned long long)since, &type, &count,
                      sample.data()) ||
        type != NVML_UNSIGNED)
        return fail(err, LIPSC_E_REFUSED, "the driver does not tell how busy the GPU was");
    double sum = 0;
    size_t seen = 0;
    for (unsigned int i = 0; i < count; i++)
        if ((double)sample[i].microseconds >= since) {
            sum += sample[i].value.u / 100.0;
            seen++;
        }
    if (!seen) return fail(err, LIPSC_E_REFUSED, "too short a time for the driver to tell");
    *part = sum / (double)seen;
    return LIPSC_OK;
}
