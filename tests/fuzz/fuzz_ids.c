/* fuzz_ids.c - any bytes as token ids: what is accepted says so in as many numbers as the
 * text has, and each refusal has a sentence. */
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "lipscope/tokens.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t runs_of_digits(const uint8_t *data, size_t size) {
    size_t runs = 0;
    for (size_t i = 0; i < size; i++)
        runs += data[i] >= '0' && data[i] <= '9' &&
                (!i || data[i - 1] < '0' || data[i - 1] > '9');
    return runs;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint32_t *ids = NULL;
    size_t count = 0;
    lipsc_error err = {0};
    if (lipsc_ids_parse("fuzz", (const char *)data, size, &ids, &count, &err)) {
        if (!err.code || strncmp(err.text, "fuzz: ", 6) != 0) abort();
        return 0;
    }
    if (!ids || count != runs_of_digits(data, size)) abort();
    lipsc_release(ids);
    return 0;
}
