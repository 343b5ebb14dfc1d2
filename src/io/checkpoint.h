/* checkpoint.h - the weights of a model as one set of named tensors: a Hugging Face folder
 * with model.safetensors or the shards that model.safetensors.index.json names, one
 * safetensors file, one GGUF file, or tensors that are in memory already. */
#ifndef LIPSC_IO_CHECKPOINT_H
#define LIPSC_IO_CHECKPOINT_H

#include "core/sha256.h"
#include "io/gguf.h"
#include "io/given.h"
#include "io/safetensors.h"

/* Files are mapped and must not change while it is open. */
typedef struct lipsc_checkpoint lipsc_checkpoint;

lipsc_status lipsc_checkpoint_open(const char *path, lipsc_checkpoint **out,
                                   lipsc_error *err);
/* name: of the model, in sentences. */
lipsc_status lipsc_checkpoint_from_memory(const char *name, size_t count,
                                          const lipsc_model_tensor *tensors,
                                          lipsc_checkpoint **out, lipsc_error *err);
void lipsc_checkpoint_free(lipsc_checkpoint *checkpoint); /* NULL does nothing */

/* The path as it stands in sentences. */
const char *lipsc_checkpoint_shown(const lipsc_checkpoint *checkpoint);

/* The GGUF file that it is, or NULL. */
const lipsc_gguf *lipsc_checkpoint_gguf(const lipsc_checkpoint *checkpoint);

/* A tensor of the set; valid as long as the checkpoint. */
typedef struct {
    const char *name, *dtype; /* "F16", "Q4_K"                    */
    const char *file;         /* as it stands in sentences         */
    int readable;             /* 0: of a type that is not converted */
    size_t ndim;
    const size_t *shape;
    size_t count, bytes;
    /* where it stands: one of the two pairs, or the last */
    const lipsc_st *st;
    const lipsc_st_tensor *in_st;
    const lipsc_gguf *gguf;
    const lipsc_gguf_tensor *in_gguf;
    const lipsc_given_tensor *in_memory;
} lipsc_stored;

/* The tensor of that name, also under one of the prefixes that wrapping models add
 * ("transformer.", "bert.", "model.", ...), and LayerNorm's gamma and beta of old files for
 * weight and bias; 0 when there is none. */
int lipsc_checkpoint_find(const lipsc_checkpoint *checkpoint, const char *name,
                          lipsc_stored *out);

/* The i-th of all tensors, 0 behind the last. */
int lipsc_checkpoint_at(const lipsc_checkpoint *checkpoint, size_t i, lipsc_stored *out);

/* Entries first .. first+count-1 in storage order; another type is refused by its name. */
lipsc_status lipsc_stored_read(const lipsc_stored *stored, size_t first, size_t count,
                               double *out, lipsc_error *err);

/* Its bytes are not needed for a while: they leave memory until they are read again. */
void lipsc_stored_forget(const lipsc_stored *stored);

/* Numbers stored in all floating-point tensors, and their common dtype ("mixed"). */
uint64_t lipsc_checkpoint_numbers(const lipsc_checkpoint *checkpoint);
const char *lipsc_checkpoint_dtype(const lipsc_checkpoint *checkpoint);

/* Adds every weight file to a hash, its length first. */
lipsc_status lipsc_checkpoint_hash(const lipsc_checkpoint *checkpoint, lipsc_sha256 *sha,
                                   lipsc_error *err);

/* DIR/NAME, to be released; NULL without memory. */
char *lipsc_path_join(const char *dir, const char *name);

#endif
