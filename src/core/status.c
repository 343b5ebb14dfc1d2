/* status.c - status to name and sentence, both expanded from LIPSC_STATUS_LIST. */
#include "lipscope.h"

const char *lipsc_version(void) { return LIPSC_VERSION_STRING; }

const char *lipsc_dtype_name(lipsc_dtype dtype) {
    return dtype == LIPSC_F32 ? "f32" : "f64";
}

const char *lipsc_strerror(lipsc_status s) {
    switch (s) {
#define LIPSC_EXPAND(name, value, text) \
    case LIPSC_##name:                  \
        return text;
        LIPSC_STATUS_LIST(LIPSC_EXPAND)
#undef LIPSC_EXPAND
    }
    return "unknown status";
}

const char *lipsc_status_name(lipsc_status s) {
    switch (s) {
#define LIPSC_EXPAND(name, value, text) \
    case LIPSC_##name:                  \
        return #name;
        LIPSC_STATUS_LIST(LIPSC_EXPAND)
#undef LIPSC_EXPAND
    }
    return "E_UNKNOWN";
}
