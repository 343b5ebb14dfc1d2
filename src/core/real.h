/* real.h - decimal numbers, whatever locale the host program has chosen. */
#ifndef LIPSC_CORE_REAL_H
#define LIPSC_CORE_REAL_H

/* strtod with a point as decimal separator, always. */
double lipsc_real_parse(const char *text, char **end);

#endif
