# cmake -DFROM=file -DTO=file.c -DNAME=symbol -P embed.cmake: a file as a C array.
file(READ ${FROM} bytes HEX)
string(LENGTH "${bytes}" digits)
math(EXPR size "${digits} / 2")
string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
get_filename_component(source ${FROM} NAME)
file(WRITE ${TO} "/* ${source}, made by embed.cmake. */
#include <stddef.h>
extern const unsigned char ${NAME}[];
extern const size_t ${NAME}_size;
const size_t ${NAME}_size = ${size};
const unsigned char ${NAME}[] = {
${bytes}};
")
