/* family.c - all families in order: the tables of decoders, encoders and image models. */
#include "model/family.h"

const lipsc_family *lipsc_family_at(size_t i) {
    static const lipsc_family *const tables[] = {
        lipsc_families_decoders, lipsc_families_encoders, lipsc_families_images};
    for (size_t t = 0; t < sizeof tables / sizeof tables[0]; t++)
        for (const lipsc_family *f = tables[t]; f->name; f++)
            if (i-- == 0) return f;
    return NULL;
}
