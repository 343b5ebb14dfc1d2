/* split.c - which rows of an input are whose, and how they travel. */
#include "backend/ranks/split.h"

#include <limits.h>
#include <string.h>

#include "core/error.h"
#include "core/extreme.h"
#include "core/mem.h"
#include "ranks/ranks.h"

/* Where block b of `blocks` begins. */
static size_t edge(size_t n, size_t blocks, size_t b) {
    return n / blocks * b + (n % blocks * b) / blocks;
}

void lipsc_split_own(size_t n, size_t ranks, size_t r, size_t own[4]) {
    own[0] = edge(n, 2 * ranks, r);
    own[1] = edge(n, 2 * ranks, r + 1);
    own[2] = edge(n, 2 * ranks, 2 * ranks - 1 - r);
    own[3] = edge(n, 2 * ranks, 2 * ranks - r);
}

static size_t count_own(const size_t own[4]) { return own[1] - own[0] + own[3] - own[2]; }

/* MPI counts in int: no vector of a head is that long. */
static int fits(const lipsc_row_split *split, size_t row) {
    return split->rows.rows <= INT_MAX / (row ? row : 1);
}

/* bytes[r] of rank r, of so many heads. */
static void count_bytes(const lipsc_row_split *split, size_t count, size_t row,
                        int *bytes) {
    const size_t ranks = lipsc_ranks_count(split->ranks);
    for (size_t r = 0; r < ranks; r++) {
        size_t theirs[4];
        lipsc_split_own(split->rows.rows, ranks, r, theirs);
        bytes[r] = (int)(count * count_own(theirs) * row);
    }
}

/* ---- As a device sees it ------------------------------------------------------------ */

static lipsc_status gather_for(void *ctx, size_t row, const void *own, void *all) {
    lipsc_row_split *split = ctx;
    if (!fits(split, row)) return LIPSC_E_RANGE;
    count_bytes(split, 1, row, split->bytes);
    return lipsc_ranks_gather_parts(split->ranks, split->bytes, own, all);
}
static lipsc_status exchange_for(void *ctx, size_t row, const void *all, void *parts) {
    lipsc_row_split *split = ctx;
    const size_t ranks = split->rows.ranks, mine = split->rows.own * row;
    int *out = split->bytes, *in = split->bytes + ranks;
    /* no rank has more rows than so many: all of them go on, or none */
    if (!fits(split, row) ||
        split->rows.rows / ranks + 1 > INT_MAX / ranks / (row ? row : 1))
        return LIPSC_E_RANGE;
    count_bytes(split, 1, row, out);
    for (size_t r = 0; r < ranks; r++) in[r] = (int)mine;
    return lipsc_ranks_exchange(split->ranks, out, all, in, parts);
}
static double largest_for(void *ctx, double own) { return lipsc_split_largest(ctx, own); }
static lipsc_status agree_for(void *ctx, lipsc_status own, lipsc_error *err) {
    return lipsc_split_agree(ctx, own, err);
}

static void fill_share(lipsc_row_split *split) {
    split->share = (lipsc_share){.n = split->rows.rows,
                                 .own = split->rows.own,
                                 .ranks = split->rows.ranks,
                                 .rank = lipsc_ranks_number(split->ranks),
                                 .block = (const size_t(*)[4])split->block,
                                 .ctx = split,
                                 .gather = gather_for,
                                 .exchange = exchange_for,
                                 .largest = largest_for,
                                 .agree = agree_for,
                                 .direct = lipsc_ranks_direct(split->ranks)};
    for (size_t r = 0; r < split->rows.ranks; r++)
        lipsc_split_own(split->rows.rows, split->rows.ranks, r, split->block[r]);
}

/* ---- Life --------------------------------------------------------------------------- */

lipsc_status lipsc_split_begin(lipsc_row_split *split, size_t n, const size_t *order) {
    const size_t ranks = lipsc_ranks_count(split->ranks);
    lipsc_split_own(n, ranks, lipsc_ranks_number(split->ranks), split->own);
    split->rows = (lipsc_split){n, count_own(split->own), ranks};
    split->place = lipsc_alloc(split->rows.own, sizeof *split->place);
    split->bytes = lipsc_alloc(2 * ranks, sizeof *split->bytes);
    split->block = lipsc_alloc(ranks, sizeof *split->block);
    if (!split->place || !split->bytes || !split->block) return LIPSC_E_NOMEM;
    size_t at = 0;
    for (int part = 0; part < 4; part += 2)
        for (size_t i = split->own[part]; i < split->own[part + 1]; i++)
            split->place[at++] = order ? order[i] : i;
    fill_share(split);
    return LIPSC_OK;
}

