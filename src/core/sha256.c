/* sha256.c - SHA-256 of bytes that arrive in pieces (FIPS 180-4).
 *
 * By hand because it is sixty lines, and the libraries that have it (OpenSSL, gcrypt) are a
 * hundred times the size of everything else we link. */
#include "core/sha256.h"

#include <string.h>

static const uint32_t k[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4,
    0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe,
    0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f,
    0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7,
    0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc,
    0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
    0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116,
    0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
    0xc67178f2};

static uint32_t turn(uint32_t x, int by) { return x >> by | x << (32 - by); }

static void absorb(uint32_t state[8], const uint8_t *block) {
    uint32_t w[64];
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 |
               (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
    for (int i = 16; i < 64; i++) {
        const uint32_t x = w[i - 15], y = w[i - 2];
        w[i] = w[i - 16] + w[i - 7] + (turn(x, 7) ^ turn(x, 18) ^ x >> 3) +
               (turn(y, 17) ^ turn(y, 19) ^ y >> 10);
    }
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
    uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
    for (int i = 0; i < 64; i++) {
        const uint32_t one = turn(e, 6) ^ turn(e, 11) ^ turn(e, 25);
        const uint32_t t1 = h + one + ((e & f) ^ (~e & g)) + k[i] + w[i];
        const uint32_t zero = turn(a, 2) ^ turn(a, 13) ^ turn(a, 22);
        const uint32_t t2 = zero + ((a & b) ^ (a & c) ^ (b & c));
        h = g, g = f, f = e, e = d + t1;
        d = c, c = b, b = a, a = t1 + t2;
    }
    const uint32_t sum[8] = {a, b, c, d, e, f, g, h};
    for (int i = 0; i < 8; i++) state[i] += sum[i];
}

void lipsc_sha256_begin(lipsc_sha256 *sha) {
    static const uint32_t start[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    memcpy(sha->state, start, sizeof start);
    sha->length = 0;
}

void lipsc_sha256_add(lipsc_sha256 *sha, const void *bytes, size_t size) {
    const uint8_t *p = bytes;
    const size_t held = (size_t)(sha->length % 64);
    sha->length += size;
    if (held) {
        const size_t now = size < 64 - held ? size : 64 - held;
        memcpy(sha->block + held, p, now);
        p += now, size -= now;
        if (held + now < 64) return;
        absorb(sha->state, sha->block);
    }
    for (; size >= 64; p += 64, size -= 64) absorb(sha->state, p);
    if (size) memcpy(sha->block, p, size);
}

void lipsc_sha256_end(lipsc_sha256 *sha, char hex[65]) {
    static const char digits[] = "0123456789abcdef";
    static const uint8_t padding[64] = {0x80};
    const uint64_t bits = sha->length * 8;
    uint8_t length[8];
    for (int i = 0; i < 8; i++) length[i] = (uint8_t)(bits >> (56 - 8 * i));
    lipsc_sha256_add(sha, padding, 1 + (size_t)((119 - sha->length % 64) % 64));
    lipsc_sha256_add(sha, length, sizeof length);
    for (int i = 0; i < 64; i++)
        hex[i] = digits[sha->state[i / 8] >> (28 - i % 8 * 4) & 15];
    hex[64] = '\0';
}
