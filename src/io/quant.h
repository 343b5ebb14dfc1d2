/* quant.h - how GGUF stores numbers: plain, or in blocks of small integers that share
 * their scales.  Read value by value exactly as the reference package does, in float. */
#ifndef LIPSC_IO_QUANT_H
#define LIPSC_IO_QUANT_H

#include "lipscope.h"

typedef struct {
    uint32_t id;      /* as the file writes it                                   */
    const char *name; /* "Q4_K"                                                  */
    size_t values;    /* in one block                                            */
    size_t bytes;     /* of one block                                            */
    /* one block to `values` floats; NULL: known by name only */
    void (*unpack)(const uint8_t *block, float *out);
} lipsc_quant;

/* Longest block, in values. */
enum { LIPSC_QUANT_VALUES = 256 };

/* NULL when no format has that number. */
const lipsc_quant *lipsc_quant_of(uint32_t id);

/* Values first .. first+count-1 of consecutive blocks.  F64 comes as it is stored, every
 * other type is a float by definition.  Only for types that can be unpacked. */
void lipsc_quant_read(const lipsc_quant *type, const uint8_t *data, size_t first,
                      size_t count, double *out);

#endif
