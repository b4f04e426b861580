/* Attention over the paged pool, as attend.c and Python call it. */
#include "capture.h"

#define SERIAL_BELOW (1 << 17) /* numbers to read; waking the other threads takes longer */

/* A sequence with several new tokens. All numbers are int64; the address is, too. */
typedef struct {
    int64_t begin, end;    /* packed tokens */
    int64_t first, length; /* index of the first token's own key, and number of keys */
    const int64_t *slots;  /* [length] */
    int64_t before;        /* weights of a head in the preceding spans */
    int64_t slice;         /* index of the sequence in the step */
} Span;

void decode_attention(const float *, int64_t, int64_t, const int64_t *, const float *, const float *, const int64_t *,
                      int64_t, const uint8_t *, const float *, float *, float *, int64_t, int64_t, int64_t, int64_t,
                      int64_t, int64_t, float, float, int);
int prefill_spans(const float *, int64_t, int64_t, const float *, const float *, const Span *, int64_t, const float *,
                  float *, uint8_t *, const Form *, int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, float, float,
                  int);
