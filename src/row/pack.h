/* pack.h - records as bytes, to the last bit, for another rank of the same build. */
#ifndef LIPSC_ROW_PACK_H
#define LIPSC_ROW_PACK_H

#include "core/pool.h"
#include "lipscope/row.h"

/* Bytes that grow; at is released by lipsc_release.  bad: memory was short. */
typedef struct {
    size_t bytes, room;
    char *at;
    int bad;
} lipsc_packet;

void lipsc_pack(lipsc_packet *to, size_t bytes, const void *from);
/* count, then so many doubles; NULL is kept apart from none. */
void lipsc_pack_reals(lipsc_packet *to, size_t count, const double *from);
/* All members of the list. */
void lipsc_pack_record(lipsc_packet *to, lipsc_fields fields, const void *record);

/* And back; bad: there was less, or it is something else, or memory was short. */
typedef struct {
    const char *at, *end;
    int bad;
} lipsc_unpacking;

void lipsc_unpack(lipsc_unpacking *from, size_t bytes, void *to);
/* Valid as long as the pool. */
const double *lipsc_unpack_reals(lipsc_unpacking *from, lipsc_pool *pool, size_t *count);
void lipsc_unpack_record(lipsc_unpacking *from, lipsc_fields fields, lipsc_pool *pool,
                         void *record);

#endif
