/* checkpoint.h - the weight files of a Hugging Face folder: model.safetensors, or the
 * shards that model.safetensors.index.json names. */
#ifndef LIPSC_IO_CHECKPOINT_H
#define LIPSC_IO_CHECKPOINT_H

#include "core/sha256.h"
#include "io/safetensors.h"

/* Files are mapped and must not change while it is open. */
typedef struct lipsc_checkpoint lipsc_checkpoint;

lipsc_status lipsc_checkpoint_open(const char *dir, lipsc_checkpoint **out,
                                   lipsc_error *err);
void lipsc_checkpoint_free(lipsc_checkpoint *checkpoint); /* NULL does nothing */

/* DIR as it stands in sentences. */
const char *lipsc_checkpoint_shown(const lipsc_checkpoint *checkpoint);

/* The i-th weight file, NULL behind the last. */
const lipsc_st *lipsc_checkpoint_file(const lipsc_checkpoint *checkpoint, size_t i);

/* The tensor of that name, also under one of the prefixes that wrapping models add
 * ("transformer.", "bert.", "model.", ...), and LayerNorm's gamma and beta of old files for
 * weight and bias; NULL when there is none.  *file is where it stands. */
const lipsc_st_tensor *lipsc_checkpoint_find(const lipsc_checkpoint *checkpoint,
                                             const char *name, const lipsc_st **file);

/* Numbers stored in all floating-point tensors, and their common dtype ("mixed"). */
uint64_t lipsc_checkpoint_numbers(const lipsc_checkpoint *checkpoint);
const char *lipsc_checkpoint_dtype(const lipsc_checkpoint *checkpoint);

/* Adds every weight file to a hash, its length first. */
lipsc_status lipsc_checkpoint_hash(const lipsc_checkpoint *checkpoint, lipsc_sha256 *sha,
                                   lipsc_error *err);

/* DIR/NAME, to be released; NULL without memory. */
char *lipsc_path_join(const char *dir, const char *name);

#endif
