/* byte_level.c - GPT-2's alphabet: every byte as a printable character.
 *
 * The 188 bytes that print stand for themselves; the others, in order, for U+0100 on. */
#include "token/pretokenizer.h"

static int prints(unsigned byte) {
    return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

/* Bytes below this one that do not print: 0..32, 127..160, 173. */
static unsigned hidden_below(unsigned byte) {
    if (byte <= 0x20) return byte;
    if (byte <= 0x7f) return 0x21;
    if (byte <= 0xa0) return 0x21 + (byte - 0x7f);
    return byte <= 0xad ? 0x21 + 0x22 : 0x21 + 0x22 + 1;
}

uint32_t lipsc_byte_to_code(unsigned char byte) {
    return prints(byte) ? byte : 0x100 + hidden_below(byte);
}

int lipsc_code_to_byte(uint32_t code) {
    if (code < 0x100) return prints(code) ? (int)code : -1;
    const uint32_t place = code - 0x100;
    if (place <= 0x20) return (int)place;
    if (place <= 0x20 + 0x22) return (int)(place - 0x21 + 0x7f);
    return place == 0x20 + 0x22 + 1 ? 0xad : -1;
}
