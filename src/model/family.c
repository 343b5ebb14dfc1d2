/* family.c - all families in order: decoders, encoders, image models, and what GGUF files
 * hold. */
#include "model/family.h"

#include <string.h>

const lipsc_family *lipsc_family_at(size_t i) {
    static const lipsc_family *const tables[] = {
        lipsc_families_decoders, lipsc_families_encoders, lipsc_families_images,
        lipsc_families_gguf};
    for (size_t t = 0; t < sizeof tables / sizeof tables[0]; t++)
        for (const lipsc_family *f = tables[t]; f->name; f++)
            if (i-- == 0) return f;
    return NULL;
}

const char *lipsc_family_shown(const lipsc_family *family) {
    static const char mark[] = "gguf:";
    const size_t size = sizeof mark - 1;
    return strncmp(family->name, mark, size) ? family->name : family->name + size;
}
