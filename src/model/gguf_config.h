/* gguf_config.h - the notes of a GGUF file as a configuration. */
#ifndef LIPSC_MODEL_GGUF_CONFIG_H
#define LIPSC_MODEL_GGUF_CONFIG_H

#include "io/gguf.h"

/* *json (free with free): an object whose model_type is "gguf:ARCHITECTURE" and whose
 * fields are the numbers of that architecture's notes, without its name in front; further
 *     vocab_size, type_vocab_size   rows of these embeddings
 *     has:NAME                      true for each tensor NAME of the first block
 *     rope_parameters               the stretching of rotary positions, in the spelling of
 *                                   config.json
 * The descriptions in family_gguf.c read these fields. */
lipsc_status lipsc_gguf_config(const lipsc_gguf *gguf, char **json, lipsc_error *err);

#endif