void lipsc_split_end(lipsc_row_split *split) {
    lipsc_release(split->place);
    lipsc_release(split->bytes);
    lipsc_release(split->block);
    lipsc_release(split->room);
    *split = (lipsc_row_split){.ranks = split->ranks};
}

/* Copies rows of rank r between their places in all and one after the other. */
static void copy_rows(const size_t own[4], size_t row, const char *from, char *to,
                      int spread) {
    for (int part = 0; part < 4; part += 2) {
        const size_t bytes = (own[part + 1] - own[part]) * row, at = own[part] * row;
        if (spread)
            memcpy(to + at, from, bytes);
        else
            memcpy(to, from + at, bytes);
        *(spread ? &from : (const char **)(void *)&to) += bytes;
    }
}

static lipsc_status reserve(lipsc_row_split *split, size_t bytes) {
    if (bytes <= split->room_bytes) return LIPSC_OK;
    lipsc_release(split->room);
    split->room = lipsc_alloc(bytes, 1);
    split->room_bytes = split->room ? bytes : 0;
    return split->room ? LIPSC_OK : LIPSC_E_NOMEM;
}

/* Heads that travel together, of so many.  0: MPI cannot count one. */
static size_t in_one_call(size_t heads, size_t bytes_of_one) {
    if (bytes_of_one > INT_MAX) return 0;
    return min_size(heads, LIPSC_SPLIT_MESSAGE / (bytes_of_one + 1) + 1);
}

/* Of heads (count, n rows) between their places in all and one rank after the other. */
static void copy_heads(const lipsc_row_split *split, size_t count, size_t row, char *all,
                       char *room, int spread) {
    const size_t ranks = lipsc_ranks_count(split->ranks), n = split->rows.rows;
    for (size_t r = 0; r < ranks; r++) {
        size_t theirs[4];
        lipsc_split_own(n, ranks, r, theirs);
        for (size_t i = 0; i < count; i++) {
            char *head = all + i * n * row;
            copy_rows(theirs, row, spread ? room : head, spread ? head : room, spread);
            room += count_own(theirs) * row;
        }
    }
}

static lipsc_status gather_some(lipsc_row_split *split, size_t count, size_t row,
                                const char *own, char *all) {
    lipsc_status status = reserve(split, count * split->rows.rows * row);
    count_bytes(split, count, row, split->bytes);
    if (!status)
        status = lipsc_ranks_gather_parts(split->ranks, split->bytes, own, split->room);
    if (!status) copy_heads(split, count, row, all, split->room, 1);
    return status;
}

lipsc_status lipsc_split_gather_heads(lipsc_row_split *split, size_t count, size_t row,
                                      const void *own, void *all) {
    const size_t here = split->rows.own * row, there = split->rows.rows * row;
    const size_t together = in_one_call(count, there);
    lipsc_status status = together || !count ? LIPSC_OK : LIPSC_E_RANGE;
    for (size_t i = 0; i < count && !status; i += together)
        status = gather_some(split, min_size(together, count - i), row,
                             (const char *)own + i * here, (char *)all + i * there);
    return status;
}

lipsc_status lipsc_split_gather(lipsc_row_split *split, size_t row, const void *own,
                                void *all) {
    return lipsc_split_gather_heads(split, 1, row, own, all);
}

size_t lipsc_split_most_of_cut(const lipsc_row_split *split, size_t cuts) {
    const size_t ranks = lipsc_ranks_count(split->ranks);
    const size_t most = split->rows.rows / ranks + 2; /* of a rank */
    return ranks * (most / cuts + 1);
}

lipsc_status lipsc_split_gather_cut(lipsc_row_split *split, size_t cut, size_t cuts,
                                    size_t row, const void *own, void *all, size_t *rows) {
    const size_t ranks = lipsc_ranks_count(split->ranks), n = split->rows.rows;
    const size_t first = edge(split->rows.own, cuts, cut);
    *rows = 0;
    if (!fits(split, row)) return LIPSC_E_RANGE;
    for (size_t r = 0; r < ranks; r++) {
        size_t theirs[4];
        lipsc_split_own(n, ranks, r, theirs);
        const size_t count = count_own(theirs);
        const size_t some = edge(count, cuts, cut + 1) - edge(count, cuts, cut);
        split->bytes[r] = (int)(some * row);
        *rows += some;
    }
    return lipsc_ranks_gather_parts(split->ranks, split->bytes,
                                    (const char *)own + first * row, all);
}

