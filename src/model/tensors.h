/* tensors.h - a model's numbers by role: from its files, or made at random. */
#ifndef LIPSC_MODEL_TENSORS_H
#define LIPSC_MODEL_TENSORS_H

#include "io/checkpoint.h"
#include "model/config.h"

typedef struct {
    const lipsc_config *config;
    const lipsc_checkpoint *files; /* NULL: random */
    uint64_t seed;                 /* of random weights */
} lipsc_tensors;

/* What the configuration says of a tensor. */
typedef struct {
    char name[96];
    size_t ndim, shape[4], count;
    /* published initialisation: normal with this deviation, or a constant where it is 0 */
    double deviation, constant;
    double offset;   /* added to what is stored                                          */
    size_t zero_row; /* LIPSC_NO_TOKEN: none; the embedding of the padding token is zero */
} lipsc_tensor;

/* 1, or 0 when the model has no tensor in that role.  layer is ignored by the roles that
 * exist once; of a tensor that every expert has, the one of expert 0 is described. */
int lipsc_tensor_describe(const lipsc_config *config, lipsc_role role, size_t layer,
                          lipsc_tensor *out);
int lipsc_tensor_expert(const lipsc_config *config, lipsc_role role, size_t layer,
                        size_t expert, lipsc_tensor *out);
/* Whether each expert, were it the only one, has a tensor of its own in that role. */
int lipsc_tensor_is_own(const lipsc_config *config, lipsc_role role);
/* How many tensors there are of a role in a layer: one per expert where they have their
 * own, else one. */
size_t lipsc_tensor_copies(const lipsc_config *config, lipsc_role role);

/* Random models have every tensor. */
int lipsc_tensors_has(const lipsc_tensors *tensors, const lipsc_tensor *tensor);

/* Present, of the shape that the configuration asks for, of a floating-point type. */
lipsc_status lipsc_tensors_check(const lipsc_tensors *tensors, const lipsc_tensor *tensor,
                                 lipsc_error *err);

/* Entries first .. first+count-1; a number that is not finite is an error. */
lipsc_status lipsc_tensors_read(const lipsc_tensors *tensors, const lipsc_tensor *tensor,
                                size_t first, size_t count, double *out, lipsc_error *err);

/* Rows of a tensor were read here and there: the pages that they stand in leave memory
 * until they are read again.  Reads of many numbers at once do so by themselves. */
void lipsc_tensors_forget(const lipsc_tensors *tensors, const lipsc_tensor *tensor);

#endif
