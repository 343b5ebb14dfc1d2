/* sha256.h - SHA-256 of bytes that arrive in pieces (FIPS 180-4). */
#ifndef LIPSC_CORE_SHA256_H
#define LIPSC_CORE_SHA256_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
    uint32_t state[8];
    uint64_t length; /* bytes so far */
    uint8_t block[64];
} lipsc_sha256;

void lipsc_sha256_begin(lipsc_sha256 *sha);
void lipsc_sha256_add(lipsc_sha256 *sha, const void *bytes, size_t size);
void lipsc_sha256_end(lipsc_sha256 *sha, char hex[65]); /* 64 digits and a NUL */

#endif
