/* gguf_bytes.h - a GGUF file of notes only, put together note by note. */
#ifndef LIPSC_TEST_GGUF_BYTES_H
#define LIPSC_TEST_GGUF_BYTES_H

#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { GGUF_UINT32 = 4, GGUF_FLOAT32 = 6, GGUF_STRING = 8, GGUF_ARRAY = 9 };

typedef struct {
    unsigned char at[4096];
    size_t size;
    uint64_t notes;
} gguf_bytes;

static inline void gguf_put(gguf_bytes *g, const void *from, size_t size) {
    assert(g->size + size <= sizeof g->at);
    memcpy(g->at + g->size, from, size);
    g->size += size;
}
static inline void gguf_put_u32(gguf_bytes *g, uint32_t value) { gguf_put(g, &value, 4); }
static inline void gguf_put_u64(gguf_bytes *g, uint64_t value) { gguf_put(g, &value, 8); }
static inline void gguf_put_text(gguf_bytes *g, const char *text) {
    gguf_put_u64(g, strlen(text));
    gguf_put(g, text, strlen(text));
}

static inline void gguf_note(gguf_bytes *g, const char *key, uint32_t type) {
    gguf_put_text(g, key);
    gguf_put_u32(g, type);
    g->notes++;
}
static inline void gguf_note_text(gguf_bytes *g, const char *key, const char *text) {
    gguf_note(g, key, GGUF_STRING);
    gguf_put_text(g, text);
}
static inline void gguf_note_list(gguf_bytes *g, const char *key, uint32_t type,
                                  uint64_t count) {
    gguf_note(g, key, GGUF_ARRAY);
    gguf_put_u32(g, type);
    gguf_put_u64(g, count);
}

/* 0, or what went wrong with the file. */
static inline int gguf_write(const gguf_bytes *g, const char *path) {
    FILE *file = fopen(path, "wb");
    const uint32_t version = 3;
    const uint64_t tensors = 0;
    if (!file) return -1;
    int bad = fwrite("GGUF", 1, 4, file) != 4 || fwrite(&version, 4, 1, file) != 1 ||
              fwrite(&tensors, 8, 1, file) != 1 || fwrite(&g->notes, 8, 1, file) != 1 ||
              fwrite(g->at, 1, g->size, file) != g->size;
    bad |= fclose(file);
    return bad;
}

#endif
