/* travel.h - rows in a GPU's memory on their way between ranks: by the host, or, where MPI
 * takes addresses of the GPU (lipsc_share.direct), without it.
 *
 * The rooms are the host's or, with direct, the GPU's; nothing else differs.  C and C++. */
#ifndef LIPSC_BACKEND_CUDA_TRAVEL_H
#define LIPSC_BACKEND_CUDA_TRAVEL_H

#include "backend/backend.h"

typedef struct {
    const lipsc_share *share;
    /* own rows; those of all, one rank after the other; own ones of each rank */
    void *room_own, *room_all, *room_parts;
    /* Queues a copy between any two memories; waits for what was queued. */
    lipsc_status (*copy)(void *ctx, size_t bytes, const void *from, void *to,
                         lipsc_error *err);
    lipsc_status (*wait)(void *ctx, lipsc_error *err);
    void *ctx;
} lipsc_travel;

static inline lipsc_status lipsc_travel_copy(const lipsc_travel *t, size_t bytes,
                                             const void *from, void *to, lipsc_error *err) {
    return bytes ? t->copy(t->ctx, bytes, from, to, err) : LIPSC_OK;
}

/* Rows of all by blocks, to or from the room where one rank follows the other. */
static inline lipsc_status lipsc_travel_place(const lipsc_travel *t, int to_room,
                                              size_t row, void *all, lipsc_error *err) {
    const lipsc_share *s = t->share;
    char *room = (char *)t->room_all;
    for (size_t r = 0; r < s->ranks; r++)
        for (int block = 0; block < 4; block += 2) {
            const size_t first = s->block[r][block];
            const size_t bytes = (s->block[r][block + 1] - first) * row;
            char *there = (char *)all + first * row;
            const lipsc_status status = lipsc_travel_copy(t, bytes, to_room ? there : room,
                                                          to_room ? room : there, err);
            if (status) return status;
            room += bytes;
        }
    return LIPSC_OK;
}

/* all (n) of everybody's own rows, both in the GPU's memory; what it queues is not waited
 * for.  MPI knows no queue: all that is its must have been made. */
static inline lipsc_status lipsc_travel_gather(const lipsc_travel *t, size_t row,
                                               const void *own, void *all,
                                               lipsc_error *err) {
    const lipsc_share *s = t->share;
    lipsc_status status =
        s->direct ? LIPSC_OK : lipsc_travel_copy(t, s->own * row, own, t->room_own, err);
    if (!status) status = t->wait(t->ctx, err);
    status = s->agree(s->ctx, status, err);
    if (!status)
        status = s->gather(s->ctx, row, s->direct ? own : t->room_own, t->room_all);
    return status ? status : lipsc_travel_place(t, 0, row, all, err);
}

/* room_parts (ranks, own): what everybody has of own rows, of his (n) in the GPU's memory.
 */
static inline lipsc_status lipsc_travel_exchange(const lipsc_travel *t, size_t row,
                                                 void *all, lipsc_error *err) {
    const lipsc_share *s = t->share;
    lipsc_status status = lipsc_travel_place(t, 1, row, all, err);
    if (!status) status = t->wait(t->ctx, err);
    status = s->agree(s->ctx, status, err);
    return status ? status : s->exchange(s->ctx, row, t->room_all, t->room_parts);
}

#endif
