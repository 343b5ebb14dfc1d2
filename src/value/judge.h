/* judge.h - values on their way from the solver to the caller: what judge.c, on the host,
 * and judge_there.c, on a device, share. */
#ifndef LIPSC_VALUE_JUDGE_H
#define LIPSC_VALUE_JUDGE_H

#include "value/value.h"

/* Values and vectors found: nothing of the caller's is written before success.  Host
 * vectors have room for one more than asked for, for the probe: a random vector whose
 * product in the precision of the operator is `image`. */
typedef struct {
    const lipsc_space *in; /* of u, v and image, whose vectors are host doubles */
    double *sigma, *u, *v, *image;
    lipsc_buffer found_v, w, w_image; /* on the device: directions, probe, its product */
    /* doubles of the device, where directions and probe stay; u and v are then NULL unless
     * the caller wants them.  NULL: all come to the host */
    const lipsc_space *there;
    lipsc_buffer x, y; /* a vector at a time and its product */
    double *length;    /* (count) of the directions there    */
    double difference; /* |E w| of the probe w, see judge.c  */
    int judged, probed;
    lipsc_svd_info found;
} answer;

/* Several operators that are solved and judged together. */
typedef struct {
    size_t count;
    lipsc_sigma_task *task;
    answer *a;
    const lipsc_svd_settings *used; /* by the solver */
    lipsc_products *products;
    double probability;
    lipsc_product *product; /* (count) made at once */
} court;

/* With its relative error. */
typedef struct {
    double value, error;
} found_length;

/* What is proved of a value: a direction of that length has an image of that length. */
lipsc_status lipsc_judge_enclose(const lipsc_judge *judge, found_length image,
                                 found_length length, lipsc_svd_info *info);

/* Largest first; what is here of vectors of m and n, where there are any, goes along. */
void lipsc_judge_sort(size_t count, size_t m, size_t n, answer *a);

/* The time of products goes to each by the elements that it reads. */
void lipsc_share_time(court *court, double seconds);

/* judge_there.c: all that is on a device, and what it says of one. */
lipsc_status lipsc_evaluate_there(court *court);
lipsc_status lipsc_judge_there(const lipsc_sigma_task *task, size_t count, answer *a);

#endif