static void add(size_t bytes, size_t item, const char *part, char *sum) {
    if (item == sizeof(float))
        for (size_t e = 0; e < bytes / item; e++)
            ((float *)(void *)sum)[e] += ((const float *)(const void *)part)[e];
    else
        for (size_t e = 0; e < bytes / item; e++)
            ((double *)(void *)sum)[e] += ((const double *)(const void *)part)[e];
}

static lipsc_status reduce_some(lipsc_row_split *split, size_t count, size_t row,
                                size_t item, char *all, char *own) {
    const size_t ranks = lipsc_ranks_count(split->ranks), n = split->rows.rows;
    const size_t mine = count * split->rows.own * row;
    int *out = split->bytes, *in = split->bytes + ranks;
    lipsc_status status = reserve(split, count * n * row + ranks * mine);
    if (status) return status;
    char *parts = split->room + count * n * row;
    count_bytes(split, count, row, out);
    for (size_t r = 0; r < ranks; r++) in[r] = (int)mine;
    copy_heads(split, count, row, all, split->room, 0);
    status = lipsc_ranks_exchange(split->ranks, out, split->room, in, parts);
    if (status) return status;
    memcpy(own, parts, mine);
    for (size_t r = 1; r < ranks; r++) add(mine, item, parts + r * mine, own);
    return LIPSC_OK;
}

lipsc_status lipsc_split_reduce_heads(lipsc_row_split *split, size_t count, size_t row,
                                      size_t item, const void *all, void *own) {
    const size_t ranks = lipsc_ranks_count(split->ranks);
    const size_t here = split->rows.own * row, there = split->rows.rows * row;
    /* no rank has more rows than so many: all find the same number of heads */
    const size_t most = ranks * (split->rows.rows / ranks + 1) * row;
    const size_t together = in_one_call(count, most);
    lipsc_status status = together || !count ? LIPSC_OK : LIPSC_E_RANGE;
    for (size_t i = 0; i < count && !status; i += together)
        status = reduce_some(split, min_size(together, count - i), row, item,
                             (char *)all + i * there, (char *)own + i * here);
    return status;
}

/* Of those who failed the first: all hear what it has to say, and have failed like it, so
 * that what is tried next all try.  Then none waits for another. */
static lipsc_status pass_on(const lipsc_row_split *split, const int *all,
                            lipsc_error *err) {
    const size_t count = lipsc_ranks_count(split->ranks),
                 own = lipsc_ranks_number(split->ranks);
    size_t first = 0;
    lipsc_error mine = {.text = ""};
    lipsc_error *said = lipsc_alloc_zero(count, sizeof *said);
    while (!all[first]) first++;
    const lipsc_status failed = (lipsc_status)all[first];
    if (first == own && err) mine = *err;
    const lipsc_status status =
        said ? lipsc_ranks_gather(split->ranks, sizeof mine, &mine, said) : LIPSC_E_NOMEM;
    if (!status) lipsc_ranks_busy(split->ranks, 0);
    if (first != own)
        lipsc_fail(err, failed, "rank %zu: %s", first,
                   !status && said[first].text[0] ? said[first].text
                                                  : lipsc_strerror(failed));
    lipsc_release(said);
    return failed;
}

lipsc_status lipsc_split_agree(const lipsc_row_split *split, lipsc_status own,
                               lipsc_error *err) {
    lipsc_ranks *ranks = split->ranks;
    const size_t count = lipsc_ranks_count(ranks);
    const int mine = (int)own;
    int *all = lipsc_alloc_zero(count, sizeof *all), failed = 0;
    lipsc_status status =
        all ? lipsc_ranks_gather(ranks, sizeof mine, &mine, all) : LIPSC_E_NOMEM;
    if (status) lipsc_fail(err, status, "the other ranks are out of reach");
    for (size_t r = 0; r < count && !status; r++) failed |= all[r];
    if (!status && !failed) lipsc_ranks_busy(ranks, 1);
    if (failed) status = pass_on(split, all, err);
    lipsc_release(all);
    return status;
}

double lipsc_split_largest(const lipsc_row_split *split, double own) {
    const size_t count = lipsc_ranks_count(split->ranks);
    double *all = lipsc_alloc(count, sizeof *all);
    if (all && !lipsc_ranks_gather(split->ranks, sizeof own, &own, all))
        for (size_t r = 0; r < count; r++) own = lipsc_max(own, all[r]);
    lipsc_release(all);
    return own;
}
