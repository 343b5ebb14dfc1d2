/* assemble.h - a tokenizer from the JSON that describes it. */
#ifndef LIPSC_TOKEN_ASSEMBLE_H
#define LIPSC_TOKEN_ASSEMBLE_H

#include "token/token.h"

#include <jansson.h>

/* file: as it is shown in sentences. */
lipsc_status lipsc_json_read(const char *json, size_t size, const char *file, json_t **out,
                             lipsc_error *err);
/* root stays the caller's. */
lipsc_status lipsc_tokenizer_assemble(json_t *root, const char *file, lipsc_tokenizer **out,
                                      lipsc_error *err);

#endif
