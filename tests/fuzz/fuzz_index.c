/* fuzz_index.c - any bytes as model.safetensors.index.json of a folder with two small
 * files: what is accepted has tensors that are readable and found by name. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "folder.h"
#include "sentence.h"
#include "io/checkpoint.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* One tensor of two numbers. */
static void put_tensors(const char *file, const char *name) {
    char bytes[128] = {0};
    const int length =
        snprintf(bytes + 8, sizeof bytes - 8,
                 "{\"%s\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", name);
    bytes[0] = (char)length;
    folder_put(file, bytes, 8 + (size_t)length + 8);
}

static void check(const lipsc_checkpoint *checkpoint) {
    lipsc_stored tensor, same;
    lipsc_error err = {0};
    uint64_t all = 0;
    for (size_t i = 0; lipsc_checkpoint_at(checkpoint, i, &tensor); i++) {
        double numbers[2];
        if (!lipsc_checkpoint_find(checkpoint, tensor.name, &same)) abort();
        if (tensor.count != 2 || lipsc_stored_read(&tensor, 0, 2, numbers, &err)) abort();
        all += tensor.count;
    }
    if (lipsc_checkpoint_numbers(checkpoint) != all) abort();
    if (strcmp(lipsc_checkpoint_dtype(checkpoint), all ? "F32" : "none")) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static int made;
    lipsc_checkpoint *checkpoint = NULL;
    lipsc_error err = {0};
    if (!made) {
        put_tensors("a.safetensors", "one");
        put_tensors("b.safetensors", "two");
        made = 1;
    }
    folder_put("model.safetensors.index.json", data, size);
    if (lipsc_checkpoint_open(FOLDER, &checkpoint, &err))
        check_sentence(&err);
    else
        check(checkpoint);
    lipsc_checkpoint_free(checkpoint);
    return 0;
}
