/* ids.h - token ids written as text, and their hash. */
#ifndef LIPSC_CLI_IDS_H
#define LIPSC_CLI_IDS_H

#include <stdint.h>

#include "lipscope.h"

/* Whole numbers separated by white space, by commas, or in one JSON list.  name: the file,
 * in sentences; *ids (free with lipsc_release) is never NULL on success. */
lipsc_status cli_ids_parse(const char *name, const char *bytes, size_t size, uint32_t **ids,
                           size_t *count, lipsc_error *err);

/* SHA-256 of ids, 32 bits each, little-endian. */
void cli_ids_hash(size_t count, const uint32_t *ids, char hash[65]);

#endif
